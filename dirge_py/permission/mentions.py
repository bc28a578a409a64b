"""The places that the words of a command could name, guessed high: for rules that deny."""

import os.path
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.permission.danger import HOME_SIGN
from dirge_py.permission.facts import Place
from dirge_py.permission.folders import MOVERS
from dirge_py.permission.options import paths_behind_colons
from dirge_py.permission.words import Word

_MAX_MENTIONS = 512
_MAX_FOLDERS = 16
_MAX_PATTERNS = 16
_LONGEST_NAME = 255
_PATTERN = re.compile(r"[*?\[]")
_HERE = re.compile(r"\A(?:~\+|\$PWD|\$\{PWD[^}]*\})(?=/|\Z)")
_CWD = re.compile(r"\A/+proc/+[^/]+/+cwd(?=/|\Z)")
_ROOT = re.compile(r"\A(?:/+proc/+[^/]+/+root)+/*(?=/|\Z)")
_FILE_OF = re.compile(r"(?:[^=]*=)?[@<](.+)|file:(?://(?:localhost)?(?=/))?(.+)", re.DOTALL)
_LETTERS = re.compile(r"-[A-Za-z]{1,4}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """How words become places: where a path leads, and what a pattern could stand for."""

    place: Callable[[str], Place]
    expand: Callable[[str, str], Sequence[str] | None]
    home: str


def mentioned(words: Iterable[str], folders: Sequence[str], naming: Naming) -> tuple[Place, ...]:
    """Every place that a word could name, also as the value of an option or by a pattern."""
    pieces = (piece for word in dict.fromkeys(words) for piece in _pieces(word))
    named = [
        HOME_SIGN.sub(lambda _: naming.home, here(piece), count=1)
        for piece in _first(_MAX_MENTIONS, filter(_is_name, pieces))
    ]
    paths = _first(
        _MAX_MENTIONS, (os.path.join(folder, text) for text in named for folder in folders)
    )
    is_over = len(paths) > _MAX_MENTIONS
    patterns = [text for text in named if _PATTERN.search(text)]
    is_over = is_over or len(patterns) > _MAX_PATTERNS
    for folder in folders:
        for text in patterns[:_MAX_PATTERNS]:
            expanded = naming.expand(folder, text)
            is_over = is_over or expanded is None
            paths.update(dict.fromkeys(expanded or ()))
    found = dict.fromkeys(naming.place(path) for path in list(paths)[: 2 * _MAX_MENTIONS])
    return (*found, *([too_many(naming.place)] if is_over else ()))


def stored_files(
    commands: Iterable[Sequence[str]], folders: Sequence[str], git_top: Callable[[str], str]
) -> Iterator[str]:
    """What the git commands among these could name in a repository, as `git cat-file HEAD:.env`.

    Git counts that from the top of the work tree, `HEAD:./.env` from the physical `folders`.
    """
    for words in commands:
        if all(os.path.basename(word) != "git" for word in words):
            continue
        names = (word for word in words if "://" not in word)
        paths = [path.text for word in names for path in paths_behind_colons(Word(word))]
        tops = {git_top(folder) for folder in folders} if paths else ()
        yield from paths
        yield from (os.path.join(top, path) for top in tops for path in paths)


def _first(most: int, texts: Iterable[str]) -> dict[str, None]:
    """The distinct ones among the first, one more than `most` if there are more."""
    found: dict[str, None] = {}
    for text in texts:
        found[text] = None
        if len(found) > most:
            break
    return found


def too_many(place: Callable[[str], Place]) -> Place:
    """What stands for the places that were not looked at: no rule may allow it."""
    return replace(place("/"), protected="it names too many files to look at")


def folders_entered(
    commands: Iterable[Sequence[str]], folders: Sequence[str], home: str
) -> list[str]:
    """The folders, and those that any `cd` among the commands might lead to from them."""
    found = list(folders)
    for words in commands:
        if words[0] not in MOVERS:
            continue
        for target in words[1:] or ("~",):
            # No path holds a null character, and no look at the files takes one.
            text = HOME_SIGN.sub(lambda _: home, target).replace("\0", "")
            if not text or text.startswith(("-", "$", "`")) or len(found) > _MAX_FOLDERS:
                found += ["/", home]
            else:
                found += [os.path.normpath(os.path.join(folder, text)) for folder in found]
        found = list(dict.fromkeys(found))
    return found


def here(word: str) -> str:
    """The word, where it begins with a way to name the working folder or the root, without it."""
    return _ROOT.sub("", _CWD.sub(".", _HERE.sub(".", word, count=1)))


def _pieces(word: str) -> Iterator[str]:
    # `curl -d @file`, `-F name=@file`, `file:///file`
    if found := _FILE_OF.fullmatch(word):
        yield found.group(1) or found.group(2)
    if not word.startswith("-"):
        yield word
    yield word.partition("=")[2]
    letters = _LETTERS.match(word)
    for end in range(2, letters.end() + 1 if letters else 0):
        yield word[end:]
        if word[end : end + 1] == "@":
            yield word[end + 1 :]


def _is_name(piece: str) -> bool:
    # Longer ones no file system would take: they are no paths.
    if not piece or "\0" in piece or len(piece) > 4096:
        return False
    return all(len(name) <= _LONGEST_NAME for name in piece.split("/"))
