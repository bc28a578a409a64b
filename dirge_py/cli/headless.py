"""Runs that are printed: `dirge -p`, `dirge turn`, `dirge resume`. Imported by these alone."""

import sys
from argparse import Namespace
from collections.abc import Callable, Coroutine
from dataclasses import replace
from dirge_py import slash
from dirge_py.cli.flags import build_options, has_folder, key_from_stdin, load_settings
from dirge_py.config.access import key_file_notices
from dirge_py.frontend.print.json_lines import one_line
from dirge_py.frontend.print.print_mode import PolicyAsker, Prompt, print_all, print_decision, print_interrupted, print_prompt, print_stream, print_turn
from dirge_py.frontend.print.printer import PrintOptions, Printer
from dirge_py.frontend.print.result import error_object
from dirge_py.frontend.print.streams import print_notice, read_prompt
from dirge_py.permission.project_trust import inspect_project
from dirge_py.providers.discovery import with_local_servers
from dirge_py.sdk.build import build
from dirge_py.sdk.model_notices import choice_notices
from dirge_py.sdk.options import SessionChoice, with_project
from dirge_py.sdk.sessions import open_store
from dirge_py.sdk.structured import schema_of
from dirge_py.session.recovery import Continuation, check_call, load_continuation
from dirge_py.slash.registry import discover
from dirge_py.types.errors import UsageError
from dirge_py.types.hooks import CallDecision
from pathlib import Path
from typing import Any


Work = Callable[[Printer], Coroutine[Any, Any, int]]


def print_run(flags: Namespace) -> int:
    """`dirge -p`: one prompt, or those that come on stdin as JSON lines; returns the exit code."""

    def prepared() -> int:
        key = _key(flags)
        if flags.input_format == "stream-json":
            return _run(flags, key, print_stream)
        prompt = _prompt(flags)
        if prompt is None:
            raise UsageError(
                "there is no prompt.", hint='Give it as words, `dirge -p "why?"`, or on stdin.'
            )
        asked = prompt.as_plan() if flags.plan else prompt
        return _run(flags, key, lambda printer: print_prompt(printer, asked))

    return _report_errors(flags, prepared)


def turn_run(flags: Namespace) -> int:
    """`dirge turn`: one turn about a prompt, or from where the session stands."""

    def prepared() -> int:
        key = _key(flags)
        prompt = _input(flags)
        return _run(flags, key, lambda printer: print_turn(printer, prompt))

    return _report_errors(flags, prepared)


def carry_on_run(flags: Namespace) -> int:
    """`dirge resume --session`: the run that was cut off goes on."""

    def prepared() -> int:
        key = _key(flags)
        return _run(flags, key, lambda printer: print_interrupted(printer, flags.interrupted))

    return _report_errors(flags, prepared)


def resume_run(flags: Namespace, file: Path) -> int:
    """`dirge resume FILE`: the call that waits is decided, and the run goes on."""

    def prepared() -> int:
        key = _key(flags)
        found = load_continuation(file)
        if flags.tool_call_id is not None:
            check_call(found, flags.tool_call_id)
        decision = CallDecision(
            tool_call_id=found.awaiting, allow=flags.confirm, reason=flags.reject or ""
        )
        return _run(flags, key, lambda printer: print_decision(printer, decision), found)

    return _report_errors(flags, prepared)


def _run(
    flags: Namespace, key: str | None, work: Work, continuation: Continuation | None = None
) -> int:
    project = inspect_project(Path.cwd())
    config, options = with_project(load_settings(flags, key), build_options(flags), project)
    config = with_local_servers(config)
    if continuation is not None:
        choice = SessionChoice(kind="resume", id=continuation.session_id, continuation=continuation)
        options = replace(options, session=choice)
    told = (*choice_notices(config, options.session), *key_file_notices(config))
    options = replace(options, notices=(*options.notices, *told))
    answer = schema_of(flags.json_schema) if flags.json_schema is not None else None
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
            answer=answer,
        ),
        commands=commands,
    )


def _report_errors(flags: Namespace, run: Callable[[], int]) -> int:
    """What `run` returns; an error of a start is also told as an object, where one is expected."""
    try:
        return run()
    except (UsageError, BrokenPipeError):
        raise
    except Exception as error:
        if isinstance(error, FileNotFoundError) and not has_folder():
            raise
        if flags.output_format in ("json", "stream-json"):
            sys.stdout.write(one_line(error_object(error)))
            sys.stdout.flush()
        raise


def _key(flags: Namespace) -> str | None:
    return key_from_stdin() if flags.api_key_stdin else None


def _prompt(flags: Namespace, *, may_be_none: bool = False) -> Prompt | None:
    """The words and what is piped in, None if there is neither.

    A pipe that stays silent is waited for longer when nothing else can be the prompt.
    """
    words = " ".join(flags.prompt)
    piped = ""
    if not flags.api_key_stdin:
        piped, notice = read_prompt(have_words=may_be_none or bool(words.strip()))
        if notice and (words.strip() or piped):
            print_notice(notice)
    has_any = words.strip() or piped.strip()
    return Prompt(words=words, piped=piped) if has_any else None


def _input(flags: Namespace) -> Prompt | None:
    """The prompt of a turn, None to go on without one."""
    if flags.input is None:
        return _prompt(flags, may_be_none=True)
    if flags.prompt:
        raise UsageError("--input and words are two prompts.", hint="Give one of them.")
    if not flags.input.strip():
        raise UsageError("--input is empty.", hint="Leave it out to go on without a prompt.")
    return Prompt(words=flags.input)
