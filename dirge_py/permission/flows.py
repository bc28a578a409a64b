"""What the unknown words of a removal could be, as far as the command line spells it.

Guessed high, for commands that would destroy something: a variable may hold whatever the line gives
it anywhere, a parameter whatever the line gives to any function or shell, and what is read from
input may be any text that stands in the line.
"""

import itertools
import re
from collections.abc import Iterable, Iterator

from dirge_py.permission.launchers import REMOVERS, SHELLS
from dirge_py.permission.marks import ANYTHING, UNRUN, plain
from dirge_py.permission.scanner import Command
from dirge_py.permission.variables import ASSIGNMENT
from dirge_py.permission.words import listed

_RELEVANT = REMOVERS | listed(
    "chmod chown chgrp chattr setfacl chcon mv cp install tee ln dd find rsync tar bsdtar zip 7z"
    " git wipefs shred mkfs blkdiscard"
)
_LEADERS = listed("if then elif else while until do ! { time command builtin")
_FUNCTION = re.compile(r"(?<![\w.:-])([\w.:-]+)\s*\(\s*\)|\bfunction\s+([\w.:-]+)")
_ARRAY = re.compile(r"(?<!\w)([A-Za-z_]\w*)\+?=\(([^()]*)\)")
_INNERMOST = re.compile(r"\$\{[^{}]*\}|\$(?:[A-Za-z_]\w*|[0-9@*])|\$\(\)|`")
_PARAMETER = re.compile(r"\$\{?([A-Za-z_]\w*|[0-9]+|[@*])(.*?)\}?", re.DOTALL)
_DEFAULT = re.compile(r"(?:\[[^\]]*\])?:?[-=+](.*)", re.DOTALL)
_MOST_TEXTS = 256
_MOST_FORMS = 64


class Flows:
    """What the commands of one line hand to variables, parameters and input."""

    def __init__(self, text: str) -> None:
        self._functions = {one or other for one, other in _FUNCTION.findall(text)}
        self._held: dict[str, dict[str, None]] = {}
        self._given: dict[str, None] = {}
        self._fed: dict[str, None] = {}
        for name, inner in _ARRAY.findall(text):
            for value in re.sub(r"['\"\\]", "", inner).split()[:_MOST_TEXTS]:
                self._hold(name, value)

    def note(self, words: Command) -> None:
        """Take what this command hands on."""
        if UNRUN in words:
            for text in plain(words)[:_MOST_TEXTS]:
                self._fed.update(dict.fromkeys((text, *text.split()[:_MOST_TEXTS])))
            return
        words = plain(words)
        for word in words:
            if found := ASSIGNMENT.match(word):
                self._assign(found.group(1), word[found.end() :], is_added=bool(found.group(3)))
        name, *rest = (*itertools.dropwhile(_leads, words), "")
        rest = rest[:-1]
        if name == "set" or name in SHELLS or name in self._functions:
            self._given.update(dict.fromkeys(one for one in rest if not one.startswith("-")))
        elif name in ("for", "select") and rest:
            for value in rest[2:] if "in" in rest[1:2] else ("$@",):
                self._hold(rest[0], value)
        elif name in ("read", "mapfile", "readarray"):
            for one in (*rest, "REPLY", "MAPFILE"):
                self._hold(one, ANYTHING)
        elif name == "printf" and rest[:1] == ["-v"] and len(rest) > 1:
            for value in rest[2:]:
                self._hold(rest[1], value)

    def spelled(self, commands: Iterable[Command]) -> Iterator[Command]:
        """The commands that remove or overwrite, with what their unknown words could be."""
        for words in commands:
            name = words[0].rsplit("/", 1)[-1] if words else ""
            if name not in _RELEVANT and not name.startswith(("mkfs.", "newfs")):
                continue
            for at, word in enumerate(words[1:], start=1):
                for form in self._forms(word):
                    yield (*words[:at], form, *words[at + 1 :])

    def _assign(self, name: str, value: str, *, is_added: bool) -> None:
        before = tuple(self._held.get(name, ())) if is_added else ()
        for start in (*before, ""):
            self._hold(name, start + value)

    def _hold(self, name: str, value: str) -> None:
        held = self._held.setdefault(name, {})
        if len(held) < _MOST_TEXTS:
            held[value] = None

    def _forms(self, word: str) -> tuple[str, ...]:
        found: dict[str, None] = {}
        waiting = [word]
        while waiting and len(found) < _MOST_FORMS:
            text = waiting.pop()
            for reference in dict.fromkeys(_INNERMOST.findall(text)):
                for value in self._values(reference):
                    form = text.replace(reference, value)
                    if form not in found and form != word and len(form) < 4096:
                        found[form] = None
                        waiting.append(form)
        return tuple(found)

    def _values(self, reference: str) -> Iterable[str]:
        if reference in (ANYTHING, "`"):
            return self._fed
        parameter = _PARAMETER.fullmatch(reference)
        if not parameter:
            return ()
        name, rest = parameter.groups()
        is_given = name.isdigit() or name in ("@", "*")
        values = self._given if is_given else self._held.get(name, {})
        default = _DEFAULT.fullmatch(rest)
        return (*values, default.group(1)) if default else values


def _leads(word: str) -> bool:
    return word in _LEADERS or bool(ASSIGNMENT.match(word))
