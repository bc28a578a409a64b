"""Words by which a program does more than its name says: runs another one, or writes anywhere.

A rule that allows `git *` was not meant for `git -c core.sshCommand=… fetch`: it covers such a word
only if it spells it. The commands that these words start are compared with rules that deny.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.permission.words import listed


@dataclass(frozen=True, slots=True)
class Escape:
    """The word at `at` begins with `name`; `text` is what it would run, "" if it runs nothing."""

    at: int
    name: str
    text: str = ""


_RUNNING: Mapping[str, frozenset[str]] = {
    "fd": listed("-x -X --exec --exec-batch"),
    "fdfind": listed("-x -X --exec --exec-batch"),
    "find": listed("-exec -execdir -ok -okdir"),
    "rg": listed("--pre --hostname-bin"),
    "rsync": listed("-e --rsh --rsync-path"),
    "sort": listed("--compress-program"),
    "tar": listed(
        "-F -I --checkpoint-action --info-script --new-volume-script --rmt-command --rsh-command"
        " --to-command --use-compress-program"
    ),
}
_WRITING: Mapping[str, frozenset[str]] = {
    "find": listed("-delete -fls -fprint -fprint0 -fprintf"),
    "sort": listed("-o --output"),
}
_GIT_GLOBAL = listed("-c --config-env --exec-path --git-dir --work-tree")
_GIT_VALUED = listed(
    "-c -C --config-env --exec-path --git-dir --work-tree --namespace --attr-source --super-prefix"
)
_GIT_RUNNING = listed(
    "--exec --extcmd --upload-pack --receive-pack --open-files-in-pager --ext-diff"
    " --separate-git-dir --to-cmd --cc-cmd --sendmail-cmd --smtp-server --env-filter --tree-filter"
    " --index-filter --parent-filter --msg-filter --commit-filter --tag-name-filter --unsafe-paths"
)
_GIT_SUBCOMMANDS = listed(
    "filter-branch difftool mergetool for-each-repo daemon hook instaweb send-email remote-ext"
    " remote-fd upload-pack receive-pack upload-archive shell cvsserver p4 svn"
)
_GIT_SHORT: Mapping[str, frozenset[str]] = {
    "archive": listed("-o"),
    "difftool": listed("-x"),
    "clone": listed("-c -u --config --template"),
    "format-patch": listed("-o"),
    "grep": listed("-O"),
    "init": listed("--template"),
    "rebase": listed("-x"),
}
_GIT_READS_SETTINGS = re.compile(r"--get\S*|--list|-l|--show-\S+|get|list|--name-only")
_LEAST_SHORTENED = 5


def escapes(words: Sequence[str]) -> Iterator[Escape]:
    """What in the words of a command does more than the program's name says."""
    name = words[0].rsplit("/", 1)[-1] if words else ""
    if name == "git":
        yield from _of_git(words)
        return
    for at, word in enumerate(words[1:], start=1):
        option = _option(word, _RUNNING.get(name, frozenset()))
        if option:
            yield Escape(at, option, _value(words, at, option))
        option = _option(word, _WRITING.get(name, frozenset()))
        if option:
            yield Escape(at, option)


def _of_git(words: Sequence[str]) -> Iterator[Escape]:
    at = 1
    while at < len(words) and words[at].startswith("-"):
        option = _option(words[at], _GIT_GLOBAL)
        if option:
            yield Escape(at, option, _value(words, at, option).partition("=")[2])
        at += 2 if words[at] in _GIT_VALUED else 1
    if at >= len(words):
        return
    sub, start = words[at], at + 1
    if sub in _GIT_SUBCOMMANDS:
        yield Escape(at, sub)
    if sub == "config" and not any(map(_GIT_READS_SETTINGS.fullmatch, words[start:])):
        yield Escape(at, sub)
    short = _GIT_SHORT.get(sub, frozenset())
    for place, word in enumerate(words[start:], start=start):
        if (sub, word) in (("bisect", "run"), ("submodule", "foreach")):
            yield Escape(place, word, " ".join(words[place + 1 :]))
        option = _option(word, _GIT_RUNNING | short)
        if option:
            yield Escape(place, option, _value(words, place, option))
        elif _option(word, listed("--output --output-directory")):
            yield Escape(place, "--output")
        elif re.match(r"(?:ext|fd)::", word):
            yield Escape(place, word, word.partition("::")[2])


def _option(word: str, options: frozenset[str]) -> str:
    """Which of the options this is, also with its value, shortened, or glued to it."""
    if word.startswith("--"):
        name = word.partition("=")[0]
        if name in options:
            return name
        # Programs take the beginning of a long option for the whole.
        near = (one for one in options if len(name) >= _LEAST_SHORTENED and one.startswith(name))
        return name if next(near, "") else ""
    if word in options:
        return word
    return word[:2] if word[:2] in options and len(word) > 2 else ""


def _value(words: Sequence[str], at: int, option: str) -> str:
    """What an option is given: in the same word, or in those behind it."""
    glued = words[at][len(option) :]
    if glued:
        value = glued.removeprefix("=")
        return value.partition("=")[2] if value.startswith("exec=") else value
    return words[at + 1] if at + 1 < len(words) else ""
