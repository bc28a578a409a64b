"""`dirge doctor`: finds problems of this installation, with their fixes."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from dirge_py.cli.arguments import Parser
from dirge_py.cli.flags import change_folder

if TYPE_CHECKING:
    from dirge_py.sdk.doctor.terminal import TerminalAnswers


def build_doctor_parser() -> Parser:
    """The flags of `dirge doctor`."""
    parser = Parser(
        prog="dirge doctor",
        usage="dirge doctor [--json] [--offline] [-C DIR]",
        description="Looks at the terminal, tmux, programs, settings, providers and folders. Each "
        "provider is asked for its list of models, with its key; nothing else is sent anywhere. "
        "Exit code 1 if anything is a problem.",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--offline", action="store_true", help="ask no provider: send nothing")
    parser.add_argument("-C", "--cwd", metavar="DIR", help="as if started in DIR")
    return parser


def doctor(rest: Sequence[str]) -> int:
    """Examine this installation and print the findings; returns the exit code."""
    flags = build_doctor_parser().parse_args(list(rest))
    change_folder(flags.cwd)
    from dirge_py.sdk.doctor.checks import examine
    from dirge_py.sdk.doctor.report import as_json, as_text, exit_code
    from dirge_py.ui.keymap import key_problems

    answers, size = _terminal_answers(), _terminal_size()
    findings = examine(
        answers, cwd=Path.cwd(), size=size, key_problems=key_problems, is_offline=flags.offline
    )
    sys.stdout.write((as_json(findings) if flags.json else as_text(findings)) + "\n")
    return exit_code(findings)


def _terminal_answers() -> "TerminalAnswers | None":
    from dirge_py.sdk.doctor.terminal import ask_terminal, is_simple

    output = next((stream for stream in (sys.stdout, sys.stderr) if stream.isatty()), None)
    if output is None or not sys.stdin.isatty():
        return None
    output.flush()
    try:
        return ask_terminal(sys.stdin.fileno(), output.fileno(), is_simple=is_simple(os.environ))
    except OSError:
        return None


def _terminal_size() -> tuple[int, int] | None:
    for stream in (sys.stdout, sys.stderr, sys.stdin):
        with suppress(OSError):
            return os.get_terminal_size(stream.fileno())
    return None
