"""`dirge update`: installs the newest version, the way this one was installed."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from dirge_py.cli.arguments import Parser
from dirge_py.config.load import load
from dirge_py.lib.text import clean
from dirge_py.lib.version import __version__
from dirge_py.processes.programs import run_program
from dirge_py.sdk.update import find_installation, is_newer
from dirge_py.tools.web.package_index import newest_release

_LIMIT_S = 600.0


def build_update_parser() -> Parser:
    """The flags of `dirge update`."""
    parser = Parser(
        prog="dirge update",
        description="Update dirge with pipx, uv, pip or git, as it was installed.",
        epilog="`dirge update the docs` is a prompt.",
    )
    parser.add_argument("--check", action="store_true", help="only say whether there is an update")
    parser.add_argument("--config", metavar="FILE", help="read FILE instead of config.toml")
    return parser


def update(rest: Sequence[str]) -> int:
    """Update, or check; returns the exit code. Raises DirgeError."""
    flags = build_update_parser().parse_args(list(rest))
    how = find_installation()
    command = shlex.join(how.command)
    if how.kind != "clone":
        config = load(path=Path(flags.config) if flags.config else None)
        newest = newest_release(config.update.index_url)
        if not is_newer(newest):
            sys.stdout.write(f"dirge {__version__} is up to date.\n")
            return 0
        sys.stdout.write(f"dirge {clean(newest)} is available (this is {__version__}).\n")
    if flags.check:
        sys.stdout.write(f"Installed by {how.kind}; `{command}` updates it.\n")
        return 0
    sys.stdout.write(f"Running: {command}\n")
    sys.stdout.flush()
    ended = run_program(how.command, limit_s=_LIMIT_S)
    sys.stdout.write(clean((ended.out + ended.err).decode(errors="replace")))
    if ended.code != 0:
        sys.stderr.write(f"dirge: the update failed (exit {ended.code}); nothing else was done.\n")
    return int(ended.code != 0)
