"""Starts of the two interactive front ends: the terminal UI and line mode.

Both open conversations by `session_openers`: the settings are read again each time, the user is
asked about the project once. Each front end is imported in the function that starts it, and nothing
heavy before the first frame.
"""

import os
import sys
import tomllib
from argparse import Namespace
from collections.abc import Callable, Mapping
from contextlib import chdir
from dataclasses import dataclass, replace
from dirge_py.cli.flags import build_options, first_prompt, key_from_stdin, load_settings, with_notices
from dirge_py.config import paths
from dirge_py.frontend.session_opener import OpenFirst, OpenMode, OpenOther
from dirge_py.providers.settings import SetupService
from dirge_py.types.errors import ConfigError
from dirge_py.types.questions import Asker
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dirge_py.cli.demo.play import Demo
    from dirge_py.config.schema import Config
    from dirge_py.config.sources import LocalServer
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.frontend.line.repl import LineSettings
    from dirge_py.permission.project_trust import TrustGate
    from dirge_py.sdk.options import BuildOptions, SessionChoice
    from dirge_py.ui.options import UiOptions, UiSettings








def tui_start(
    load: Callable[[], "Config"],
    options: Callable[[], "BuildOptions"],
    *,
    prompt: str,
    pick_session: bool,
    config_file: Path | None,
) -> "UiOptions":
    """The options of an ordinary start. `load` reads the settings, for every conversation again."""
    from dirge_py.ui.options import UiOptions

    def prepare() -> "UiSettings":
        import dirge_py.sdk.build  # noqa: F401 - while the first frame is shown

        config = load()
        openers.find_local_servers(config)
        return _ui_settings(config)

    openers = session_openers(load, options)

    def setup() -> "SetupService":
        from dirge_py.providers.setup import ProviderSetup

        return ProviderSetup(config_file)

    def demo() -> "UiOptions":
        from dirge_py.cli.demo.play import Demo

        opened = Demo()
        return replace(demo_start(opened), close=opened.close)

    return UiOptions(
        open_first=openers.first,
        open_other=openers.other,
        prepare=prepare,
        project=openers.project,
        setup=setup,
        demo=demo,
        settings=openers.settings,
        settings_file=(config_file or paths.config_file()).absolute(),
        first_prompt=prompt,
        pick_session=pick_session,
        theme=_theme(config_file or paths.config_file()),
    )


def demo_start(demo: "Demo") -> "UiOptions":
    """The demo, at a pace that can be followed."""
    from dirge_py.ui.options import UiOptions

    return UiOptions(
        open_first=lambda asker: demo.conversation(asker, paced=True),
        open_other=lambda asker, session_id, way="write": demo.conversation(asker, paced=True),
        first_prompt=demo.prompt,
        is_kept=False,
    )


def _ui_settings(config: "Config") -> "UiSettings":
    """The settings of the terminal UI."""
    from dirge_py.ui.options import UiSettings

    ui = config.ui
    return UiSettings(
        show_thinking=ui.show_thinking,
        keys=config.keys,
        aliases=config.aliases,
        keymap=ui.keymap,
        enter=ui.enter,
        chord_timeout_s=ui.chord_timeout_ms / 1000,
        has_mouse=ui.mouse,
        clipboard=ui.clipboard,
        notify=ui.notify,
        reduced_motion=ui.reduced_motion,
        has_avatar=ui.avatar,
        panel=ui.panel,
        display=ui.display,
        diff=ui.diff,
        editor_open_command=ui.editor_open_command,
    )


def _theme(file: Path) -> str:
    """The theme in the settings, read without validating them, which takes a tenth of a second.

    Errors of the file are shown when it is validated, after the first frame.
    """
    from dirge_py.ui.theme.styles import DEFAULT_THEME

    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
        return str(table["ui"]["theme"])
    except (OSError, ValueError, KeyError, TypeError, ConfigError):
        return DEFAULT_THEME


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOpeners:
    """How the front ends open sessions: see `frontend.session_opener`."""

    first: OpenFirst
    """Opens the conversation that the command line asks for."""
    other: OpenOther
    """Opens a stored session, or a new one."""
    project: "Callable[[], TrustGate]"
    """What the project around the current folder would load."""
    settings: "Callable[[], Config]"
    """Reads the settings again."""
    find_local_servers: "Callable[[Config], None]"
    """Asks the model servers of this machine, if these settings have no other provider."""


def session_openers(
    load: "Callable[[], Config]", options: "Callable[[], BuildOptions]"
) -> SessionOpeners:
    """`load` reads the settings, for every conversation again. Imports nothing heavy yet."""

    start_folder = Path.cwd()
    local_servers: Mapping[str, LocalServer] | None = None

    def settings() -> "Config":
        # The files that flags name are relative to where the flags were given.
        with chdir(start_folder):
            return load()

    def chosen() -> "BuildOptions":
        with chdir(start_folder):
            wanted = options()
            return replace(wanted, add_dirs=tuple(map(os.path.abspath, wanted.add_dirs)))

    @cache
    def trust_gate(folder: Path) -> "TrustGate":
        from dirge_py.permission.project_trust import TrustGate

        return TrustGate(folder)

    def project() -> "TrustGate":
        return trust_gate(Path.cwd())

    def find_local_servers(config: "Config") -> None:
        nonlocal local_servers
        local_servers = None
        with_servers(config)

    def with_servers(config: "Config") -> "Config":
        """The settings with the servers of this machine, as they answered last, if needed."""
        from dirge_py.providers.discovery import with_local_servers

        nonlocal local_servers
        config = with_local_servers(config, local_servers)
        local_servers = config.origin.found
        return config

    def opened(asker: Asker, wanted: "BuildOptions") -> "Conversation":
        from dirge_py.sdk.build import build
        from dirge_py.sdk.options import with_project

        config, wanted = with_project(settings(), wanted, project().project)
        config = with_servers(config)
        return build(config, asker, with_notices(wanted, config))

    def open_other(asker: Asker, session_id: str | None, way: OpenMode = "write") -> "Conversation":
        return opened(asker, replace(chosen(), session=_session_choice(session_id, way)))

    return SessionOpeners(
        first=lambda asker: opened(asker, chosen()),
        other=open_other,
        project=project,
        settings=settings,
        find_local_servers=find_local_servers,
    )


def _session_choice(session_id: str | None, way: OpenMode) -> "SessionChoice":
    from dirge_py.sdk.options import SessionChoice

    if not session_id:
        return SessionChoice()
    if way == "view":
        return SessionChoice(kind="view", id=session_id)
    return SessionChoice(kind="resume", id=session_id, fork=way == "fork")


def line_mode(flags: Namespace) -> int:
    """Run line mode; returns the exit code."""
    from dirge_py.frontend.line.repl import LineOptions, LineSettings, run_line

    key = key_from_stdin() if flags.api_key_stdin else None
    openers = session_openers(lambda: load_settings(flags, key), lambda: build_options(flags))

    def prepare() -> "LineSettings":
        config = load_settings(flags, key)
        openers.find_local_servers(config)
        return LineSettings(show_thinking=config.ui.show_thinking, aliases=config.aliases)

    return run_line(
        LineOptions(
            open_first=openers.first,
            open_other=openers.other,
            prepare=prepare,
            project=openers.project,
            first_prompt=first_prompt(flags),
            pick_session=flags.resume == "",
            is_dumb=is_dumb(),
        )
    )


def wants_lines(*, line: bool) -> bool:
    """Whether line mode was asked for (`line`), or the terminal cannot do more."""
    return line or (is_dumb() and all(s.isatty() for s in (sys.stdin, sys.stdout)))


def is_dumb() -> bool:
    """Whether the terminal cannot move its cursor, or does not say that it can."""
    return os.environ.get("TERM", "") in ("", "dumb", "unknown")
