"""What the terminal UI is started with. Nothing heavy is imported before its first frame."""

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from dirge_py.questions import Asker
from dirge_py.ui.start import TuiStart

if TYPE_CHECKING:
    from dirge_py.config.schema import Config
    from dirge_py.conversation import Conversation
    from dirge_py.demo.play import Demo
    from dirge_py.wiring.options import BuildOptions


def start_of(
    load: Callable[[], "Config"],
    options: Callable[[], "BuildOptions"],
    *,
    prompt: str,
    pick_session: bool,
    config_file: Path | None,
) -> TuiStart:
    """An ordinary start. Settings are read now, for looks, and again for every conversation."""
    from dirge_py.wiring.setup import ProviderSetup

    looks = load()

    def open_first(asker: Asker) -> "Conversation":
        from dirge_py.wiring.build import build

        return build(load(), asker, options())

    def open_other(asker: Asker, session_id: str | None) -> "Conversation":
        from dirge_py.wiring.build import build
        from dirge_py.wiring.options import SessionChoice

        kind = SessionChoice(kind="resume", id=session_id) if session_id else SessionChoice()
        return build(load(), asker, replace(options(), session=kind))

    return TuiStart(
        open_first=open_first,
        open_other=open_other,
        warm_up=lambda: import_module("dirge_py.wiring.build"),
        setup=ProviderSetup(config_file),
        first_prompt=prompt,
        pick_session=pick_session,
        theme=looks.ui.theme,
        show_thinking=looks.ui.show_thinking,
        keys=looks.keys,
    )


def start_of_demo(demo: "Demo") -> TuiStart:
    """The demo, at a pace that can be followed."""
    from dirge_py.demo.script import PROMPT

    return TuiStart(
        open_first=lambda asker: demo.conversation(asker, paced=True),
        open_other=lambda asker, session_id: demo.conversation(asker, paced=True),
        first_prompt=PROMPT,
        pick_session=False,
    )
