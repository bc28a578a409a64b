"""What the terminal UI is started with: its settings, and callables that open conversations."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from dirge_py.frontend.session_opener import OpenFirst, OpenOther
from dirge_py.providers.settings import SetupService
from dirge_py.ui.theme.styles import DEFAULT_THEME

if TYPE_CHECKING:
    from dirge_py.config.schema import Config
    from dirge_py.permission.project_trust import TrustGate


@dataclass(frozen=True, slots=True, kw_only=True)
class UiSettings:
    """The settings `[ui]` of docs/config.md, and the keys and aliases of the person."""

    show_thinking: bool = False
    """Show what the model thinks."""
    keys: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The person's own keys, by action."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """The person's own names of slash commands, each with its command."""
    keymap: Literal["default", "emacs", "vim"] = "default"
    """The keys of the input."""
    enter: Literal["steer", "queue"] = "steer"
    """What Enter does with a prompt during a run."""
    chord_timeout_s: float = 1.0
    """How long the second key of a chord may take."""
    has_mouse: bool = True
    """The terminal reports the mouse to dirge."""
    clipboard: Literal["auto", "native", "tmux", "osc52"] = "auto"
    """How text gets to the clipboard."""
    notify: Literal["off", "bell", "desktop", "both"] = "bell"
    """How the person is notified while another window has the focus."""
    reduced_motion: bool = False
    """The face does not move."""
    has_avatar: bool = True
    """The status line has a face."""
    panel: Literal["auto", "on", "off"] = "auto"
    """Whether there are panels at the sides; "auto" shows them on a wide screen."""
    display: Sequence[str] = ("left", "main", "right")
    """The parts of the screen that are shown."""
    diff: Literal["auto", "unified", "split"] = "auto"
    """How changes of files are laid out."""
    editor_open_command: str = ""
    """The command that opens a changed file beside dirge; "" for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UiOptions:
    """How the terminal UI is started; only `theme` is needed for the first frame."""

    open_first: OpenFirst
    """Opens the first conversation, on the event loop, once `prepare` is done."""
    open_other: OpenOther
    """Opens every later one."""
    prepare: Callable[[], UiSettings] = UiSettings
    """Reads the settings and imports what opening needs; runs in a thread after the first frame."""
    project: "Callable[[], TrustGate] | None" = None
    """What the project offers that needs trust."""
    setup: Callable[[], SetupService] | None = None
    demo: "Callable[[], UiOptions] | None" = None
    """The start of the demo, offered where there is no provider yet."""
    settings: "Callable[[], Config] | None" = None
    """Reads the settings of this start again; None: there are none that a person could change."""
    settings_file: Path | None = None
    first_prompt: str = ""
    pick_session: bool = False
    """Show the list of sessions first (`-r` without an id)."""
    theme: str = DEFAULT_THEME
    is_stored: bool = True
    """The conversation is stored and can be resumed."""
    close: Callable[[], None] | None = None
    """Called when the program has ended."""
