"""Reading a long text in the person's pager, with the screen handed over meanwhile."""

import os
import shlex
from typing import TYPE_CHECKING

from dirge_py.lib.text import clean
from dirge_py.processes.programs import find_program
from dirge_py.types.errors import ProcessError
from dirge_py.ui.editor import hand_over, write_draft

if TYPE_CHECKING:
    from dirge_py.ui.app import DirgeApp


async def read_in_pager(app: "DirgeApp", text: str) -> None:
    """Show `text` in `$PAGER`, else `less`, else `more`; a run goes on meanwhile.

    Raises:
        ProcessError: there is no pager, it failed, or this terminal cannot be handed over.
    """
    command = pager_command(os.environ.get("PAGER", ""))
    if not command:
        raise ProcessError("There is no pager.", hint="Install less, or set PAGER.")
    page = write_draft(f"{clean(text)}\n".encode("utf-8", "replace"), ".txt")
    try:
        code = await hand_over(app, [*command, str(page)])
    except ProcessError as error:
        raise ProcessError(error.message, hint="Set PAGER to your pager.") from error
    finally:
        page.unlink(missing_ok=True)
    if code != 0:
        raise ProcessError(f"{command[0]} ended with exit code {code}.")


def pager_command(wanted: str) -> list[str]:
    """The pager as program and arguments; empty if there is none.

    `cat` is no pager: what it writes is gone when the screen comes back.
    """
    try:
        command = shlex.split(wanted)
    except ValueError as error:
        raise ProcessError(f"{wanted!r} is no command: {error}.", hint="Set PAGER.") from error
    if command and os.path.basename(command[0]) != "cat":
        return command
    if find_program("less"):
        return ["less", "-R"]
    return ["more"] if find_program("more") else []
