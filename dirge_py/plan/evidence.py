"""The ledger of a plan: which commands were run to verify it, on which files, with what end."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, get_args

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.events import EvidenceOutcome, EvidenceTaken, PhaseName


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One command that was run, or was to be run, as `EvidenceTaken` describes it.

    `is_look`: it only shows something, so that its success proves nothing about how a program runs.
    """

    id: str
    phase: PhaseName
    step: int
    command: str
    outcome: EvidenceOutcome
    exit_code: int | None
    output_sha256: str
    tree: str
    is_look: bool = False

    @property
    def has_passed(self) -> bool:
        return self.outcome == "passed" and self.exit_code == 0

    @property
    def event(self) -> EvidenceTaken:
        """What is told of it when it is taken."""
        return EvidenceTaken(
            **{field.name: getattr(self, field.name) for field in fields(EvidenceTaken)}
        )

    def stored(self) -> dict[str, Any]:
        """As a JSON object."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


_ENDINGS: dict[EvidenceOutcome, str] = {
    "passed": "passed",
    "failed": "failed",
    "denied": "was not allowed to run",
    "timeout": "took too long and was stopped",
    "stopped": "was stopped",
}
_MOST_OF_COMMAND = 200


def ending(item: Evidence) -> str:
    """How it ended, for people, as `` `make test` (E3): exit code 2``."""
    code = item.exit_code
    how = _ENDINGS[item.outcome] if code is None or item.outcome in _UNFINISHED else ""
    return f"{code_span(item.command)} ({item.id}): {how or f'exit code {code}'}"


_UNFINISHED = ("denied", "timeout", "stopped")


def code_span(command: str) -> str:
    """A command in Markdown, in one line and between as many backticks as it takes."""
    text = " ".join(command.split())
    if len(text) > _MOST_OF_COMMAND:
        text = text[: _MOST_OF_COMMAND - 1] + "…"
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {text} {fence}" if longest else f"{fence}{text}{fence}"


class EvidenceLedger:
    """All evidence of one plan, in the order it was taken."""

    def __init__(self, items: Sequence[Evidence] = ()) -> None:
        self._items = list(items)

    @property
    def items(self) -> tuple[Evidence, ...]:
        return tuple(self._items)

    def of(self, phase: PhaseName, step: int) -> tuple[Evidence, ...]:
        """What was taken in this phase of this step."""
        return tuple(item for item in self._items if (item.phase, item.step) == (phase, step))

    def add(
        self,
        *,
        phase: PhaseName,
        step: int,
        command: str,
        outcome: EvidenceOutcome,
        exit_code: int | None,
        output_sha256: str,
        tree: str,
        is_look: bool,
    ) -> Evidence:
        """Record one more, and give it an id.

        `tree` is the hash of the files that it was run on, "" where they could not be read: such
        evidence never counts.
        """
        taken = Evidence(
            id=f"E{self._last_number() + 1}",
            phase=phase,
            step=step,
            command=command,
            outcome=outcome,
            exit_code=exit_code,
            output_sha256=output_sha256,
            tree=tree,
            is_look=is_look,
        )
        self._items.append(taken)
        return taken

    def stored(self) -> list[dict[str, Any]]:
        """As JSON objects, for `load`."""
        return [item.stored() for item in self._items]

    @classmethod
    def load(cls, stored: object) -> "EvidenceLedger":
        """The ledger that was stored; what cannot be read of it is left out."""
        entries = stored if isinstance(stored, list | tuple) else ()
        return cls([item for entry in entries if (item := _loaded(entry))])

    def _last_number(self) -> int:
        return max((int(item.id[1:]) for item in self._items), default=0)


_TYPES: dict[str, type | tuple[type, ...]] = {
    "id": str,
    "phase": str,
    "step": int,
    "command": str,
    "outcome": str,
    "exit_code": (int, type(None)),
    "output_sha256": str,
    "tree": str,
    "is_look": bool,
}


def _loaded(entry: object) -> Evidence | None:
    if not isinstance(entry, Mapping) or entry.keys() != _TYPES.keys():
        return None
    if not all(isinstance(entry[name], kind) for name, kind in _TYPES.items()):
        return None
    number = entry["id"][1:]
    is_known = entry["phase"] in get_args(PhaseName) and entry["outcome"] in get_args(
        EvidenceOutcome
    )
    if not (is_known and entry["id"][:1] == "E" and number.isascii() and number.isdigit()):
        return None
    return Evidence(**entry) if len(number) < 10 else None
