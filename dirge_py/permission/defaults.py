"""What happens when no rule speaks: the table of operations and modes."""

from typing import Literal, cast

from dirge_py.permission.facts import CommandFact, Fact, PathFact
from dirge_py.permission.rules import Effect, Mode

Row = Literal[
    "read", "read outside", "edit", "edit guarded", "look", "run", "sandboxed build", "reach out",
    "remember", "recall",
]  # fmt: skip

_MODES: tuple[Mode, ...] = ("standard", "accept", "restrictive", "plan", "yolo")
_TABLE: dict[Row, str] = {
    # in the order of       standard accept restrictive plan yolo
    "read": "               allow    allow  allow       allow allow",
    "read outside": "       ask      ask    ask         ask   allow",
    "edit": "               allow    allow  ask         deny  allow",
    "edit guarded": "       ask      ask    ask         deny  allow",
    "look": "               allow    allow  allow       allow allow",
    "run": "                ask      ask    ask         deny  allow",
    "sandboxed build": "    allow    allow  ask         deny  allow",
    "reach out": "          ask      ask    ask         deny  allow",
    "remember": "           ask      allow  ask         deny  allow",
    "recall": "             allow    allow  allow       allow allow",
}  # fmt: skip
_EFFECTS: dict[tuple[Row, Mode], Effect] = {
    (row, mode): cast(Effect, effect)
    for row, line in _TABLE.items()
    for mode, effect in zip(_MODES, line.split(), strict=True)
}

_WORDS: dict[Row, str] = {
    "read": "reading in the workspace",
    "read outside": "reading outside of the workspace",
    "edit": "changing a file in the workspace",
    "edit guarded": "changing something outside of the workspace",
    "look": "a command that only looks",
    "run": "a command that can do more than look",
    "sandboxed build": "a build or test run inside the sandbox",
    "reach out": "reaching something outside of this machine's files",
    "remember": "storing something for later",
    "recall": "nothing outside of this session changes",
}
_RECALLING = frozenset(("read", "view", "list", "load", "search", "show", "get", "recall"))


def row_of(fact: Fact, *, is_sandboxed: bool) -> Row:
    """The line of the table that this falls under."""
    if isinstance(fact, CommandFact):
        if not fact.refusal:
            return "look"
        return "sandboxed build" if is_sandboxed and fact.is_build else "run"
    if isinstance(fact, PathFact):
        place = fact.place
        if fact.op == "read":
            return "read" if place.inside and not place.secret else "read outside"
        is_special = place.protected or place.unkept or place.is_system
        return "edit" if place.inside and not is_special else "edit guarded"
    if fact.op in ("network", "mcp", "plugin", "agent", "execute"):
        return "reach out"
    if fact.op == "meta":
        return "recall"
    if fact.op in ("memory", "skill"):
        verb = fact.name.replace(":", " ").split()[:1]
        return "recall" if verb and verb[0].lower() in _RECALLING else "remember"
    return "remember"


def default_effect(row: Row, mode: Mode) -> Effect:
    return _EFFECTS[row, mode]


def in_words(row: Row, fact: Fact) -> str:
    """The line of the table as a reason."""
    if isinstance(fact, CommandFact) and fact.refusal and row != "sandboxed build":
        return fact.refusal
    if isinstance(fact, PathFact) and fact.op == "edit" and fact.place.is_system:
        return "changing a file of the operating system"
    if isinstance(fact, PathFact) and fact.place.inside:
        place = fact.place
        special = (place.secret,) if fact.op == "read" else (place.protected, place.unkept)
        return next(filter(None, special), _WORDS[row])
    return _WORDS[row]
