"""The meaning of flags: which exclude each other, and the settings and options that they set."""

import os
import sys
from argparse import Namespace
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dirge_py.types.errors import DirgeError, UsageError

if TYPE_CHECKING:
    from dirge_py.config.schema import Config
    from dirge_py.permission.rules import Mode
    from dirge_py.sdk.options import BuildOptions
    from dirge_py.slash.base import Tone


_HEADLESS = {
    "output_format": "--output-format",
    "input_format": "--input-format",
    "event_format": "--event-format",
    "output_file": "-o",
    "on_ask": "--on-ask",
    "json_schema": "--json-schema",
}
_SANDBOX_NAMES = {"bwrap": "required"}


def check_flags(flags: Namespace) -> None:
    """Raise UsageError for flags that do not go together."""
    if not flags.print:
        for name, flag in _HEADLESS.items():
            if getattr(flags, name) is not None:
                raise UsageError(
                    f"{flag} only works with -p.", hint="Add -p, or leave the flag out."
                )
    if flags.json_schema is not None and flags.plan:
        text = "--json-schema and --plan cannot be combined: a plan ends with a review."
        hint = "Ask about the result in another run: dirge -c -p --json-schema …"
        raise UsageError(text, hint=hint)
    if (flags.json_schema or "").startswith("@"):
        # Paths are relative to where the command was typed, not to --cwd.
        flags.json_schema = "@" + os.path.abspath(flags.json_schema[1:])
    reads_lines = flags.input_format == "stream-json"
    writes_lines = flags.output_format == "stream-json"
    for name in ("event_format", "include_partial_messages"):
        if getattr(flags, name) and not writes_lines:
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(f"{flag} needs --output-format stream-json.")
    if reads_lines and flags.prompt:
        text = "--input-format stream-json takes its prompts from stdin."
        raise UsageError(text, hint="Leave out the prompt on the command line.")
    if reads_lines and flags.plan:
        text = "--plan takes one request, not the messages of --input-format stream-json."
        raise UsageError(text, hint="Give it as arguments, or on stdin.")
    if flags.plan and not flags.print and not flags.prompt:
        hint = 'For example: dirge --plan "add paging"'
        raise UsageError("--plan needs a request.", hint=hint)
    if flags.tools is not None and flags.no_tools:
        raise UsageError("--tools and --no-tools cannot be combined.")
    _check_session(flags)


def first_prompt(flags: Namespace) -> str:
    """The first prompt of an interactive start; with `--plan`, as a request for a plan."""
    words = " ".join(flags.prompt)
    return f"/plan {words}" if flags.plan else words


def first_command(flags: Namespace) -> str:
    """The command that an interactive start runs first: with `-r` alone, the list of sessions."""
    if flags.resume != "":
        return ""
    return "/sessions --all" if flags.all_projects else "/sessions"


def change_folder(folder: str | None) -> None:
    """Work in the folder of `--cwd`, if one was given. Raises UsageError."""
    if folder is not None:
        try:
            os.chdir(folder)
        except OSError as error:
            raise UsageError(f"cannot change to {folder}: {error.strerror}.") from error


def project_folder(flags: Namespace) -> Path:
    """The folder of `--cwd`, or the current one. Raises UsageError: there is no such folder."""
    if flags.cwd is not None and not os.path.isdir(flags.cwd):
        raise UsageError(f"cannot change to {flags.cwd}: there is no such folder.")
    return Path(flags.cwd) if flags.cwd is not None else Path.cwd()


def enter_folder(flags: Namespace) -> None:
    """Change to the folder of `--cwd`, and check the file of `-o`. Raises UsageError."""
    change_folder(flags.cwd)
    path = flags.output_file
    if path is not None:
        folder = os.path.dirname(path) or "."
        if os.path.isdir(path) or not os.path.isdir(folder):
            raise UsageError(
                f"-o {path}: the folder {folder} doesn't exist, or the name is a folder."
            )


def has_folder() -> bool:
    """Whether the current folder still exists."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


def _check_session(flags: Namespace) -> None:
    choices = {"--continue": flags.continue_, "--resume": flags.resume is not None}
    choices |= {"--session": flags.session is not None, "--no-session": flags.no_session}
    chosen = [name for name, is_chosen in choices.items() if is_chosen]
    if len(chosen) > 1:
        raise UsageError(f"{chosen[0]} and {chosen[1]} cannot be combined.")
    if flags.fork_session and chosen in ([], ["--no-session"]):
        raise UsageError("--fork-session needs a session to copy.", hint="Add -c, or -r ID.")
    if flags.all_projects and flags.resume != "":
        hint = "`dirge -r --all` lists the sessions of all projects to pick one."
        raise UsageError("--all is for -r without an id.", hint=hint)
    if flags.resume == "" and (flags.print or not sys.stdin.isatty()):
        hint = "Name the session, or use -c."
        raise UsageError("-r without an id needs a terminal for the picker.", hint=hint)


def load_settings(flags: Namespace, api_key: str | None = None) -> "Config":
    """The settings, with the flags applied. Raises ConfigError."""
    from dirge_py.config.load import load
    from dirge_py.config.sources import Overrides

    values: dict[str, Any] = {
        "source": "",
        "api_key": api_key,
        "permission_mode": _mode(flags),
        "tools": tuple(flags.tools.split(",")) if flags.tools is not None else None,
        "sandbox": _SANDBOX_NAMES.get(flags.sandbox, flags.sandbox),
    }
    names = (field.name for field in fields(Overrides) if field.name not in values)
    values |= {name: getattr(flags, name) for name in names}
    return load(Overrides(**values), path=Path(flags.config) if flags.config else None)


def key_from_stdin() -> str:
    """The first line of stdin. Raises UsageError: it is empty."""
    key = sys.stdin.readline().strip()
    if not key:
        raise UsageError("--api-key-stdin: stdin has no key.")
    return key


def rule_options(flags: Namespace) -> "BuildOptions":
    """The flags about what calls may do. Raises UsageError."""
    from dirge_py.sdk.options import BuildOptions

    for name in flags.add_dir:
        if not os.path.isdir(name):
            raise UsageError(f"--add-dir {name}: there is no such folder.")
    return BuildOptions(
        add_dirs=tuple(flags.add_dir),
        allow=tuple(flags.allow),
        deny=tuple(flags.deny),
        allowed_tools=tuple(flags.allowedTools),
        disallowed_tools=tuple(flags.disallowedTools),
    )


def build_options(flags: Namespace) -> "BuildOptions":
    """The flags that aren't settings. Raises UsageError."""
    from dirge_py.sdk.options import SessionChoice

    session = SessionChoice(fork=flags.fork_session)
    if flags.no_session:
        session = SessionChoice(kind="none")
    elif flags.continue_:
        session = replace(session, kind="newest")
    elif flags.resume:
        session = replace(session, kind="resume", id=flags.resume)
    elif flags.session is not None:
        session = replace(session, kind="named", id=flags.session)
    return replace(
        rule_options(flags),
        session=session,
        system_prompt=_prompt_text(flags.system_prompt, flags.system_prompt_file),
        append_system_prompt=_prompt_text(
            flags.append_system_prompt, flags.append_system_prompt_file
        ),
        prompt=flags.prompt_name,
        log=flags.verbose or bool(os.environ.get("DIRGE_LOG")),
        record=flags.record,
    )


def with_notices(options: "BuildOptions", config: "Config") -> "BuildOptions":
    """The options, with notices about the chosen model and key files."""
    from dirge_py.config.access import key_file_notices
    from dirge_py.sdk.options import choice_notices

    notices = (*choice_notices(config, options.session), *key_file_notices(config))
    return replace(options, notices=(*options.notices, *notices))


def _mode(flags: Namespace) -> str | None:
    modes: set[Mode] = {*flags.modes, flags.permission_mode} - {None}
    if len(modes) < 2:
        return next(iter(modes), None)
    from dirge_py.sdk.sessions import STRICTEST_FIRST

    chosen = max(modes, key=STRICTEST_FIRST.index)
    sys.stderr.write(f"dirge: several permission modes were given; using {chosen}.\n")
    return chosen


def _prompt_text(text: str | None, path: str | None) -> str | None:
    if text is not None and path is not None:
        raise UsageError("a prompt was given both as text and as a file.")
    if path is None:
        return text
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}.") from error


def write_line(text: str, *, tone: "Tone" = "plain") -> None:
    """Write a line or more for people, without control characters; also a `setup_wizard.Notify`."""
    from dirge_py.lib.text import clean

    if text:
        sys.stdout.write(clean(f"{text}\n"))
        sys.stdout.flush()


def print_error(error: DirgeError) -> None:
    """Write an error and its hint on stderr."""
    from dirge_py.lib.text import clean

    hint = f"  {error.hint}\n" if error.hint else ""
    sys.stderr.write(clean(f"dirge: {error.message}\n{hint}"))
