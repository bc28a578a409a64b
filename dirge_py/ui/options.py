"""What the terminal UI is started with: callables and plain values, made by whoever wires."""

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
    """What the settings say about the screen, as `[ui]` has it in docs/config.md."""

    show_thinking: bool = False
    """Show what the model thinks."""
    keys: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Keys of the person's own, by action."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """The person's own names of slash commands, with the command that each stands for."""
    keymap: Literal["default", "emacs", "vim"] = "default"
    """The keys of the input."""
    enter: Literal["steer", "queue"] = "steer"
    """What Enter does with a prompt while a run goes on."""
    chord_timeout_s: float = 1.0
    """How long the second key of a chord may take."""
    has_mouse: bool = True
    """The terminal reports the mouse to dirge."""
    clipboard: Literal["auto", "native", "tmux", "osc52"] = "auto"
    """How text gets to the clipboard."""
    notify: Literal["off", "bell", "desktop", "both"] = "bell"
    """How the person is called while another window has the focus."""
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
    """How one start of the terminal UI goes.

    Only `theme` is needed for the first frame. After it `prepare` runs in a thread: it reads the
    settings and imports what opening will need; then the person is asked about what `project`
    offers, and `open_first` and later `open_other` are called, on the event loop. `pick_session`:
    show the list of sessions first (`-r` without an id). `settings` reads the settings of this
    start anew, from `settings_file`; without them there is nothing that a person could change.
    `demo` is the start of the demo, for whoever would rather see that than set a provider up.
    `is_kept`: what is said can be come back to. `close` is called when the program has ended.
    """

    open_first: OpenFirst
    open_other: OpenOther
    prepare: Callable[[], UiSettings] = UiSettings
    project: "Callable[[], TrustGate] | None" = None
    setup: Callable[[], SetupService] | None = None
    demo: "Callable[[], UiOptions] | None" = None
    settings: "Callable[[], Config] | None" = None
    settings_file: Path | None = None
    first_prompt: str = ""
    pick_session: bool = False
    theme: str = DEFAULT_THEME
    is_kept: bool = True
    close: Callable[[], None] | None = None
