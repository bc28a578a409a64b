"""How a front end opens conversations: the settings read anew, the project asked about once."""

import os
from collections.abc import Callable, Mapping
from contextlib import chdir
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from dirge_py.frontend.session_conflict import Way
from dirge_py.frontend.starting import OpenFirst, OpenOther
from dirge_py.types.questions import Asker

if TYPE_CHECKING:
    from dirge_py.config.schema import Config
    from dirge_py.config.sources import LocalServer
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.permission.project_trust import TrustGate
    from dirge_py.sdk.options import BuildOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Openers:
    """What a start of a front end asks for: see `talk.starting`.

    `project` is the one around the current folder; `settings` reads the settings anew. `look`
    asks the model servers of this machine, where these settings leave nothing else.
    """

    first: OpenFirst
    other: OpenOther
    project: "Callable[[], TrustGate]"
    settings: "Callable[[], Config]"
    look: "Callable[[Config], None]"


class _Nearby:
    """The model servers of this machine, as they answered when they were asked last."""

    def __init__(self) -> None:
        self._found: Mapping[str, LocalServer] | None = None

    def look(self, config: "Config") -> None:
        """Ask them, where these settings leave nothing else."""
        self._found = None
        self.added_to(config)

    def added_to(self, config: "Config") -> "Config":
        """The settings, with the servers where they need one."""
        from dirge_py.providers.discovery import with_local_servers

        config = with_local_servers(config, self._found)
        self._found = config.origin.found
        return config


def openers(load: "Callable[[], Config]", options: "Callable[[], BuildOptions]") -> Openers:
    """`load` reads the settings; every conversation reads them anew. Imports nothing heavy yet."""

    began_in = Path.cwd()
    nearby = _Nearby()

    def settings() -> "Config":
        # The files that flags name are meant from where the flags were given.
        with chdir(began_in):
            return load()

    def chosen() -> "BuildOptions":
        with chdir(began_in):
            wanted = options()
            return replace(wanted, add_dirs=tuple(map(os.path.abspath, wanted.add_dirs)))

    @cache
    def door(folder: Path) -> "TrustGate":
        from dirge_py.permission.project_trust import TrustGate

        return TrustGate(folder)

    def project() -> "TrustGate":
        return door(Path.cwd())

    def opened(asker: Asker, wanted: "BuildOptions") -> "Conversation":
        from dirge_py.config.keys import key_file_notices
        from dirge_py.sdk.build import build
        from dirge_py.sdk.model_notices import choice_notices
        from dirge_py.sdk.options import with_project

        config, wanted = with_project(settings(), wanted, project().project)
        config = nearby.added_to(config)
        notices = (
            *wanted.notices,
            *choice_notices(config, wanted.session),
            *key_file_notices(config),
        )
        return build(config, asker, replace(wanted, notices=notices))

    def open_other(asker: Asker, session_id: str | None, way: Way = "write") -> "Conversation":
        from dirge_py.sdk.options import SessionChoice

        choice = SessionChoice()
        if session_id and way == "view":
            choice = SessionChoice(kind="view", id=session_id)
        elif session_id:
            choice = SessionChoice(kind="resume", id=session_id, fork=way == "fork")
        return opened(asker, replace(chosen(), session=choice))

    return Openers(
        first=lambda asker: opened(asker, chosen()),
        other=open_other,
        project=project,
        settings=settings,
        look=nearby.look,
    )
