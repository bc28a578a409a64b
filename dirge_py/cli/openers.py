"""How a front end opens conversations: the settings read anew, the project asked about once."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from dirge_py.questions import Asker
from dirge_py.talk.busy import Way
from dirge_py.talk.starting import OpenFirst, OpenOther

if TYPE_CHECKING:
    from dirge_py.config.schema import Config
    from dirge_py.conversation import Conversation
    from dirge_py.wiring.options import BuildOptions
    from dirge_py.wiring.trust import ProjectDoor


@dataclass(frozen=True, slots=True, kw_only=True)
class Openers:
    """What a start of a front end asks for: see `talk.starting`."""

    first: OpenFirst
    other: OpenOther
    project: "Callable[[], ProjectDoor]"


def openers(load: "Callable[[], Config]", options: "Callable[[], BuildOptions]") -> Openers:
    """`load` reads the settings; every conversation reads them anew. Imports nothing heavy yet."""

    @cache
    def project() -> "ProjectDoor":
        from dirge_py.wiring.trust import ProjectDoor

        return ProjectDoor(Path.cwd())

    def opened(asker: Asker, wanted: "BuildOptions") -> "Conversation":
        from dirge_py.wiring.build import build
        from dirge_py.wiring.trust import with_project

        config, wanted = with_project(load(), wanted, project().project)
        return build(config, asker, wanted)

    def open_other(asker: Asker, session_id: str | None, way: Way = "write") -> "Conversation":
        from dirge_py.wiring.options import SessionChoice

        choice = SessionChoice()
        if session_id and way == "view":
            choice = SessionChoice(kind="view", id=session_id)
        elif session_id:
            choice = SessionChoice(kind="resume", id=session_id, fork=way == "fork")
        return opened(asker, replace(options(), session=choice))

    return Openers(first=lambda asker: opened(asker, options()), other=open_other, project=project)
