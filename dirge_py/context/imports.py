"""`@path` in an instruction file: which words of a Markdown text name a file to read along."""

import re
from collections.abc import Iterator

_FENCE = re.compile(r"[\s>]*(?:[-*+]\s+|\d{1,9}[.)]\s+)?(?P<marks>`{3,}|~{3,})(?P<rest>.*)")
_BACKTICKS = re.compile(r"`+")
_WORD = re.compile(r"(?:^|(?<=[\s(]))@((?:[^\s\\`]|\\.)+)", re.MULTILINE)
_BEHIND = ".,;:!?)]}>'\"*_"
"""What may stand right behind a path and belongs to the sentence around it."""


def imported_paths(text: str) -> list[str]:
    """The paths that are written as `@path`, each once and in order, as they are written.

    Code is passed over: spans in backticks, and blocks between fences. A space within a path is
    written `\\ `; what stands behind a `#` is left off.
    """
    found: dict[str, None] = {}
    for prose in _prose(text):
        for match in _WORD.finditer(_without_spans(prose)):
            path = match[1].partition("#")[0].replace("\\ ", " ").rstrip(_BEHIND)
            if path and "\0" not in path:
                found.setdefault(path)
    return list(found)


def reads_like_a_file(path: str) -> bool:
    """Whether it can hardly be meant as anything else: no name of a person or of a decorator."""
    return path.startswith(("./", "../", "/", "~/")) or path.lower().endswith(
        (".md", ".mdc", ".markdown", ".txt", ".rst")
    )


def _prose(text: str) -> Iterator[str]:
    """The paragraphs outside of fenced blocks; a fence that is never closed holds the rest."""
    lines: list[str] = []
    fence = ""
    for line in text.split("\n"):
        found = _FENCE.fullmatch(line)
        if fence:
            if found and found["marks"].startswith(fence) and not found["rest"].strip():
                fence = ""
            continue
        # In a line of code between backticks there is no fence.
        opens = found is not None and not (found["marks"][0] == "`" and "`" in found["rest"])
        if opens or not line.strip():
            yield "\n".join(lines)
            lines = []
            fence = found["marks"] if opens and found else ""
        else:
            lines.append(line)
    yield "\n".join(lines)


def _without_spans(text: str) -> str:
    """The text with its code spans left out: from a run of backticks to the next one as long."""
    runs = [(match.start(), match.end()) for match in _BACKTICKS.finditer(text)]
    closing: dict[int, int] = {}
    next_of: list[int | None] = [None] * len(runs)
    for at in range(len(runs) - 1, -1, -1):
        length = runs[at][1] - runs[at][0]
        next_of[at] = closing.get(length)
        closing[length] = at
    kept: list[str] = []
    position = at = 0
    while at < len(runs):
        closes = next_of[at]
        if closes is None:
            at += 1
            continue
        # A blank would let the word behind a span begin there.
        kept += [text[position : runs[at][0]], "`"]
        position, at = runs[closes][1], closes + 1
    return "".join([*kept, text[position:]])
