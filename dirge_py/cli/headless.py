"""Printed runs: `dirge -p`, `dirge turn` and `dirge resume`. Only these import it."""

import sys
from argparse import Namespace
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

from dirge_py import slash
from dirge_py.cli.flags import (
    build_options,
    has_folder,
    key_from_stdin,
    load_settings,
    with_notices,
)
from dirge_py.frontend.print.json_lines import one_line
from dirge_py.frontend.print.print_mode import (
    PolicyAsker,
    Prompt,
    print_all,
    print_decision,
    print_interrupted,
    print_prompt,
    print_stream,
    print_turn,
)
from dirge_py.frontend.print.printer import Printer, PrintOptions
from dirge_py.frontend.print.result import error_object
from dirge_py.frontend.print.streams import print_notice, read_prompt
from dirge_py.permission.project_trust import inspect_project
from dirge_py.providers.discovery import with_local_servers
from dirge_py.sdk.build import build
from dirge_py.sdk.options import SessionChoice, with_project
from dirge_py.sdk.sessions import open_store
from dirge_py.sdk.structured import schema_of
from dirge_py.session.recovery import Continuation, check_call, load_continuation
from dirge_py.slash.registry import discover
from dirge_py.types.errors import UsageError
from dirge_py.types.hooks import CallDecision

Work = Callable[[Printer], Coroutine[Any, Any, int]]
_Start = Callable[[Namespace], int]


def _reports_errors(start: _Start) -> _Start:
    """Decorator: if the output is JSON, also print an error of the start as a result object."""

    @wraps(start)
    def run(flags: Namespace) -> int:
        try:
            return start(flags)
        except (UsageError, BrokenPipeError):
            raise
        except Exception as error:
            is_lost = isinstance(error, FileNotFoundError) and not has_folder()
            if flags.output_format in ("json", "stream-json") and not is_lost:
                sys.stdout.write(one_line(error_object(error)))
                sys.stdout.flush()
            raise

    return run


@_reports_errors
def print_run(flags: Namespace) -> int:
    """`dirge -p`: one prompt, or those that come on stdin as JSON lines; returns the exit code."""
    key = _key(flags)
    if flags.input_format == "stream-json":
        return _run(flags, key, print_stream)
    prompt = _prompt(flags)
    if prompt is None:
        raise UsageError(
            "there is no prompt.", hint='Give it as words, `dirge -p "why?"`, or on stdin.'
        )
    request = prompt.as_plan() if flags.plan else prompt
    return _run(flags, key, lambda printer: print_prompt(printer, request))


@_reports_errors
def turn_run(flags: Namespace) -> int:
    """`dirge turn`: one turn with a prompt, or without one from the session's last state."""
    key = _key(flags)
    if flags.input is None:
        prompt = _prompt(flags, may_be_none=True)
    elif flags.prompt:
        raise UsageError("--input and words are two prompts.", hint="Give one of them.")
    elif not flags.input.strip():
        raise UsageError("--input is empty.", hint="Leave it out to continue without a prompt.")
    else:
        prompt = Prompt(words=flags.input)
    return _run(flags, key, lambda printer: print_turn(printer, prompt))


@_reports_errors
def continue_run(flags: Namespace) -> int:
    """`dirge resume --session`: continue the run that was cut off."""
    return _run(flags, _key(flags), lambda printer: print_interrupted(printer, flags.interrupted))


@_reports_errors
def resume_run(flags: Namespace) -> int:
    """`dirge resume FILE`: decide the call that waits, and continue the run."""
    key = _key(flags)
    [file] = flags.file
    continuation = load_continuation(Path(file))
    if flags.tool_call_id is not None:
        check_call(continuation, flags.tool_call_id)
    decision = CallDecision(
        tool_call_id=continuation.awaiting, allow=flags.confirm, reason=flags.reject or ""
    )
    return _run(flags, key, lambda printer: print_decision(printer, decision), continuation)


def _run(
    flags: Namespace, key: str | None, work: Work, continuation: Continuation | None = None
) -> int:
    project = inspect_project(Path.cwd())
    config, options = with_project(load_settings(flags, key), build_options(flags), project)
    config = with_local_servers(config)
    if continuation is not None:
        choice = SessionChoice(kind="resume", id=continuation.session_id, continuation=continuation)
        options = replace(options, session=choice)
    options = with_notices(options, config)
    asker = PolicyAsker(flags.on_ask or "deny")
    commands = discover(slash)
    for warning in commands.use_own_names(config.aliases):
        print_notice(warning)
    return print_all(
        lambda: build(config, asker, options),
        work,
        options=PrintOptions(
            output=flags.output_format or "text",
            events=flags.event_format or "claude",
            partial=flags.include_partial_messages,
            output_file=Path(flags.output_file) if flags.output_file else None,
            store=open_store(config, Path.cwd()),
            answer=schema_of(flags.json_schema) if flags.json_schema is not None else None,
        ),
        commands=commands,
    )


def _key(flags: Namespace) -> str | None:
    return key_from_stdin() if flags.api_key_stdin else None


def _prompt(flags: Namespace, *, may_be_none: bool = False) -> Prompt | None:
    """Return the words and the piped text, or None; waits longer for a pipe without words."""
    words = " ".join(flags.prompt)
    piped = ""
    if not flags.api_key_stdin:
        piped, notice = read_prompt(have_words=may_be_none or bool(words.strip()))
        if notice and (words.strip() or piped):
            print_notice(notice)
    has_any = words.strip() or piped.strip()
    return Prompt(words=words, piped=piped) if has_any else None
