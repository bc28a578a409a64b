"""The places that the words of a command could name, guessed high: for rules that deny."""

import os.path
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from dirge_py.permission.danger import HOME_SIGN
from dirge_py.permission.facts import Place
from dirge_py.permission.folders import MOVERS

_MAX_MENTIONS = 1024
_MAX_FOLDERS = 16
_LONGEST_NAME = 255
_LETTERS = re.compile(r"-[A-Za-z]{1,4}")


def mentioned(
    words: Iterable[str], folders: Sequence[str], home: str, place: Callable[[str], Place]
) -> tuple[Place, ...]:
    """Every place that a word could name, also as the value of an option."""
    distinct = dict.fromkeys(words)
    pieces = dict.fromkeys(piece for word in distinct for piece in _pieces(word) if _is_name(piece))
    expanded = [HOME_SIGN.sub(lambda _: home, piece, count=1) for piece in pieces]
    paths = dict.fromkeys(os.path.join(folder, text) for text in expanded for folder in folders)
    found = dict.fromkeys(place(path) for path in list(paths)[:_MAX_MENTIONS])
    return (*found, *([too_many(place)] if len(paths) > _MAX_MENTIONS else ()))


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
            text = HOME_SIGN.sub(lambda _: home, target)
            if text.startswith(("-", "$", "`")) or len(found) > _MAX_FOLDERS:
                found += ["/", home]
            else:
                found += [os.path.normpath(os.path.join(folder, text)) for folder in found]
        found = list(dict.fromkeys(found))
    return found


def _pieces(word: str) -> Iterator[str]:
    if not word.startswith("-"):
        yield word
    yield word.partition("=")[2]
    letters = _LETTERS.match(word)
    for end in range(2, letters.end() + 1 if letters else 0):
        yield word[end:]


def _is_name(piece: str) -> bool:
    # Longer ones no file system would take: they are no paths.
    if not piece or "\0" in piece or len(piece) > 4096:
        return False
    return all(len(name) <= _LONGEST_NAME for name in piece.split("/"))
