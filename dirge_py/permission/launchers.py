"""Programs that run other commands, and the commands in their arguments.

A command can be separate words (`sudo rm x`), inline code (`python -c …`, `awk '…'`), or part of
one word in the program's own language (`sed 'e …'`, `ssh -o ProxyCommand=…`). In code, only
commands written as text are found. Deny rules use the results, so they hold too many commands
rather than too few.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile

from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.shell_lexer import ANYTHING, FOUND, QUOTED, UNRUN, unmarked, word_set
from dirge_py.permission.command_splitter import ASSIGNMENT, SplitCommand, is_unresolved
from dirge_py.permission.patterns import program_of
from dirge_py.permission.prefix_rules import GIT_VALUED, escapes

WRAPPERS = word_set(
    "sudo doas env nohup timeout time nice ionice chrt stdbuf setsid xargs command builtin exec"
    " watch parallel busybox toybox chroot unshare nsenter script strace ltrace gdb su runuser ssh"
    " flock taskset caffeinate unbuffer trap coproc setarch firejail bwrap systemd-run prlimit"
    " setpriv fakeroot proot pkexec sg eatmydata faketime valgrind perf xvfb-run dbus-run-session"
    " direnv tmux screen rlwrap chpst numactl npx uv poetry pipenv"
)
SHELLS = word_set("sh bash zsh dash ksh mksh ash fish eval")
REMOVERS = word_set("rm shred srm unlink rimraf trash trash-put")
READERS = word_set(
    "cat tac head tail less more most bat batcat nl wc sort uniq cut paste tr rev fold fmt pr"
    " column comm join diff cmp grep egrep fgrep zgrep rg ag ack sed awk gawk mawk jq yq od xxd"
    " hexdump strings base64 base32 md5sum sha1sum sha256sum sha512sum cp mv ln install rsync scp"
    " tar zip gzip bzip2 xz zstd zcat bzcat xzcat dd tee curl wget openssl gpg split csplit iconv"
    " expand unexpand vim vi view nano ed ex cpio source . envsubst"
)
_LOADER = late_pattern(r"ld\.so|ld-.*\.so.*|ld-linux.*")
_MAX_TAILS = 48
_EXEC_FLAGS = frozenset(("-exec", "-execdir", "-ok", "-okdir"))
_VALUED = {
    "sudo": "ugphCDRTrtU", "doas": "uC", "env": "uC", "timeout": "ks", "time": "fo", "nice": "n",
    "ionice": "cnp", "stdbuf": "ioe", "xargs": "IEdLnPsa", "exec": "a", "watch": "n", "nohup": "",
    "flock": "wE", "ssh": "BbcDEeFIiJLlmOopQRSWw", "setsid": "", "command": "", "builtin": "",
    "chroot": "", "caffeinate": "tw",
}  # fmt: skip
_OPERANDS = {"timeout": 1, "flock": 1, "ssh": 1, "chroot": 1}
_LONG_VALUED = word_set(
    "--user --group --signal --kill-after --chdir --unset --adjustment --max-args --max-procs"
    " --max-lines --max-chars --arg-file --delimiter --eof --host --prompt --class --classdata"
    " --interval --timeout --userspec"
)
_TAKES_TEXT = word_set("eval ssh watch trap parallel coproc tmux screen")
_GLUED = late_pattern(r"-[A-Za-z]|--[a-z-]+=")
_FROM_INPUT = late_pattern(r"-|/dev/stdin|/dev/fd/\d+|/proc/(?:self|thread-self|\d+)/fd/\d+")
_GIT_ALIAS = late_pattern(r"alias\.[^=]+=", re.IGNORECASE)
_GIT_COMMANDS = word_set(
    "absorb add am annex annotate apply archive bisect blame branch bundle cat-file check-attr"
    " check-ignore check-ref-format checkout checkout-index cherry cherry-pick clean cliff clone"
    " column commit commit-graph commit-tree config count-objects credential daemon describe diff"
    " diff-files diff-index diff-pairs diff-tree difftool fast-export fast-import fetch fetch-pack"
    " filter-branch flow for-each-ref for-each-repo format-patch fsck gc get-tar-commit-id grep gui"
    " hash-object help hook index-pack init init-db instaweb interpret-trailers lfs log ls-files"
    " ls-remote ls-tree mailinfo mailsplit maintenance merge merge-base merge-file merge-index"
    " merge-tree mergetool mktag mktree mv name-rev notes p4 pack-objects pack-refs patch-id prune"
    " pull push range-diff read-tree rebase reflog remote repack replace request-pull rerere reset"
    " restore rev-list rev-parse revert rm send-email send-pack shortlog show show-branch"
    " show-index show-ref sparse-checkout stage stash status stripspace submodule subtree svn"
    " switch symbolic-ref tag unpack-file unpack-objects update-index update-ref update-server-info"
    " var verify-commit verify-pack verify-tag version whatchanged worktree write-tree"
)


@dataclass(frozen=True, slots=True)
class InnerCommand:
    """A command that another command runs: words, or a text that a shell reads."""

    words: SplitCommand = ()
    """The words of the command."""
    text: str = ""
    """The text that a shell reads."""
    is_guess: bool = False
    """Whether it may be only an argument; then its unknown parts are ignored."""


def inner_commands(name: str, words: SplitCommand, *, is_fed: bool) -> Iterator[InnerCommand]:
    """Yield all commands that it would run; `is_fed`: its input is in the command line."""
    if name in WRAPPERS or name in SHELLS or _LOADER.fullmatch(name):
        yield from _tails(name, words)
        yield from _texts(name, words)
    if name in ("xargs", "parallel"):
        yield from _fed_with_words(name, words)
    if _reads_commands(name, words) and not is_fed:
        yield InnerCommand((ANYTHING,))
    if name == "find":
        yield from _of_find(words)
    if name == "git":
        yield from _of_git(words)
    for escape in escapes(words):
        if escape.text and name != "find":
            yield InnerCommand(text=unmarked(escape.text))
    yield from map(InnerCommand, _commands_in_code(name, words))
    for text in _command_lines_in_words(name, words):
        yield InnerCommand(text=text, is_guess=True)
    for tail in _commands_run_elsewhere(name, words):
        # It runs elsewhere, or maybe not at all, so it destroys nothing on this machine.
        yield InnerCommand((*tail, UNRUN), is_guess=True)


def find_starts(words: Sequence[str]) -> tuple[str, ...]:
    """Return the paths where a `find` begins to search."""
    operands = (word for word in words[1:] if word not in ("-H", "-L", "-P"))
    return tuple(takewhile(lambda word: word[:1] not in ("-", "(", "!", ","), operands)) or (".",)


def _tails(name: str, words: SplitCommand) -> Iterator[InnerCommand]:
    # Which words are options of a wrapper is irrelevant: the wrapped command is one of the tails.
    start = _command_start(name, words)
    for at in range(1, min(len(words), _MAX_TAILS)):
        if not words[at].startswith("-") and not _is_after_wrapper(words, at):
            yield InnerCommand(words[at:], is_guess=start is not None and at != start)


def _is_after_wrapper(words: SplitCommand, at: int) -> bool:
    # `sudo sudo sudo …`: the tail after an inner wrapper is found when that one is read.
    return at > 1 and words[at - 1] in WRAPPERS


def _command_start(name: str, words: SplitCommand) -> int | None:
    """Return the index of the wrapped command; 0: there is none; None: it could be at any word."""
    if name in SHELLS:
        return 1 if name == "eval" else 0
    if name not in _VALUED:
        return None
    at, operands = 1, _OPERANDS.get(name, 0)
    while at < len(words):
        word = words[at]
        if is_unresolved(word) and QUOTED not in word and not ASSIGNMENT.match(word):
            return None if word.startswith("-") or operands else at
        if word.startswith("-") and (word != "-" or name == "env"):
            takes_next = word[-1] in _VALUED[name] and len(word) == 2
            at += 2 if takes_next or word in _LONG_VALUED else 1
        elif ASSIGNMENT.match(word) and name in ("env", "sudo", "doas"):
            at += 1
        elif operands:
            operands -= 1
            at += 1
        else:
            return at
    return 0


def _texts(name: str, words: SplitCommand) -> Iterator[InnerCommand]:
    for at, word in enumerate(words[1:], start=1):
        text = unmarked(word)
        if not re.search(r"[\s;&|`$<>]", text):
            continue
        is_code = name in _TAKES_TEXT or _is_code_flag(name, words[at - 1])
        yield InnerCommand(text=text, is_guess=not is_code)
        # `env -S'git push'`: the text is attached to its option.
        if glued := _GLUED.match(text):
            yield InnerCommand(
                text=text[glued.end() :], is_guess=not _is_code_flag(name, glued.group())
            )
    if name == "eval":
        yield InnerCommand(text=" ".join(map(unmarked, words[1:])))


def _is_code_flag(name: str, flag: str) -> bool:
    if name == "env":
        return flag.rstrip("=") in ("-S", "--split-string")
    if name in SHELLS or name in ("su", "runuser", "script", "flock", "sg"):
        return bool(re.fullmatch(r"-[A-Za-z]*c|--command=?", flag))
    return False


def _fed_with_words(name: str, words: SplitCommand) -> Iterator[InnerCommand]:
    """Yield the command that gets words from its input appended."""
    sign = "{}" if name == "parallel" else ""
    for at, word in enumerate(words[1:], start=1):
        if name == "xargs" and word in ("-I", "--replace") and at + 1 < len(words):
            sign = words[at + 1] if word == "-I" else "{}"
        elif name == "xargs" and (found := re.match(r"-I(.+)|--replace=(.+)|-i(.*)", word)):
            sign = next(filter(None, found.groups()), "{}")
    if name == "parallel" and ":::" in words:
        words = words[: words.index(":::")]
    start = _command_start(name, words)
    for at in range(1, min(len(words), _MAX_TAILS)) if start is None else (start,):
        if _is_after_wrapper(words, at):
            continue
        tail = words[at:] if at else ()
        if not tail and name == "xargs":
            continue
        plain = tuple(map(unmarked, tail))
        if sign and any(sign in word for word in plain):
            yield InnerCommand(tuple(word.replace(sign, ANYTHING) for word in plain))
        elif tail[-1:] != (ANYTHING,):
            yield InnerCommand((*tail, ANYTHING))
    if name == "parallel" and len(words) == 1:
        yield InnerCommand((ANYTHING,))


def _reads_commands(name: str, words: SplitCommand) -> bool:
    """Whether a shell reads its commands from its input."""
    if name in ("source", "."):
        return len(words) < 2 or bool(_FROM_INPUT.fullmatch(words[1]))
    if name in ("at", "batch"):
        return "-f" not in words
    if name not in SHELLS or name == "eval":
        return False
    at = 1
    while at < len(words) and words[at][:1] in ("-", "+") and words[at] != "-":
        if words[at] in ("--version", "--help") or re.fullmatch(r"-[A-Za-z]*c", words[at]):
            return False
        if re.fullmatch(r"-[A-Za-z]*s", words[at]):
            return True
        at += 2 if words[at] in ("-o", "+o", "-O", "+O", "--rcfile", "--init-file") else 1
    return at >= len(words) or bool(_FROM_INPUT.fullmatch(words[at]))


def _of_find(words: SplitCommand) -> Iterator[InnerCommand]:
    for index, word in enumerate(words[:-1]):
        if word not in _EXEC_FLAGS:
            continue
        rest = words[index + 1 :]
        yield InnerCommand(rest, is_guess=True)
        ends = [at for at, one in enumerate(rest) if one in (";", "+")]
        own = rest[: ends[0]] if ends else rest
        for start in find_starts(words) if any("{}" in unmarked(one) for one in own) else (".",):
            yield InnerCommand(tuple(_with_found(one, start) for one in own))


def _with_found(word: str, start: str) -> str:
    text = unmarked(word)
    if "{}" not in text:
        return word
    return text.replace("{}", ANYTHING if re.search(r"\s", text) else f"{start}{FOUND}")


def _of_git(words: SplitCommand) -> Iterator[InnerCommand]:
    start = 1
    while start < len(words) and words[start].startswith("-"):
        start += 2 if words[start] in GIT_VALUED else 1
    rest = words[start:]
    if any(is_unresolved(word) and QUOTED not in word for word in words[1:start]):
        rest = (ANYTHING, *rest)
    yield InnerCommand(("git", *rest))
    for word in words[1:]:
        if alias := _GIT_ALIAS.match(word):
            # `git -c alias.x=push x`, and with a `!` any command.
            yield InnerCommand(text=_aliased(unmarked(word[alias.end() :])))
    if not rest or (len(rest) == len(words) - 1 and rest[0] == words[0]):
        return
    sub, arguments = rest[0], rest[1:]
    if not is_unresolved(sub) and sub not in _GIT_COMMANDS:
        # It may be an alias of the repository or of the user, and run anything that git can.
        yield InnerCommand(("git", ANYTHING))
    for at, word in enumerate(arguments[:-1]):
        if sub == "config" and word.lower().startswith("alias."):
            yield InnerCommand(text=_aliased(unmarked(arguments[at + 1])))


def _aliased(value: str) -> str:
    return value[1:] if value[:1] == "!" else f"git {value}"


_AWK = late_pattern(r"[gmn]?awk")
_INTERPRETER = late_pattern(
    r"(?:python|pypy|node|nodejs|deno|bun|perl|ruby|php|lua|osascript|tclsh|Rscript)[0-9.]*"
)
_ASKED_EACH_TIME = late_pattern(
    r"(?:python|pypy|node|deno|bun|perl|ruby|php|lua|awk|gawk|osascript|sh|bash|zsh|dash|ksh|fish)"
    r"[0-9.]*"
)
_INLINE = late_pattern(r"-[A-Za-z]*[ceprE]|--(?:eval|command|print|run)(?:=.*)?")
_FLAG = late_pattern(r"-[A-Za-z]*[ceprE]|--(?:eval|command|print|run)|eval")
_STARTS = late_pattern(
    r"\bsystem\b|popen|\bexec|subprocess|\bspawn|posix_spawn|child_process|__import__|importlib"
    r"|getattr|\beval\b|\bcompile\s*\(|ctypes|runpy|globals\s*\(|\bpty\.|\bfork\b|\bqx\b|`|%x|Deno\."
    r"|do shell script|shell_exec|passthru|require\s*\(\s*[^'\")]|chr\s*\(|\\x"
)
_AWK_STARTS = late_pattern(
    r"system\s*\((?!\s*\"[^\"]*\"\s*\))|\|&|(?<!\|)\|(?!\|)\s*(?![\"|\s])|@load"
)
_DELETES = late_pattern(r"rmtree|removedirs|rm_rf|rm_r\b|rmSync|rmdirSync|remove_tree|remove_entry")
_DELETES_FILES = late_pattern(r"\bunlink|\bos\.remove\b|\brm_f\b|\brmdir\b|File\.delete|unlinkSync")
_PATTERN_TEXT = late_pattern(r"<([^<>\s]*[*?][^<>\s]*)>")
_QUOTED_TEXT = late_pattern(r"'([^'\\\n]*)'|\"([^\"\\\n]*)\"")
_MOST_TEXTS = 16


def _commands_in_code(name: str, words: Sequence[str]) -> Iterator[SplitCommand]:
    """Yield the commands that the code in these words would start, as far as they are literal."""
    code = inline_code(name, words)
    if not code:
        return
    text = unmarked(code)
    texts = tuple("".join(found) for found in _QUOTED_TEXT.findall(text))[:_MOST_TEXTS]
    is_awk = bool(_AWK.fullmatch(name))
    starts = _AWK_STARTS if is_awk else _STARTS
    if starts.search(text) or (not is_awk and is_unresolved(code)):
        yield (ANYTHING,)
    if starts.search(text) or (is_awk and re.search(r"system|\|", text)):
        for at, one in enumerate(texts):
            yield texts[at:]
            if " " in one:
                yield ("eval", one)
    if _DELETES.search(text):
        yield from (("rm", "-r", one) for one in texts)
    elif _DELETES_FILES.search(text):
        # These delete single files, which matters only for a pattern.
        patterns = (*texts, *_PATTERN_TEXT.findall(text)[:_MOST_TEXTS])
        yield from (("rm", one) for one in patterns if "*" in one)


def runs_inline_code(words: Sequence[str]) -> bool:
    """Whether these words run code, so that a rule for them would allow different things."""
    name = program_of(words)
    if name in ("eval", "source", ".", "awk", "gawk", "mawk"):
        return True
    return bool(_ASKED_EACH_TIME.fullmatch(name)) and any(
        _INLINE.fullmatch(word) for word in words[1:]
    )


def inline_code(name: str, words: Sequence[str]) -> str:
    """Return the code in the words of an interpreter or of `awk`, or ""."""
    if _AWK.fullmatch(name):
        operands = [at for at, word in enumerate(words) if at and not word.startswith("-")]
        return next((words[at] for at in operands if words[at - 1] not in ("-v", "-F", "-f")), "")
    if not _INTERPRETER.fullmatch(name):
        return ""
    for at, word in enumerate(words[1:-1], start=1):
        if _FLAG.fullmatch(word):
            return words[at + 1]
    glued = (re.match(r"-[ceE](.+)|--eval=(.+)", word, re.DOTALL) for word in words[1:])
    return next((one.group(1) or one.group(2) for one in glued if one), "")


_SSH = word_set("ssh scp sftp rsync")
_SSH_RUNS = late_pattern(
    r"(?:-o)?\s*(?:Proxy|Local|Remote|KnownHosts)Command\s*[= ]\s*(.+)", re.IGNORECASE | re.DOTALL
)
_EDITORS = word_set("vi vim nvim ex view vimdiff ed")
_SED = word_set("sed gsed")
_SED_RUNS = late_pattern(r"(?:^|[\s;{}0-9$/!])e\s+([^\n]+)")
_SED_RESULT = late_pattern(r"s([^\w\s])(?:(?!\1).)*\1((?:(?!\1).)*)\1\w*e")
_SED_FILES = late_pattern(r"[rRwW]\s*([^\s;{}'\"]+)")
_QUOTED_WORD = late_pattern(r"'([^'\\\s]+)'|\"([^\"\\\s]+)\"")
PUTS_INTO = word_set("cp mv install ln rsync scp")
"""Programs whose last operand may be the folder that the other operands are put into."""
_FOLDER = late_pattern(r"(?:\A|/)\.{0,2}\Z|\A~\Z")
_RUNS_IN = {
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), word_set("exec x dlx")),
    **dict.fromkeys(("docker", "podman", "nerdctl"), word_set("exec run")),
    **dict.fromkeys(("kubectl", "oc"), word_set("exec debug run")),
}
_MOST = 64


def _command_lines_in_words(name: str, words: Sequence[str]) -> Iterator[str]:
    """Yield the command lines inside the words of a program."""
    for word in map(unmarked, words[1:]):
        if name in _SSH and (found := _SSH_RUNS.fullmatch(word)):
            yield found.group(1)
        elif name in _EDITORS and "!" in word:
            yield word.partition("!")[2]
        elif name in _SED:
            yield from (found.group(1) for found in _SED_RUNS.finditer(word))
            yield from (found.group(2) for found in _SED_RESULT.finditer(word))
        elif name in ("make", "gmake", "gnumake"):
            if "$(shell" in word:
                yield word.replace("$(shell", "$(").partition("=")[2]
            elif word.startswith("SHELL="):
                yield word.partition("=")[2]


def _commands_run_elsewhere(name: str, words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield possible commands that a program runs in a container, or from a package."""
    verbs = _RUNS_IN.get(name, frozenset())
    at = next((at for at, word in enumerate(words) if word in verbs), 0)
    for start in range(at + 1, min(len(words), at + _MOST)) if at else ():
        if not words[start].startswith("-"):
            yield tuple(words[start:])


def files_named_in_code(commands: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the files that code in the commands names, or that copying puts into a folder."""
    for words in commands:
        name = program_of(words)
        code = inline_code(name, words)
        for found in list(_QUOTED_WORD.finditer(code))[:_MOST]:
            yield found.group(1) or found.group(2)
        if name in _SED:
            for word in words[1:]:
                yield from _SED_FILES.findall(word)[:_MOST]
        operands = [word for word in words[1:] if not word.startswith("-")]
        if name in PUTS_INTO and len(operands) > 1 and _FOLDER.search(operands[-1]):
            for source in operands[:-1][:_MOST]:
                yield f"{operands[-1]}/{source.rstrip('/').rpartition('/')[2]}"
