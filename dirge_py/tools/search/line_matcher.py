"""A small replacement for ripgrep: run as a program, it prints matching lines as `rg --json` does.

Python cannot stop a regular expression that runs forever, nor do anything else meanwhile; a
separate process can be ended. It uses only the standard library and the options below, and is
started by path: `python -I -S line_matcher.py PATTERN GUARDED CONTEXT FILE…`. GUARDED is the
pattern for lines with characters that nothing may match.
"""

import codecs
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TextIO, TypeAlias

LINE_LIMIT = 4096
"""The most characters of a line that are printed."""

_UNMATCHED = re.compile("[\r\udc80-\udcff]")

IsHit: TypeAlias = Callable[[str], re.Match[str] | None]


def main(arguments: Sequence[str], out: TextIO) -> None:
    pattern, guarded, context, *paths = arguments
    plain, guarded_pattern = re.compile(pattern), re.compile(guarded)

    def is_hit(line: str) -> re.Match[str] | None:
        line = line.rstrip("\r")
        return (guarded_pattern if _UNMATCHED.search(line) else plain).search(line)

    for path in paths:
        is_begun = False
        for kind, number, text in matches_in(path, is_hit, int(context)):
            if not is_begun:
                out.write(_message("begin", path={"text": path}))
                is_begun = True
            # The reader removes one line end, because ripgrep prints it.
            valid = text.encode(errors="surrogateescape").decode(errors="replace")
            shown = {"text": f"{valid}\r\n"}
            out.write(_message(kind, path={"text": path}, line_number=number, lines=shown))
    out.write(_message("summary"))


def _message(kind: str, **contents: object) -> str:
    return json.dumps({"type": kind, "data": contents}, separators=(",", ":")) + "\n"


def matches_in(path: str, is_hit: IsHit, context: int) -> Iterator[tuple[str, int, str]]:
    """Yield `match` and `context` lines of one file with their numbers; nothing if it is binary."""
    try:
        with open(path, "rb") as stream:
            content = stream.read()
    except OSError:
        return
    text = decoded(content)
    if text is None:
        return
    lines = text.removesuffix("\n").split("\n") if text else []
    hits = [n for n, line in enumerate(lines) if is_hit(line)]
    last = -1
    for position, hit in enumerate(hits):
        following = hits[position + 1] if position + 1 < len(hits) else len(lines)
        for n in range(max(last + 1, hit - context), min(hit + context + 1, following, len(lines))):
            shown = lines[n].removesuffix("\r")[:LINE_LIMIT]
            yield "match" if n == hit else "context", n + 1, shown
            last = n


def decoded(content: bytes) -> str | None:
    """Return the file as text; None if it is binary. Invalid UTF-8 bytes become lone surrogates."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return content.decode("utf-16", "replace")
    if b"\0" in content:
        return None
    return content.removeprefix(codecs.BOM_UTF8).decode("utf-8", "surrogateescape")


if __name__ == "__main__":
    main(sys.argv[1:], sys.stdout)
