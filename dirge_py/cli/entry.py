"""The entry point of `dirge`: answers `--version` without other imports, else calls `cli.main`.

In a terminal it first paints the frame with which the last start began.
"""

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
        if os.isatty(1):
            from dirge_py.ui.terminal.early_frame import paint

            paint(sys.argv[1:])
        from dirge_py.lib.garbage_collector import postpone_collecting

        postpone_collecting()
        from dirge_py.cli.main import run

        exit_code = run(sys.argv[1:])
    except KeyboardInterrupt:
        # `run` handles Ctrl+C itself; this one came while dirge was loading.
        pass
    finally:
        if os.isatty(1):
            from dirge_py.ui.terminal.early_frame import erase

            erase()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (BrokenPipeError, ConnectionResetError, ValueError):
            # The reader is gone; keep the exit code.
            continue
        except OSError as error:
            exit_code = exit_code or 1
            try:
                if stream is sys.stdout:
                    sys.stderr.write(f"dirge: cannot write the output: {error.strerror}.\n")
            except (OSError, ValueError):
                continue  # Then the exit code alone must tell.
    # Skip the interpreter's clean-up, which takes noticeably long.
    os._exit(exit_code)


if __name__ == "__main__":
    main()
