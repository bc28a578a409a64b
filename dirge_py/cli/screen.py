"""What the terminal UI is started with. Nothing heavy is imported before its first frame."""

import tomllib
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from dirge_py.cli.openers import openers
from dirge_py.config import paths
from dirge_py.providers.setup_types import SetupService
from dirge_py.types.errors import ConfigError
from dirge_py.ui.options import UiOptions, UiSettings
from dirge_py.ui.theme.styles import DEFAULT_THEME

if TYPE_CHECKING:
    from dirge_py.cli.demo.play import Demo
    from dirge_py.config.schema import Config
    from dirge_py.sdk.options import BuildOptions


def start_of(
    load: Callable[[], "Config"],
    options: Callable[[], "BuildOptions"],
    *,
    prompt: str,
    pick_session: bool,
    config_file: Path | None,
) -> UiOptions:
    """An ordinary start. `load` reads the settings; every conversation reads them anew."""

    def prepare() -> UiSettings:
        import_module("dirge_py.sdk.build")
        config = load()
        opening.look(config)
        return looks_of(config)

    opening = openers(load, options)

    def setup() -> SetupService:
        from dirge_py.providers.setup import ProviderSetup

        return ProviderSetup(config_file)

    def demo() -> UiOptions:
        from dirge_py.cli.demo.play import Demo

        opened = Demo()
        return replace(start_of_demo(opened), close=opened.close)

    return UiOptions(
        open_first=opening.first,
        open_other=opening.other,
        prepare=prepare,
        project=opening.project,
        setup=setup,
        demo=demo,
        settings=opening.settings,
        settings_file=(config_file or paths.config_file()).absolute(),
        first_prompt=prompt,
        pick_session=pick_session,
        theme=theme_in(config_file or paths.config_file()),
    )


def start_of_demo(demo: "Demo") -> UiOptions:
    """The demo, at a pace that can be followed."""
    return UiOptions(
        open_first=lambda asker: demo.conversation(asker, paced=True),
        open_other=lambda asker, session_id, way="write": demo.conversation(asker, paced=True),
        first_prompt=demo.prompt,
        is_kept=False,
    )


def looks_of(config: "Config") -> UiSettings:
    """What the screen needs to know of the settings."""
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


def theme_in(file: Path) -> str:
    """The theme that the settings name, read without judging them: that costs a tenth of a second.

    Whatever is wrong with the file is said when it is really read, after the first frame.
    """
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
        return str(table["ui"]["theme"])
    except (OSError, ValueError, KeyError, TypeError, ConfigError):
        return DEFAULT_THEME
