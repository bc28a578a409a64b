"""What line mode is started with: callables and plain values, made by whoever wires."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dirge_py.frontend.starting import OpenFirst, OpenOther, ProjectDoor


@dataclass(frozen=True, slots=True, kw_only=True)
class LineSettings:
    """What the settings say about line mode. `aliases`: own names for slash commands."""

    show_thinking: bool = False
    aliases: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineStart:
    """How one start of line mode goes.

    `prepare` reads the settings; then the person is asked about what `project` offers, and
    `open_first` and later `open_other` are called. `pick_session`: show the list of sessions first
    (`-r` without an id).
    """

    open_first: OpenFirst
    open_other: OpenOther
    prepare: Callable[[], LineSettings] = LineSettings
    project: Callable[[], ProjectDoor] | None = None
    first_prompt: str = ""
    pick_session: bool = False
    is_dumb: bool = False
    """The terminal can do no more than show what is written: it edits its line itself."""
