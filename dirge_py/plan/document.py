"""A plan as the planning model wrote it: its name, its steps, and how the work is verified."""

import re

from dirge_py.lib.lean_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDocument:
    """`verify` are single shell commands, in order; `text` is the whole plan as it was written."""

    name: str
    steps: tuple[str, ...]
    verify: tuple[str, ...]
    text: str


def read_plan(text: str) -> PlanDocument:
    """What of the plan can be told apart; empty fields where nothing of the kind is in it."""
    steps = tuple(re.findall(r"^\d+\.\s+(.*)$", text, re.MULTILINE))
    return PlanDocument(name="", steps=steps, verify=(), text=text)
