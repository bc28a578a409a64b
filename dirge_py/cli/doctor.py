"""`dirge doctor`: finds problems of this installation, with their fixes."""

import asyncio
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from dirge_py.cli.arguments import Parser
from dirge_py.cli.flags import change_folder
from dirge_py.types.errors import DirgeError

if TYPE_CHECKING:
    from dirge_py.sdk.doctor.terminal import TerminalAnswers
    from dirge_py.types.extensions import Extension


def build_doctor_parser() -> Parser:
    """The flags of `dirge doctor`."""
    parser = Parser(
        prog="dirge doctor",
        usage="dirge doctor [--json] [--offline] [-C DIR]",
        description="Check the terminal, tmux, programs, settings, providers and folders. Each "
        "provider is asked for its list of models, with its key; nothing else is sent anywhere. "
        "Exit code 1 if anything is a problem.",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument(
        "--offline", action="store_true", help="don't contact providers: send nothing"
    )
    parser.add_argument("-C", "--cwd", metavar="DIR", help="check as if started in DIR")
    return parser


def doctor(rest: Sequence[str]) -> int:
    """Examine this installation and print the findings; returns the exit code."""
    flags = build_doctor_parser().parse_args(list(rest))
    change_folder(flags.cwd)
    from dirge_py.sdk.doctor.checks import examine
    from dirge_py.sdk.doctor.report import as_json, as_text, exit_code, failed
    from dirge_py.ui.keymap import key_problems

    answers, size = _terminal_answers(), _terminal_size()
    with _start(Path.cwd(), is_offline=flags.offline) as (extensions, obstacle):
        findings = examine(
            answers,
            cwd=Path.cwd(),
            size=size,
            key_problems=key_problems,
            extensions=extensions,
            is_offline=flags.offline,
        )
    if obstacle and all(each.state != "problem" for each in findings):
        findings.append(failed("start", obstacle))
    sys.stdout.write((as_json(findings) if flags.json else as_text(findings)) + "\n")
    return exit_code(findings)


@contextmanager
def _start(cwd: Path, *, is_offline: bool) -> "Iterator[tuple[Sequence[Extension], str]]":
    """Start in `cwd` without a session; return the extensions, or the reason why nothing starts."""
    from dirge_py.config.load import load
    from dirge_py.frontend.print.print_mode import PolicyAsker
    from dirge_py.permission.project_trust import inspect_project
    from dirge_py.providers.discovery import with_local_servers
    from dirge_py.sdk.build import build
    from dirge_py.sdk.options import BuildOptions, SessionChoice, with_project

    options = BuildOptions(session=SessionChoice(kind="none"))
    try:
        config = load() if is_offline else with_local_servers(load())
        config, options = with_project(config, options, inspect_project(cwd))
        conversation = build(config, PolicyAsker("deny"), options)
    except (DirgeError, OSError) as error:
        yield (), error.in_one_line() if isinstance(error, DirgeError) else str(error)
        return
    try:
        yield conversation.extensions.all, ""
    finally:
        asyncio.run(conversation.close())


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
