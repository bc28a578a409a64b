"""Streams of answers that the services' SDKs allow, written for these tests.

There is one file for each format and one `[[transcript]]` for each fact. `source` is the SDK and
the test or type that shows the fact. A line of `stream` that begins with `{` is one event; other
lines are sent unchanged. The other keys are the expected result; a missing key is expected to be
empty.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_NAMED = frozenset({"anthropic", "openai-responses"})
"""The formats that name an event before they send it."""


@dataclass(frozen=True, kw_only=True)
class Transcript:
    """One streamed answer and the expected result.

    `calls` are (id, name, arguments), an id `*` being one that we make up. `seals` are the
    signatures of thinking, or hidden thinking, in order; `sealed` is only how many there are, where
    we wrap them. `folds` are compactions. `usage` is (input, output, cache read, cache write).
    `error` is the kind of the error that ends it, and `words` stand in its message.
    """

    kind: str
    name: str
    fact: str
    source: str
    stream: str
    text: str = ""
    thinking: str = ""
    calls: Sequence[Sequence[Any]] = ()
    seals: Sequence[str] = ()
    sealed: int = 0
    folds: Sequence[Mapping[str, Any]] = ()
    stop: str = ""
    usage: Sequence[int] = ()
    error: str = ""
    words: str = ""

    @property
    def body(self) -> bytes:
        """The bytes that the service sends."""
        lines = self.stream.strip("\n").split("\n")
        return "".join(_framed(self.kind, line) for line in lines).encode()


def transcripts(kind: str) -> list[Transcript]:
    """All transcripts of a provider type, in order."""
    name = kind.removeprefix("openai-")
    data = tomllib.loads((Path(__file__).parent / f"{name}.toml").read_text(encoding="utf-8"))
    return [Transcript(kind=kind, **each) for each in data["transcript"]]


def _framed(kind: str, line: str) -> str:
    if kind == "ollama" or not line.startswith("{"):
        return f"{line}\n"
    if kind not in _NAMED:
        return f"data: {line}\n\n"
    name = line.partition('"type":"')[2].partition('"')[0]
    return f"event: {name}\ndata: {line}\n\n"
