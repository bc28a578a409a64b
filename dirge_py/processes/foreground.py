"""Running a program that takes over the terminal: an editor, a pager."""

import signal
import subprocess
from collections.abc import Sequence

from dirge_py.errors import ProcessError


def run_in_foreground(arguments: Sequence[str]) -> int:
    """Run a program with our own terminal and environment; returns its exit code.

    Blocks the thread, as the person looks at that program and not at us. Ctrl+C belongs to it.

    Raises:
        ProcessError: the program cannot be started.
    """
    # A handler, not SIG_IGN: being ignored would be inherited by the program.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        return subprocess.run(list(arguments), check=False).returncode
    except OSError as error:
        raise ProcessError(
            f"{arguments[0]} cannot be started: {error.strerror}.",
            hint="Set VISUAL or EDITOR to your editor.",
        ) from error
    finally:
        signal.signal(signal.SIGINT, before)
