"""Asking a program something short: its version, the clipboard, the settings of a terminal."""

import subprocess
from collections.abc import Sequence

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.processes.programs import find_program, why_not_found
from dirge_py.types.errors import ProcessError


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended; `out` and `err` are empty unless they were read."""

    code: int
    out: bytes = b""
    err: bytes = b""

    @property
    def last_words(self) -> str:
        """The end of what it complained of, in one line."""
        lines = self.err.decode(errors="replace").strip().splitlines()
        return lines[-1][:200] if lines else f"it ended with {self.code}"


def run_briefly(
    arguments: Sequence[str], *, given: bytes = b"", limit_s: float, reads: bool = True
) -> Ended:
    """Run a program of the person's, with their environment, to its end.

    One in the project does not count, see `find_program`: a repository could bring its own.

    `reads=False` is for programs that leave a child behind that keeps what they were given: it
    would hold our end of their output open.

    Raises:
        ProcessError: it cannot be started, or took longer than `limit_s`; it is killed then.
    """
    output = subprocess.PIPE if reads else subprocess.DEVNULL
    found = find_program(arguments[0])
    if found is None:
        raise ProcessError(f"{arguments[0]} cannot be started: {why_not_found(arguments[0])}.")
    try:
        ended = subprocess.run(
            [found, *arguments[1:]],
            input=given,
            stdout=output,
            stderr=output,
            timeout=limit_s,
            check=False,
            # Not a session of its own: what leaves ours while commands run is taken for something
            # that they left behind, such as the child by which `wl-copy` keeps what was copied.
            process_group=0,
        )
    except subprocess.TimeoutExpired as error:
        raise ProcessError(f"{arguments[0]} did not end within {limit_s:g} s.") from error
    except OSError as error:
        raise ProcessError(f"{arguments[0]} cannot be started: {error.strerror}.") from error
    return Ended(ended.returncode, ended.stdout or b"", ended.stderr or b"")
