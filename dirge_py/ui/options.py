"""The start options of the terminal UI: settings, and callables that open conversations."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from dirge_py.frontend.session_opener import OpenFirst, OpenOther
from dirge_py.ui.theme.styles import AUTO_THEME

if TYPE_CHECKING:
    from dirge_py.config.schema import Config
    from dirge_py.permission.project_trust import TrustGate
    from dirge_py.providers.setup import ProviderSetup


@dataclass(frozen=True, slots=True, kw_only=True)
class UiSettings:
    """The settings `[ui]` of docs/config.md, and the person's keys and aliases."""

    show_thinking: bool = False
    """Show what the model thinks."""
    keys: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The person's own keys, by action."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """The person's own names of slash commands, with the command of each."""
    keymap: Literal["default", "emacs", "vim"] = "default"
    """The keys of the input."""
    enter: Literal["steer", "queue"] = "steer"
    """The action of Enter during a run."""
    chord_timeout_s: float = 1.0
    """Seconds for the second key of a chord."""
    has_mouse: bool = True
    """The terminal reports the mouse to dirge."""
    clipboard: Literal["auto", "native", "tmux", "osc52"] = "auto"
    """The way to copy text."""
    notify: Literal["off", "bell", "desktop", "both"] = "bell"
    """The notification while another window has the focus."""
    has_terminal_status: bool = True
    """The title of the terminal's window and the progress in its tab show the state."""
    avatar: Literal["moving", "still", "none"] = "moving"
    """The face in the status line."""
    panel: Literal["auto", "on", "off"] = "auto"
    """Whether there are panels at the sides; "auto" shows them on a wide screen."""
    display: Sequence[str] = ("left", "main", "right")
    """The parts of the screen that are shown."""
    diff: Literal["auto", "unified", "split"] = "auto"
    """The layout of diffs."""
    editor_open_command: str = ""
    """The command that opens a changed file in another program; "" for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UiOptions:
    """The start options of the terminal UI; the first frame needs only `theme`."""

    open_first: OpenFirst
    """Opens the first conversation on the event loop, after `prepare`."""
    open_other: OpenOther
    """Opens every later one."""
    prepare: Callable[[], UiSettings] = UiSettings
    """Reads the settings and imports modules, in a thread after the first frame."""
    project: "Callable[[], TrustGate] | None" = None
    """Returns the gate with the files of the project that need trust."""
    setup: "Callable[[], ProviderSetup] | None" = None
    """Returns the set-up, offered without a provider."""
    demo: "Callable[[], UiOptions] | None" = None
    """Returns the options of the demo, offered without a provider."""
    settings: "Callable[[], Config] | None" = None
    """Reads the settings of this start again, if there are any."""
    settings_file: Path | None = None
    """The file of these settings."""
    first_prompt: str = ""
    """A prompt that is submitted at the start."""
    first_command: str = ""
    """Without a first prompt, a slash command that is run first (`/sessions` for `-r` alone)."""
    has_tips: bool = False
    """The first greeting has tips, recent sessions and what the mode means."""
    theme: str = AUTO_THEME
    """The name of the theme."""
    is_stored: bool = True
    """The conversation is stored and can be resumed."""
    last_line: str = ""
    """Printed at the end of the program, if the conversation is not stored."""
    close: Callable[[], None] | None = None
    """Called at the end of the program."""
