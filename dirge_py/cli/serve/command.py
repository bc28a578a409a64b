"""`dirge serve`: the terminal UI in a browser on this machine."""

import argparse
import os
import shlex
import sys
from collections.abc import Sequence

from dirge_py.cli.arguments import LOOPBACK, Parser, parse
from dirge_py.cli.flags import check_flags, write_line
from dirge_py.types.errors import UsageError

_DRIVER = "TEXTUAL_DRIVER"


def build_serve_parser() -> Parser:
    """The flags of `dirge serve`; all others are those of the UI that is served."""
    parser = Parser(
        prog="dirge serve",
        usage="dirge serve [--port N] [--host HOST] [options] [prompt…]",
        description="Serve the terminal UI as a web page for browsers on this machine, at an "
        "address with a secret in it. Each time the page is opened, dirge starts with the options "
        "and the prompt. Ctrl+C ends all of them.",
        epilog="From another machine: ssh -L 8000:127.0.0.1:8000 HOST, and open the address there.",
    )
    parser.add_argument(
        "--port", type=_port, default=8000, help="8000 by default; 0 picks a free one"
    )
    parser.add_argument(
        "--host", default=LOOPBACK[0], help="an address of this machine (127.0.0.1)"
    )
    return parser


def serve(rest: Sequence[str]) -> int:
    """Serve until a signal comes; returns the exit code. Raises UsageError, DirgeError."""
    flags, words = build_serve_parser().parse_known_args(list(rest))
    if flags.host not in LOOPBACK:
        raise UsageError(
            f"--host {flags.host}: only this machine is served, because the page can run commands.",
            hint=f"From elsewhere: ssh -L {flags.port}:127.0.0.1:{flags.port} HOST.",
        )
    asked = parse(words)
    check_flags(asked)
    for name in ("print", "line", "api_key_stdin"):
        if getattr(asked, name):
            raise UsageError(f"--{name.replace('_', '-')} does not work with `dirge serve`.")
    try:
        from dirge_py.cli.serve.server import run_server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "dirge_py":
            raise
        text = f"`dirge serve` needs {error.name}, which is not installed."
        raise UsageError(text, hint="pip install 'dirge-py[web]'") from error
    # The abilities of the page, not of the terminal that started the server.
    os.environ["TERM"], os.environ["COLORTERM"] = "xterm-256color", "truecolor"
    # -P: nothing is imported from the current folder.
    command = shlex.join([sys.executable, "-P", "-m", "dirge_py", *words])
    warning = "Anyone with this address can use dirge as you. Ctrl+C ends it."
    return run_server(
        command,
        host=flags.host,
        port=flags.port,
        show_address=lambda address: write_line(f"Open {address}\n{warning}"),
    )


def is_served() -> bool:
    """Whether this process draws for a page, so its streams aren't a terminal."""
    return os.environ.get(_DRIVER, "").startswith("textual.drivers.web_driver:")


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: a number from 0 to 65535")
    return int(text)
