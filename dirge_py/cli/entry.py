"""Where `dirge` starts: answers `--version` without any other import, leaves the rest to `cli`."""

import os
import sys

from dirge_py.lib.version import __version__


def main() -> None:
    """Run dirge with the process' arguments, and end the process with its exit code."""
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"dirge {__version__}\n")
        return
    exit_code = 130
    try:
        from dirge_py.lib.garbage_collector import postpone_collecting

        postpone_collecting()
        from dirge_py.cli.main import run

        exit_code = run(sys.argv[1:])
    except KeyboardInterrupt:
        # `run` answers this itself; here it came while dirge was still being loaded.
        pass
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (BrokenPipeError, ConnectionResetError, ValueError):
            # Whoever read it has gone; what was said before counts.
            continue
        except OSError as error:
            exit_code = exit_code or 1
            if stream is sys.stdout:
                _complain(f"the output could not be written: {error.strerror}.")
    # Taking every loaded library apart, only to give memory back, would be felt.
    os._exit(exit_code)


def _complain(message: str) -> None:
    try:
        sys.stderr.write(f"dirge: {message}\n")
    except (OSError, ValueError):
        # Then the exit code alone must tell.
        return


if __name__ == "__main__":
    main()
