"""`dirge sessions import`: one file of another program at a time."""

import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from dirge_py.config.paths import state_dir
from dirge_py.config.services import SERVICES
from dirge_py.lib.paths import from_home
from dirge_py.lib.redaction import Redactor, secret_values
from dirge_py.lib.text import clean
from dirge_py.lib.version import __version__
from dirge_py.session.ids import project_root
from dirge_py.session.import_export.import_session import import_session, read_external
from dirge_py.session.store import Store


def take_over_file(name: str, program: Literal["claude", "codex", "auto"], store: Store) -> None:
    """Import one file, into the project it was made in, and say what came of it.

    Raises:
        SessionError: it holds no session, or cannot be read or stored.
    """
    found = read_external(from_home(name), program)
    target = _project_of(found.cwd, store)
    taken = import_session(found, target, redact=_redactor())
    elsewhere = "" if target.folder == store.folder else f" -C {shlex.quote(found.cwd)}"
    if taken.is_known:
        told = [f"{taken.session_id}  was imported before; nothing was done"]
    else:
        told = [f"{taken.session_id}  imported from {taken.program}, {taken.messages} messages"]
        told += [f"left out: {count} {what}" for what, count in sorted(taken.left_out.items())]
    told.append(f"`dirge{elsewhere} -r {taken.session_id}` goes on in it")
    indent = "\n" + " " * (len(taken.session_id) + 2)
    sys.stdout.write(clean(indent.join(told)) + "\n")


def _project_of(cwd: str, store: Store) -> Store:
    """The sessions of the project around `cwd`; if that is gone, those of the current one."""
    if not os.path.isabs(cwd) or not os.path.isdir(cwd):
        return store
    return Store(state_dir(), project_root(Path(cwd)), app_version=__version__)


def _redactor() -> Callable[[str], str]:
    usual = [name for service in SERVICES for name in service.key_env]
    return Redactor(secret_values(os.environ, usual)).redact
