"""`dirge update`: installs the newest version, the way this one was installed."""

import asyncio
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from dirge_py.cli.arguments import Parser
from dirge_py.config.load import load
from dirge_py.lib.text import clean
from dirge_py.lib.version import __version__
from dirge_py.processes.programs import run_in_foreground
from dirge_py.sdk.update import Installation, find_installation, installed_version, is_newer
from dirge_py.tools.web.package_index import newest_release
from dirge_py.types.errors import ProcessError


def build_update_parser() -> Parser:
    """The flags of `dirge update`."""
    parser = Parser(
        prog="dirge update",
        description="Update dirge with pipx, uv, pip or git, as it was installed.",
        epilog="`dirge update the docs` is a prompt.",
    )
    parser.add_argument("--check", action="store_true", help="only check for an update")
    parser.add_argument("--config", metavar="FILE", help="read FILE instead of config.toml")
    return parser


def update(rest: Sequence[str]) -> int:
    """Update, or check; returns the exit code. Raises DirgeError."""
    flags = build_update_parser().parse_args(list(rest))
    how = find_installation()
    newest = ""
    if how.kind != "clone":
        config = load(path=Path(flags.config) if flags.config else None)
        newest = clean(newest_release(config.update.index_url).strip())
        if not is_newer(newest):
            sys.stdout.write(f"dirge {__version__} is up to date.\n")
            return 0
        sys.stdout.write(f"dirge {newest} is available (this is {__version__}).\n")
    if flags.check:
        sys.stdout.write(f"Installed by {how.kind}; `{shlex.join(how.command)}` updates it.\n")
        return 0
    install(how, newest)
    return 0


def install(how: Installation, newest: str) -> None:
    """Run the command that updates to `newest`. Raises ProcessError: it is not installed then."""
    command = shlex.join(how.command)
    sys.stdout.write(f"Running: {command}\n")
    sys.stdout.flush()
    try:
        # In its own folder, because `python -m pip` imports modules from the current one.
        code = asyncio.run(run_in_foreground(how.command, cwd=sys.prefix))
    except ProcessError as error:
        raise ProcessError(error.message, hint=f"Run `{command}` yourself.") from error
    if code != 0:
        raise ProcessError(f"The update failed: `{how.command[0]}` ended with exit code {code}.")
    if how.kind == "clone":
        install_again = shlex.join((sys.executable, "-m", "pip", "install", "-e", how.command[2]))
        sys.stdout.write(f"If dirge doesn't start now, run `{install_again}`.\n")
        return
    installed = installed_version()
    if not is_newer(installed):
        text = f"dirge is still {__version__}: `{how.command[0]}` didn't install {newest}."
        raise ProcessError(text, hint="Its output above may say why.")
    sys.stdout.write(f"dirge {installed} is installed.\n")
