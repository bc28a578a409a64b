"""Collects the public surface of dirge: flags, commands, settings, JSON, exit codes, names.

The generator stores the surface of an earlier version; the test collects the current one with the
same functions.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from tests.compatibility.model_service import Service, says

SUBCOMMANDS = (
    "", "why", "config", "sessions list", "sessions show", "sessions search", "sessions export",
    "sessions repair", "sessions delete", "sessions import", "doctor", "trust", "turn", "resume",
    "signal", "serve", "embed", "completion",
)  # fmt: skip

CALL = ("read", {"path": "here.txt"})
COMMAND = ("bash", {"command": "touch x"})
SCHEMA = '{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}'


class ProcessResult(Protocol):
    """A finished process."""

    @property
    def exit_code(self) -> int: ...

    @property
    def stdout(self) -> str: ...


Run = Callable[..., ProcessResult]


def flags(run: Run) -> dict[str, list[str]]:
    """The flags in the help of each subcommand."""
    found = {}
    for words in SUBCOMMANDS:
        text = run(*words.split(), "--help").stdout
        spelled = re.findall(r"^  (-.*?)(?:  |$)", text, re.MULTILINE)
        found[words] = sorted({flag for line in spelled for flag in _FLAG.findall(line)})
    return found


def subcommands(run: Run) -> list[str]:
    """The subcommands in the help."""
    text = run("--help").stdout.partition("subcommands:")[2]
    return sorted(set(re.findall(r"^  dirge (\w+)", text, re.MULTILINE)))


def slash_commands(run: Run) -> list[str]:
    """The commands that /help lists in line mode."""
    text = run("--line", stdin="/help\n").stdout
    return sorted(set(re.findall(r"^\s+(/[\w-]+)", text, re.MULTILINE)))


def outputs(run: Run, service: Service) -> dict[str, Any]:
    """Exit code and JSON shape of each kind of run; the project contains `here.txt`."""
    kinds: dict[str, tuple[Sequence[str], Sequence[Any]]] = {
        "result": (("-p", "--output-format", "json", "x"), [says("Yes.")]),
        "claude": (("-p", *_stream("claude"), "x"), [says("I look.", CALL), says("Yes.")]),
        "native": (
            ("-p", *_stream("native"), "x"),
            [says("I look.", CALL, COMMAND), says("Yes.")],
        ),
        "structured": (
            ("-p", "--output-format", "json", "--json-schema", SCHEMA, "x"),
            [says('{"n": 1}')],
        ),
        "refused": (("-p", "--output-format", "json", "x"), []),
        "wrong flag": (("-p", "--no-such-flag"), []),
        "one turn": (
            ("turn", "--session", "t", "--output-format", "json", "--input", "x"),
            [says("I look.", CALL)],
        ),
        "deferred": (
            ("-p", "--output-format", "json", "--on-ask", "defer", "x"),
            [says("I touch.", COMMAND)],
        ),
        "aborted": (
            ("-p", "--output-format", "json", "--on-ask", "abort", "x"),
            [says("I touch.", COMMAND)],
        ),
        "turn limit": (
            ("-p", "--output-format", "json", "--max-turns", "1", "x"),
            [says("I look.", CALL)],
        ),
        "other limit": (
            ("-p", "--output-format", "json", "--max-tokens", "50", "x"),
            [says("I look.", CALL), says("Yes.")],
        ),
        "flags of other agents": (
            (
                "-p", "--output-format", "json", "--session-id", "s", "--max-agent-turns", "3",
                "--effort", "off", "--max-budget-usd", "1", "--dangerously-skip-permissions", "x",
            ),
            [says("Yes.")],
        ),
    }  # fmt: skip
    found = {}
    for kind, (words, replies) in kinds.items():
        service.will(*replies)
        result = run(*words)
        lines = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
        shapes: dict[str, Any] = {}
        for line in lines:
            name = "/".join(filter(None, (line["type"], line.get("subtype"))))
            shapes[name] = merged(shapes.get(name), shape_of(line))
        found[kind] = {"exit_code": result.exit_code, "lines": shapes}
    return found


def documented(docs: Path) -> list[str]:
    """The code words in first columns of tables: settings, flags, events, points, keys."""
    found: set[str] = set()
    for page in sorted(set(docs.glob("*.md")) - {docs / "architecture.md"}):
        for line in page.read_text(encoding="utf-8").splitlines():
            if line.startswith("| `"):
                cell = re.split(r"(?<!\\)\|", line)[1]
                found.update(re.findall(r"`([^`]+)`", cell))
    return sorted(found)


def shape_of(value: Any) -> Any:
    """The members of an object, recursively; None for other values."""
    if isinstance(value, Mapping):
        return {name: shape_of(inner) for name, inner in value.items()}
    if isinstance(value, list):
        shape = None
        for inner in value:
            shape = merged(shape, shape_of(inner))
        return shape
    return None


def merged(one: Any, other: Any) -> Any:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return {name: merged(one.get(name), other.get(name)) for name in {**one, **other}}
    return one if other is None else other


def missing(before: Any, now: Any, at: str = "") -> list[str]:
    """The paths to members that a shape has lost."""
    if not isinstance(before, Mapping):
        return []
    if not isinstance(now, Mapping):
        return [at]
    return [
        lack
        for name, inner in before.items()
        for lack in (missing(inner, now[name], f"{at}/{name}") if name in now else [f"{at}/{name}"])
    ]


def _stream(shape: str) -> tuple[str, ...]:
    return (
        *("--output-format", "stream-json", "--event-format", shape),
        *("--include-partial-messages", "--verbose"),
    )


_FLAG = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*")
