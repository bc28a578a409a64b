"""Running a program that takes over the terminal: an editor, a pager."""

import asyncio
from collections.abc import Sequence

from dirge_py.processes.programs import program_of_person
from dirge_py.types.errors import ProcessError


async def run_in_foreground(arguments: Sequence[str]) -> int:
    """Run a program with our own terminal and environment; returns its exit code.

    Only what awaits this stands still. Ctrl+C reaches us too: it is the caller's to pass over.

    Raises:
        ProcessError: the program cannot be started.
    """
    try:
        found = program_of_person(arguments[0])
        program = await asyncio.create_subprocess_exec(found, *arguments[1:])
    except OSError as error:
        raise ProcessError(
            f"{arguments[0]} cannot be started: {error.strerror}.",
            hint="Set VISUAL or EDITOR to your editor.",
        ) from error
    try:
        return await program.wait()
    except asyncio.CancelledError:
        program.terminate()
        raise
