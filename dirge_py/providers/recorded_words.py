"""Words that a model says in pieces, put together to see whether one of them is a secret."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile
from typing import Generic, Protocol, TypeVar

Path = tuple[str | int, ...]
"""Where a text stands in an event: names of members, and places in lists."""

_CONTEXT_CHARS = 64
"""What a secret may be known by, such as `Bearer`, stands this near before it."""
_LONGEST_WORD = 512
_LONGEST_BLOCK = 16_384
_BETWEEN_WORDS = re.compile(r"""[\s"'`,;(){}\[\]<>\\]""")
_AS_LONG_AS_A_SECRET = re.compile(r"""[^\s"'`,;(){}\[\]<>\\]{8}""")
_BLOCK, _BLOCK_END = "-----BEGIN ", "-----END "
_EVENTS_BEFORE_OVER = 16
"""A text that so many events say nothing of does not go on."""


class Holder(Protocol):
    """An event that is kept until every word it has a part in is over."""

    holds: int

    def say(self, path: Path, text: str) -> None:
        """Put `text` in the place of what the event says there."""
        ...


H = TypeVar("H", bound=Holder)


@dataclass(slots=True)
class _Part(Generic[H]):
    holder: H
    path: Path
    text: str


class _Strand(Generic[H]):
    """The text of one place, as it grows from event to event."""

    def __init__(self) -> None:
        self.before = ""
        self.parts: list[_Part[H]] = []
        self.last_event = 0

    @property
    def text(self) -> str:
        return self.before + "".join(part.text for part in self.parts)

    def let_go(self, over: int) -> None:
        """The parts within the first `over` characters of the text are."""
        at, count = len(self.before), 0
        for part in self.parts:
            at += len(part.text)
            if at > over:
                break
            count += 1
            part.holder.holds -= 1
        said = "".join(part.text for part in self.parts[:count])
        self.before = (self.before + said)[-_CONTEXT_CHARS:]
        del self.parts[:count]

    def replace(self, new: str) -> None:
        """Spread the new text over the parts: what was replaced goes to the first it touches."""
        old = self.text
        begin = _alike(old, new)
        end = _alike(old[begin:][::-1], new[begin:][::-1])
        stop, put = len(old) - end, new[begin : len(new) - end]
        at = len(self.before)
        for part in self.parts:
            first, last = max(begin - at, 0), min(stop - at, len(part.text))
            at += len(part.text)
            if first < last or (put and at >= stop):
                part.text = part.text[:first] + put + part.text[max(last, first) :]
                part.holder.say(part.path, part.text)
                put = ""


class Words(Generic[H]):
    """All the texts of one answer, by their places."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        self._redact = redact
        self._strands: dict[Path, _Strand[H]] = {}
        self._event = 0

    def begin_event(self) -> None:
        """Another event: what none of the last ones spoke of is over."""
        self._event += 1
        for path, strand in list(self._strands.items()):
            if self._event - strand.last_event > _EVENTS_BEFORE_OVER:
                self._end(path)

    def hear(self, holder: H, path: Path, text: str) -> None:
        """`holder` says `text` at `path`; it is held until the word is over."""
        strand = self._strands.setdefault(path, _Strand())
        strand.last_event = self._event
        strand.parts.append(_Part(holder, path, text))
        holder.holds += 1
        self._let_go(strand, _over(strand.text))

    def close(self) -> None:
        """Nothing goes on."""
        for path in list(self._strands):
            self._end(path)

    def _end(self, path: Path) -> None:
        strand = self._strands.pop(path)
        self._let_go(strand, len(strand.text))

    def _let_go(self, strand: _Strand[H], over: int) -> None:
        """The first `over` characters are whole words: redact them, and hold them no longer.

        Not before: of a word that merely looks like a secret, what came later would stay.
        """
        whole = strand.text
        if _AS_LONG_AS_A_SECRET.search(whole, len(strand.before), over):
            redacted = self._redact(whole[:over])
            if redacted != whole[:over]:
                strand.replace(redacted + whole[over:])
                over = len(redacted)
        strand.let_go(over)


def _over(text: str) -> int:
    """How many characters come before the word, or the block, that may go on."""
    block = text.rfind(_BLOCK)
    if block > text.rfind(_BLOCK_END):
        return max(block, len(text) - _LONGEST_BLOCK)
    last_word = _BETWEEN_WORDS.split(text)[-1]
    return len(text) - min(len(last_word), _LONGEST_WORD)


def _alike(one: str, other: str) -> int:
    """How many characters both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
