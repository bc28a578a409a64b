"""Printed runs: `dirge -p`, `dirge turn` and `dirge resume`. Only these import it."""

import sys
from argparse import Namespace
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dirge_py import slash
from dirge_py.cli.arguments import build_resume_parser, build_turn_parser, parse_words
from dirge_py.cli.flags import (
    build_options,
    check_flags,
    enter_folder,
    has_folder,
    key_from_stdin,
    load_settings,
    with_notices,
)
from dirge_py.frontend.print.print_mode import (
    PolicyAsker,
    Prompt,
    print_all,
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
from dirge_py.slash.registry import Registry, discover
from dirge_py.types.errors import UsageError
from dirge_py.types.hooks import CallDecision

if TYPE_CHECKING:
    from dirge_py.session.recovery import Continuation


Work = Callable[[Printer], Coroutine[Any, Any, int]]


def print_run(flags: Namespace) -> int:
    """`dirge -p`: one prompt, or those that come on stdin as JSON lines; returns the exit code."""
    if flags.input_format == "stream-json":
        return _run(flags, print_stream)
    prompt = _prompt(flags)
    if prompt is None:
        hint = 'Give it as an argument, `dirge -p "why?"`, or on stdin.'
        raise UsageError("there is no prompt.", hint=hint)
    request = prompt.as_plan() if flags.plan else prompt
    return _run(flags, lambda printer: print_prompt(printer, request))


def turn(rest: Sequence[str]) -> int:
    """`dirge turn`: one turn with a prompt, or without one from the session's last state."""
    flags = parse_words(build_turn_parser(), rest, "prompt")
    check_flags(flags)
    enter_folder(flags)
    if flags.input is None:
        prompt = _prompt(flags, may_be_none=True)
    elif flags.prompt:
        raise UsageError("--input and the arguments are two prompts.", hint="Give one of them.")
    elif not flags.input.strip():
        raise UsageError("--input is empty.", hint="Leave it out to continue without a prompt.")
    else:
        prompt = Prompt(words=flags.input)
    return _run(flags, lambda printer: print_turn(printer, prompt))


def resume(rest: Sequence[str]) -> int:
    """`dirge resume`: continue a run that waits for a decision, or one that was cut off."""
    from dirge_py.session.recovery import check_call, load_continuation

    flags = parse_words(build_resume_parser(), rest, "file")
    decides = flags.confirm or flags.reject is not None
    if flags.carries_on is not None:
        if flags.file or decides or flags.tool_call_id is not None:
            text = "`dirge resume` takes either a file to decide, or --session ID."
            hint = "A run that was cut off needs no decision; see --interrupted."
            raise UsageError(text, hint=hint)
        flags.resume = flags.carries_on
        check_flags(flags)
        enter_folder(flags)
        return _run(flags, lambda printer: print_interrupted(printer, flags.interrupted))
    check_flags(flags)
    if len(flags.file) != 1:
        hint = "It is the `continuation` in the result of the run that waits. "
        hint += "`dirge resume --session ID` continues a run that was cut off."
        raise UsageError("`dirge resume` takes one file.", hint=hint)
    if flags.interrupted is not None:
        raise UsageError("--interrupted is for `dirge resume --session ID`.")
    if flags.confirm == (flags.reject is not None):
        raise UsageError("`dirge resume` needs either --confirm or --reject TEXT.")
    # Paths are relative to where the command was typed, not to --cwd.
    file = Path(flags.file[0]).absolute()
    enter_folder(flags)
    with _errors_in_json(flags):
        continuation = load_continuation(file)
        if flags.tool_call_id is not None:
            check_call(continuation, flags.tool_call_id)
    call_id, reason = continuation.awaiting, flags.reject or ""
    decision = CallDecision(tool_call_id=call_id, allow=flags.confirm, reason=reason)

    return _run(flags, lambda p: p.follow(p.conversation.continue_run([decision])), continuation)


@contextmanager
def _errors_in_json(flags: Namespace) -> Iterator[None]:
    """If the output is JSON, also print an error of the start as a result object."""
    from dirge_py.frontend.print.json_lines import one_line

    try:
        yield
    except (UsageError, BrokenPipeError):
        raise
    except Exception as error:
        is_lost = isinstance(error, FileNotFoundError) and not has_folder()
        if flags.output_format in ("json", "stream-json") and not is_lost:
            sys.stdout.write(one_line(error_object(error)))
            sys.stdout.flush()
        raise


def _run(flags: Namespace, work: Work, continuation: "Continuation | None" = None) -> int:
    from dirge_py.sdk.structured import schema_of

    with _errors_in_json(flags):
        key = key_from_stdin() if flags.api_key_stdin else None
        project = inspect_project(Path.cwd())
        config, options = with_project(load_settings(flags, key), build_options(flags), project)
        config = with_local_servers(config)
        if continuation is not None:
            session_id = continuation.session_id
            choice = SessionChoice(kind="resume", id=session_id, continuation=continuation)
            options = replace(options, session=choice)
        options = with_notices(options, config)
        asker = PolicyAsker(flags.on_ask or "deny")
        commands = Registry(discover(slash))
        for warning in commands.use_own_names(config.aliases):
            print_notice(warning)
        printing = PrintOptions(
            output=flags.output_format or "text",
            events=flags.event_format or "claude",
            partial=flags.include_partial_messages,
            output_file=Path(flags.output_file) if flags.output_file else None,
            store=open_store(config, Path.cwd()),
            answer=schema_of(flags.json_schema) if flags.json_schema is not None else None,
        )
        opening = partial(build, config, asker, options)
        return print_all(opening, work, options=printing, commands=commands)


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
