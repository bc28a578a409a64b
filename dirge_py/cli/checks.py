"""Flags that do not go together, told before anything is started or paid for."""

import os
import sys
from argparse import Namespace

from dirge_py.types.errors import UsageError

_HEADLESS = (
    "output_format",
    "input_format",
    "event_format",
    "output_file",
    "on_ask",
    "json_schema",
)


def check(flags: Namespace) -> None:
    """Raise UsageError for flags that do not go together."""
    if not flags.print:
        for name in _HEADLESS:
            if getattr(flags, name) is not None:
                shown = "-o" if name == "output_file" else "--" + name.replace("_", "-")
                raise UsageError(f"{shown} works with -p only.", hint="Add -p, or leave it out.")
    _check_schema(flags)
    if flags.event_format and flags.output_format != "stream-json":
        raise UsageError("--event-format needs --output-format stream-json.")
    if flags.input_format == "stream-json" and flags.prompt:
        raise UsageError(
            "--input-format stream-json takes its prompts from stdin.", hint="Leave the words out."
        )
    if flags.input_format == "stream-json" and flags.plan:
        raise UsageError(
            "--plan takes one request, not the messages of --input-format stream-json.",
            hint="Give it as words, or as text on stdin.",
        )
    if flags.plan and not flags.print and not flags.prompt:
        raise UsageError(
            "--plan needs a request.", hint='Give it as words: dirge --plan "add paging"'
        )
    if flags.include_partial_messages and flags.output_format != "stream-json":
        raise UsageError("--include-partial-messages needs --output-format stream-json.")
    if flags.tools is not None and flags.no_tools:
        raise UsageError("--tools and --no-tools exclude each other.")
    _check_session(flags)


def first_prompt(flags: Namespace) -> str:
    """What an interactive start begins with: the words, as a request for a plan with `--plan`."""
    words = " ".join(flags.prompt)
    return f"/plan {words}" if flags.plan else words


def go_to(folder: str | None) -> None:
    """Work in the folder of `--cwd`, if one was given. Raises UsageError."""
    if folder is not None:
        try:
            os.chdir(folder)
        except OSError as error:
            raise UsageError(f"{folder} cannot be worked in: {error.strerror}.") from error


def enter(flags: Namespace) -> None:
    """Go to the folder of `--cwd`, and see that the file of `-o` can be written.

    Raises:
        UsageError: one of them cannot be. Better now than after a run that was paid for.
    """
    go_to(flags.cwd)
    path = flags.output_file
    if path is not None:
        folder = os.path.dirname(path) or "."
        if os.path.isdir(path) or not os.path.isdir(folder):
            raise UsageError(f"-o {path}: there is no folder {folder}, or the name is one.")


def has_folder() -> bool:
    """Whether the folder we work in is still there."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


def _check_schema(flags: Namespace) -> None:
    given = flags.json_schema
    if given is not None and flags.plan:
        raise UsageError(
            "--json-schema and --plan exclude each other: a plan ends with a review.",
            hint="Ask about what came of it in another run: dirge -c -p --json-schema …",
        )
    if given is not None and given.startswith("@"):
        # Meant where the command was typed, whatever --cwd says.
        flags.json_schema = "@" + os.path.abspath(given[1:])


def _check_session(flags: Namespace) -> None:
    chosen = [
        name
        for name, given in (
            ("--continue", flags.continue_),
            ("--resume", flags.resume is not None),
            ("--session", flags.session is not None),
            ("--no-session", flags.no_session),
        )
        if given
    ]
    if len(chosen) > 1:
        raise UsageError(f"{chosen[0]} and {chosen[1]} exclude each other.")
    if flags.fork_session and chosen in ([], ["--no-session"]):
        raise UsageError("--fork-session needs a session to branch off.", hint="Add -c, or -r ID.")
    if flags.resume == "" and (flags.print or not sys.stdin.isatty()):
        raise UsageError(
            "-r without an id needs a terminal to pick in.", hint="Name the session, or use -c."
        )
