"""`dirge turn` and `dirge resume`: a session carried on by a queue, by cron, by whoever decides."""

import os
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from dirge_py.cli.arguments import build_resume_parser, build_turn_parser, parse_words
from dirge_py.cli.checks import check, enter
from dirge_py.types.errors import UsageError


def turn_fits(rest: Sequence[str]) -> bool:
    """Whether the words after `turn` are its own; `turn the page` is a prompt."""
    return bool(rest) and rest[0].startswith("-")


def resume_fits(rest: Sequence[str]) -> bool:
    """Whether the words after `resume` are its own; `resume the work` is a prompt."""
    if not rest:
        return False
    decides = any(word.partition("=")[0] in ("--confirm", "--reject") for word in rest)
    return decides or rest[0].startswith("-") or os.path.isfile(rest[0])


def turn(rest: Sequence[str]) -> int:
    """Take one turn; returns the exit code."""
    flags = parse_words(build_turn_parser(), rest, "prompt")
    check(flags)
    enter(flags)
    from dirge_py.cli.printed import turn_run

    return turn_run(flags)


def resume(rest: Sequence[str]) -> int:
    """Carry on a run that waits for a decision, or one that was cut off; returns the exit code."""
    flags = parse_words(build_resume_parser(), rest, "file")
    if flags.carries_on is not None:
        return _carry_on(flags)
    check(flags)
    if len(flags.file) != 1:
        raise UsageError(
            "`dirge resume` takes one file.",
            hint="It is the `continuation` in the result of the run that waits. A run that was "
            "cut off goes on with `dirge resume --session ID`.",
        )
    if flags.interrupted is not None:
        raise UsageError("--interrupted is for `dirge resume --session ID`.")
    if flags.confirm == (flags.reject is not None):
        raise UsageError("`dirge resume` needs --confirm or --reject TEXT, and one of them only.")
    # Meant where the command was typed, whatever --cwd says.
    file = Path(flags.file[0]).absolute()
    enter(flags)
    from dirge_py.cli.printed import resume_run

    return resume_run(flags, file)


def _carry_on(flags: Namespace) -> int:
    if flags.file or flags.confirm or flags.reject is not None or flags.tool_call_id is not None:
        raise UsageError(
            "`dirge resume` takes either a file to decide, or --session ID.",
            hint="A run that was cut off needs no decision; see --interrupted.",
        )
    flags.resume = flags.carries_on
    check(flags)
    enter(flags)
    from dirge_py.cli.printed import carry_on_run

    return carry_on_run(flags)
