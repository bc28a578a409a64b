"""What the terminal UI is started with: callables and plain values, made by whoever wires."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from dirge_py.frontend.session_opener import OpenFirst, OpenOther
from dirge_py.providers.setup_types import SetupService
from dirge_py.ui.theme.styles import DEFAULT_THEME

if TYPE_CHECKING:
    from dirge_py.config.schema import Config
    from dirge_py.permission.project_trust import TrustGate


@dataclass(frozen=True, slots=True, kw_only=True)
class UiSettings:
    """What the settings say about the screen, as `[ui]` has it in docs/config.md.

    `keys`: actions with keys of their own; `aliases`: own names for slash commands.
    """

    show_thinking: bool = False
    keys: Mapping[str, Sequence[str]] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    keymap: Literal["default", "emacs", "vim"] = "default"
    enter: Literal["steer", "queue"] = "steer"
    chord_timeout_s: float = 1.0
    has_mouse: bool = True
    clipboard: Literal["auto", "native", "tmux", "osc52"] = "auto"
    notify: Literal["off", "bell", "desktop", "both"] = "bell"
    reduced_motion: bool = False
    has_avatar: bool = True
    panel: Literal["auto", "on", "off"] = "auto"
    display: Sequence[str] = ("left", "main", "right")
    diff: Literal["auto", "unified", "split"] = "auto"
    editor_open_command: str = ""


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
