"""Commands and files that stand within one word, in the own language of a program.

For rules that deny: found too often rather than too seldom.
"""

import re
from collections.abc import Iterator, Sequence

from dirge_py.permission.inline_code import code_in
from dirge_py.permission.marks import plain_text
from dirge_py.permission.words import listed

_SSH = listed("ssh scp sftp rsync")
_SSH_RUNS = re.compile(
    r"(?:-o)?\s*(?:Proxy|Local|Remote|KnownHosts)Command\s*[= ]\s*(.+)", re.IGNORECASE | re.DOTALL
)
_EDITORS = listed("vi vim nvim ex view vimdiff ed")
_SED = listed("sed gsed")
_SED_RUNS = re.compile(r"(?:^|[\s;{}0-9$/!])e\s+([^\n]+)")
_SED_RESULT = re.compile(r"s([^\w\s])(?:(?!\1).)*\1((?:(?!\1).)*)\1\w*e")
_SED_FILES = re.compile(r"[rRwW]\s*([^\s;{}'\"]+)")
_TEXT = re.compile(r"'([^'\\\s]+)'|\"([^\"\\\s]+)\"")
_PUTS_INTO = listed("cp mv install ln rsync scp")
_FOLDER = re.compile(r"(?:\A|/)\.{0,2}\Z|\A~\Z")
_RUNS_IN = {
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), listed("exec x dlx")),
    **dict.fromkeys(("docker", "podman", "nerdctl"), listed("exec run")),
    **dict.fromkeys(("kubectl", "oc"), listed("exec debug run")),
}
_MOST = 64


def texts_run(name: str, words: Sequence[str]) -> Iterator[str]:
    """Command lines that a program is told within its words."""
    for word in map(plain_text, words[1:]):
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


def run_elsewhere(name: str, words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """What may be the command that a program runs in a container, or out of a package."""
    verbs = _RUNS_IN.get(name, frozenset())
    at = next((at for at, word in enumerate(words) if word in verbs), 0)
    for start in range(at + 1, min(len(words), at + _MOST)) if at else ():
        if not words[start].startswith("-"):
            yield tuple(words[start:])


def files_told(commands: Sequence[Sequence[str]]) -> Iterator[str]:
    """Files that the code in the words of commands names, or that copying puts in a folder."""
    for words in commands:
        name = words[0].rsplit("/", 1)[-1]
        code = code_in(name, words)
        for found in list(_TEXT.finditer(code))[:_MOST]:
            yield found.group(1) or found.group(2)
        if name in _SED:
            for word in words[1:]:
                yield from _SED_FILES.findall(word)[:_MOST]
        operands = [word for word in words[1:] if not word.startswith("-")]
        if name in _PUTS_INTO and len(operands) > 1 and _FOLDER.search(operands[-1]):
            for source in operands[:-1][:_MOST]:
                yield f"{operands[-1]}/{source.rstrip('/').rpartition('/')[2]}"
