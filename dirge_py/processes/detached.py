"""Starting a program of the person's that goes its own way: an editor beside us."""

import asyncio
import contextlib
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from dirge_py.processes.programs import program_of_person
from dirge_py.types.errors import ProcessError


def start_detached(arguments: Sequence[str], *, cwd: Path, ended: Callable[[int], object]) -> None:
    """Start a program with our environment, but not our terminal; nobody waits for it.

    It outlives us. While we run, `ended` is told its exit code, on the running event loop.

    Raises:
        ProcessError: it cannot be started.
    """
    try:
        # A group of its own keeps Ctrl+C from it. It stays in our session: what leaves that while
        # commands run is taken for something that they left behind.
        program = subprocess.Popen(
            [program_of_person(arguments[0]), *arguments[1:]],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,
        )
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise ProcessError(f"{arguments[0]} cannot be started: {why}.") from error
    loop = asyncio.get_running_loop()

    def wait() -> None:
        code = program.wait()
        with contextlib.suppress(RuntimeError):  # The loop is closed: nobody wants to know.
            loop.call_soon_threadsafe(ended, code)

    threading.Thread(target=wait, name="detached", daemon=True).start()
