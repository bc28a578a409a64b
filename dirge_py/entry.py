"""Where `dirge` starts: answers `--version` without any other import, leaves the rest to `cli`."""

import sys

from dirge_py import __version__


def main() -> int:
    """Run dirge with the process' arguments; returns the exit code."""
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"dirge {__version__}\n")
        return 0
    from dirge_py.cli.main import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
