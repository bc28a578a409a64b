"""What of dirge's own a command that may change things would touch, as far as its words tell."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.paths import is_below_any
from dirge_py.permission.changes import changed_files
from dirge_py.permission.danger import HOME_SIGN
from dirge_py.permission.facts import Place
from dirge_py.permission.words import Word, listed

_TAKES_WHOLE = listed("rm mv unlink shred chmod chown chgrp")
_PUTS_INTO = listed("cp mv install ln rsync scp")
_PATH_REST = r"(?![\w.-])[^\s'\"`();,:<>|&\]}]*"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPlaces:
    """Where dirge's own settings, keys and state are, and how a path is looked up."""

    paths: Sequence[str]
    place: Callable[[str], Place]
    home: str

    def touched(
        self, commands: Iterable[Sequence[str]], folders: Sequence[str], text: str
    ) -> tuple[Place, ...]:
        """Places of dirge's own that these commands would touch when they run in the folders.

        `text` is the whole command line: paths in the code of a script count, too.
        """
        running = [place for place in map(self.place, folders) if place.own]
        changed = [place for words in commands for place in self._changed(words, folders)]
        return tuple(dict.fromkeys([*running, *changed, *self._within(text)]))

    def _changed(self, words: Sequence[str], folders: Sequence[str]) -> Iterator[Place]:
        name = words[0].rsplit("/", 1)[-1] if words else ""
        if name not in _TAKES_WHOLE | _PUTS_INTO:
            return
        operands = [one for one in words[1:] if not one.startswith("-")]
        targets = [word.text for op, word in changed_files(tuple(map(Word, words))) if op == "edit"]
        if name in _PUTS_INTO:
            targets += [one.partition("=")[2] for one in words[1:] if one.startswith("--target")]
            targets += operands[-1:]
        for folder in folders:
            for target in targets:
                place = self._at(folder, target)
                if name in _TAKES_WHOLE and self._holds(place.real):
                    yield replace(place, own=f"{place.asked} holds dirge's own settings or state")
                if name in _PUTS_INTO:
                    yield from self._put_into(place, operands)

    def _put_into(self, folder: Place, sources: Sequence[str]) -> Iterator[Place]:
        """What copying or moving the sources into a folder would replace."""
        for source in sources:
            last = source.rstrip("/").rpartition("/")[2]
            # Of such a source only what is in it is copied.
            if last in ("", ".", "..") or source.endswith("/"):
                if self._holds(folder.real):
                    yield replace(folder, own=f"{folder.asked} holds dirge's own settings or state")
                continue
            inner = self.place(os.path.join(folder.asked, last))
            if inner.own or inner.forbidden:
                yield inner

    def _holds(self, real: str) -> bool:
        # Whoever takes the whole machine or home away is told so elsewhere.
        return real not in ("/", self.home) and any(is_below_any(one, [real]) for one in self.paths)

    def _at(self, folder: str, word: str) -> Place:
        named = HOME_SIGN.sub(lambda _: self.home, word, count=1)
        return self.place(os.path.join(folder, named))

    def _within(self, text: str) -> Iterator[Place]:
        for path in self.paths:
            spellings = [path]
            if is_below_any(path, [self.home]) and path != self.home:
                rest = path[len(self.home) :]
                spellings += [f"~{rest}", f"$HOME{rest}", f"${{HOME}}{rest}"]
            for spelled in spellings:
                if spelled not in text:
                    continue
                for found in re.finditer(re.escape(spelled) + _PATH_REST, text):
                    place = self.place(path + found.group()[len(spelled) :])
                    if place.own or place.forbidden:
                        yield place
