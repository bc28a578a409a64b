"""Parses a page of the guide into the commands it shows.

There are three kinds of blocks: `console` (`$ command`, then its output), `screen` (`$ dirge …`,
then `› text` that is typed, `[Key]` that is pressed, and what the screen shows meanwhile) and
`yaml` (a workflow whose `run` steps are commands). In output and screens, `…` matches any text, and
a line that is only `…` matches any lines. A comment before a block sets the model: `<!-- model:
NAME -->` is the script models/NAME.toml, which starts again for each `dirge`; `<!-- service: TYPE
-->` is a service on loopback, whose address and key are in the environment from then on.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "docs" / "guide"
_PIECE = re.compile(
    r"^<!-- model: (?P<model>\S+) -->$|^<!-- service: (?P<service>\S+) -->$|"
    r"^```(?P<kind>console|screen|yaml)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, kw_only=True)
class Block:
    """A code block; `line` is its position on the page."""

    kind: str
    text: str
    model: str
    service: str
    line: int


@dataclass(frozen=True)
class Command:
    """A command and its expected output lines."""

    text: str
    output: Sequence[str]


def blocks(page: Path) -> list[Block]:
    """The code blocks of the page, in order."""
    text, model, service, found = page.read_text(encoding="utf-8"), "", "", []
    for piece in _PIECE.finditer(text):
        if piece["model"]:
            model = piece["model"]
        elif piece["service"]:
            service = piece["service"]
        else:
            line = text.count("\n", 0, piece.start()) + 1
            who = {"model": model, "service": service, "line": line}
            found.append(Block(kind=piece["kind"], text=piece["text"], **who))
    return found


def commands(text: str) -> Iterator[Command]:
    """The commands of a `console` block. A backslash continues a command in the next line."""
    command, output = "", []
    for line in text.splitlines():
        if line.startswith("$ "):
            if command:
                yield Command(command, output)
            command, output = line[2:], []
        elif command.endswith("\\"):
            command += f"\n{line}"
        else:
            output.append(line)
    if command:
        yield Command(command, output)


def mismatch(expected: Sequence[str], printed: Sequence[str]) -> str:
    """The difference between output and page; empty if they match."""
    pattern = "".join(
        r"(?:.*\n)*?" if line.strip() == "…" else f"{as_pattern(line)}\n" for line in expected
    )
    whole = "".join(f"{line.rstrip()}\n" for line in printed)
    if re.fullmatch(pattern, whole):
        return ""
    return "expected:\n" + "\n".join(expected) + "\nprinted:\n" + whole


def as_pattern(line: str) -> str:
    """A line of the page as a regular expression."""
    return ".*?".join(re.escape(part) for part in line.rstrip().split("…"))
