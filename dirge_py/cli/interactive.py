"""Starts the two interactive front ends: the terminal UI and line mode.

Nothing heavy is imported before the first frame.
"""

import os
import sys
import tomllib
from argparse import Namespace
from collections.abc import Callable, Mapping
from contextlib import chdir
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dirge_py.cli.flags import (
    build_options,
    first_command,
    first_prompt,
    key_from_stdin,
    load_settings,
    with_notices,
)
from dirge_py.config import paths
from dirge_py.frontend.session_opener import OpenMode
from dirge_py.lib.lazy import late
from dirge_py.types.questions import Asker

if TYPE_CHECKING:
    from dirge_py.cli.demo.play import Demo
    from dirge_py.config.schema import Config
    from dirge_py.config.sources import LocalServer
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.permission.project_trust import TrustGate
    from dirge_py.sdk.options import BuildOptions
    from dirge_py.ui.options import UiOptions


def tui_start(flags: Namespace) -> "UiOptions":
    """The options of a normal start."""
    from dirge_py.ui.options import UiOptions, UiSettings

    openers = _session_openers(flags)
    config_file = Path(flags.config) if flags.config else None
    settings_file = config_file or paths.config_file()

    def prepare() -> UiSettings:
        import dirge_py.sdk.build  # noqa: F401 - while the first frame is shown

        config = openers.settings_at_start()
        avatar = "still" if config.ui.reduced_motion else "moving"
        values: dict[str, Any] = {
            "keys": config.keys,
            "aliases": config.aliases,
            "chord_timeout_s": config.ui.chord_timeout_ms / 1000,
            "has_mouse": config.ui.mouse,
            "avatar": avatar if config.ui.avatar else "none",
            "has_terminal_status": config.ui.terminal_status,
        }
        names = (field.name for field in fields(UiSettings) if field.name not in values)
        return UiSettings(**values, **{name: getattr(config.ui, name) for name in names})

    def demo() -> "UiOptions":
        from dirge_py.cli.demo.play import Demo

        opened = Demo()
        return replace(demo_start(opened), close=opened.close)

    return UiOptions(
        open_first=openers.first,
        open_other=openers.other,
        prepare=prepare,
        project=openers.project,
        setup=partial(late("dirge_py.providers.setup", "ProviderSetup"), config_file),
        demo=demo,
        settings=openers.settings,
        settings_file=settings_file.absolute(),
        first_prompt=first_prompt(flags),
        first_command=first_command(flags),
        has_tips=True,
        theme=_theme(settings_file),
    )


def demo_start(demo: "Demo") -> "UiOptions":
    """The options that play the demo at a readable pace."""
    from dirge_py.ui.options import UiOptions

    return UiOptions(
        open_first=lambda asker: demo.conversation(asker, paced=True),
        open_other=lambda asker, session_id, way="write": demo.conversation(asker, paced=True),
        first_prompt=demo.prompt,
        is_stored=False,
        last_line=demo.next_step,
    )


def _theme(file: Path) -> str:
    """Return the theme in the settings without validating them, which takes a tenth of a second."""
    from dirge_py.ui.theme.styles import AUTO_THEME

    try:
        return str(tomllib.loads(file.read_text(encoding="utf-8"))["ui"]["theme"])
    except (OSError, ValueError, KeyError, TypeError):
        return AUTO_THEME


class SessionOpeners:
    """Opens sessions for front ends: `first` is an `OpenFirst`, `other` an `OpenOther`.

    `load` reads the settings for each conversation. The user is asked about each project once.
    """

    def __init__(self, load: "Callable[[], Config]", options: "Callable[[], BuildOptions]") -> None:
        self._load = load
        self._options = options
        self._start_folder = Path.cwd()
        self._trust_gates: dict[Path, TrustGate] = {}
        self._local_servers: Mapping[str, LocalServer] | None = None

    def first(self, asker: Asker) -> "Conversation":
        """Open the conversation of the command line."""
        return self._open(asker, self._read_options(), is_first=True)

    def other(
        self, asker: Asker, session_id: str | None, way: OpenMode = "write"
    ) -> "Conversation":
        """Open a stored session, or a new one."""
        from dirge_py.sdk.options import SessionChoice

        choice = SessionChoice()
        if session_id:
            is_fork = way == "fork"
            choice = SessionChoice(
                kind="view" if way == "view" else "resume", id=session_id, fork=is_fork
            )
        return self._open(asker, replace(self._read_options(), session=choice))

    def project(self) -> "TrustGate":
        """The files that the project around the current folder would load, and their trust."""
        from dirge_py.permission.project_trust import TrustGate

        folder = Path.cwd()
        if folder not in self._trust_gates:
            self._trust_gates[folder] = TrustGate(folder)
        return self._trust_gates[folder]

    def settings(self) -> "Config":
        """Read the settings again. The files that flags name are relative to the first folder."""
        with chdir(self._start_folder):
            return self._load()

    def settings_at_start(self) -> "Config":
        """Read the settings; if they have no provider, ask the model servers of this machine."""
        self._local_servers = None
        return self._with_servers(self.settings())

    def _with_servers(self, config: "Config") -> "Config":
        """The settings with the servers of this machine, as they answered last, if needed."""
        from dirge_py.providers.discovery import with_local_servers

        config = with_local_servers(config, self._local_servers)
        self._local_servers = config.origin.found
        return config

    def _read_options(self) -> "BuildOptions":
        with chdir(self._start_folder):
            options = self._options()
            return replace(options, add_dirs=tuple(map(os.path.abspath, options.add_dirs)))

    def _open(
        self, asker: Asker, options: "BuildOptions", *, is_first: bool = False
    ) -> "Conversation":
        from dirge_py.sdk.build import build
        from dirge_py.sdk.options import with_project

        config, options = with_project(self.settings(), options, self.project().project)
        config = self._with_servers(config)
        if is_first:
            from dirge_py.sdk.update import update_notices

            options = replace(options, notices=(*options.notices, *update_notices(config)))
        return build(config, asker, with_notices(options, config))


def _session_openers(flags: Namespace) -> SessionOpeners:
    key = key_from_stdin() if flags.api_key_stdin else None
    return SessionOpeners(lambda: load_settings(flags, key), lambda: build_options(flags))


def line_mode(flags: Namespace) -> int:
    """Run line mode; returns the exit code."""
    from dirge_py.frontend.line.repl import LineOptions, run_line

    openers = _session_openers(flags)
    return run_line(
        LineOptions(
            open_first=openers.first,
            open_other=openers.other,
            prepare=openers.settings_at_start,
            project=openers.project,
            first_prompt=first_prompt(flags),
            first_command=first_command(flags),
            is_dumb=is_dumb(),
        )
    )


def wants_lines(*, line: bool) -> bool:
    """Whether to use line mode: on request (`line`), or because of the terminal."""
    return line or (is_dumb() and all(s.isatty() for s in (sys.stdin, sys.stdout)))


def is_dumb() -> bool:
    """Whether the terminal can't move its cursor, or its abilities are unknown."""
    return os.environ.get("TERM", "") in ("", "dumb", "unknown")
