"""Code in the words of a command (`python -c …`, `awk '…'`): the programs it would start.

Only what stands in it as text is found. Code that starts programs otherwise could start any.
"""

import re
from collections.abc import Iterator, Sequence

from dirge_py.permission.marks import ANYTHING, plain_text
from dirge_py.permission.scanner import Command
from dirge_py.permission.variables import is_unknown

_AWK = re.compile(r"[gmn]?awk")
_INTERPRETER = re.compile(
    r"(?:python|pypy|node|nodejs|deno|bun|perl|ruby|php|lua|osascript|tclsh|Rscript)[0-9.]*"
)
_ASKED_EACH_TIME = re.compile(
    r"(?:python|pypy|node|deno|bun|perl|ruby|php|lua|awk|gawk|osascript|sh|bash|zsh|dash|ksh|fish)"
    r"[0-9.]*"
)
_INLINE = re.compile(r"-[A-Za-z]*[ceprE]|--(?:eval|command|print|run)(?:=.*)?")
_FLAG = re.compile(r"-[A-Za-z]*[ceprE]|--(?:eval|command|print|run)|eval")
_STARTS = re.compile(
    r"\bsystem\b|popen|\bexec|subprocess|\bspawn|posix_spawn|child_process|__import__|importlib"
    r"|getattr|\beval\b|\bcompile\s*\(|ctypes|runpy|globals\s*\(|\bpty\.|\bfork\b|\bqx\b|`|%x|Deno\."
    r"|do shell script|shell_exec|passthru|require\s*\(\s*[^'\")]|chr\s*\(|\\x"
)
_AWK_STARTS = re.compile(
    r"system\s*\((?!\s*\"[^\"]*\"\s*\))|\|&|(?<!\|)\|(?!\|)\s*(?![\"|\s])|@load"
)
_DELETES = re.compile(r"rmtree|removedirs|rm_rf|rm_r\b|rmSync|rmdirSync|remove_tree|remove_entry")
_DELETES_FILES = re.compile(r"\bunlink|\bos\.remove\b|\brm_f\b|\brmdir\b|File\.delete|unlinkSync")
_PATTERN_TEXT = re.compile(r"<([^<>\s]*[*?][^<>\s]*)>")
_TEXT = re.compile(r"'([^'\\\n]*)'|\"([^\"\\\n]*)\"")
_MOST_TEXTS = 16


def commands_in_code(name: str, words: Sequence[str]) -> Iterator[Command]:
    """Commands that the code in these words would start, as far as it spells them out."""
    code = code_in(name, words)
    if not code:
        return
    text = plain_text(code)
    texts = tuple("".join(found) for found in _TEXT.findall(text))[:_MOST_TEXTS]
    is_awk = bool(_AWK.fullmatch(name))
    starts = _AWK_STARTS if is_awk else _STARTS
    if starts.search(text) or (not is_awk and is_unknown(code)):
        yield (ANYTHING,)
    if starts.search(text) or (is_awk and re.search(r"system|\|", text)):
        for at, one in enumerate(texts):
            yield texts[at:]
            if " " in one:
                yield ("eval", one)
    if _DELETES.search(text):
        yield from (("rm", "-r", one) for one in texts)
    elif _DELETES_FILES.search(text):
        # Of single files; all that is in a folder is meant by a pattern.
        patterns = (*texts, *_PATTERN_TEXT.findall(text)[:_MOST_TEXTS])
        yield from (("rm", one) for one in patterns if "*" in one)


def runs_inline_code(words: Sequence[str]) -> bool:
    """Whether code stands in these words: "the same again" says too little about what it does."""
    name = words[0].rsplit("/", 1)[-1]
    if name in ("eval", "source", ".") or name in ("awk", "gawk", "mawk"):
        return True
    return bool(_ASKED_EACH_TIME.fullmatch(name)) and any(
        _INLINE.fullmatch(word) for word in words[1:]
    )


def code_in(name: str, words: Sequence[str]) -> str:
    """The code that stands in the words of an interpreter or of `awk`, or ""."""
    if _AWK.fullmatch(name):
        operands = [at for at, word in enumerate(words) if at and not word.startswith("-")]
        return next((words[at] for at in operands if words[at - 1] not in ("-v", "-F", "-f")), "")
    if not _INTERPRETER.fullmatch(name):
        return ""
    found = (at for at, word in enumerate(words[:-1]) if at and _FLAG.fullmatch(word))
    at = next(found, 0)
    if at:
        return words[at + 1]
    glued = (re.match(r"-[ceE](.+)|--eval=(.+)", word, re.DOTALL) for word in words[1:])
    return next((one.group(1) or one.group(2) for one in glued if one), "")
