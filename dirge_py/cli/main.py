"""Reads the command line, starts a subcommand or front end, and turns errors into exit codes."""

import errno
import io
import os
import shlex
import sys
from collections.abc import Callable, Sequence

from dirge_py.cli.arguments import (
    CONFIG_VERBS,
    SESSIONS_VERBS,
    build_demo_parser,
    parse,
    takes_only_flags,
)
from dirge_py.cli.flags import check_flags, enter_folder, has_folder, print_error
from dirge_py.lib.nearest import is_one_edit
from dirge_py.types.errors import ConfigError, DirgeError, UsageError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_SUBCOMMANDS = (
    *("completion", "config", "demo", "doctor", "embed", "resume", "serve", "sessions", "signal"),
    *("stats", "trust", "turn", "update"),
)
"""Names that are checked for typing mistakes; not `why`, as prompts begin with `who`."""
_VERBS = {"config": tuple(CONFIG_VERBS), "sessions": tuple(SESSIONS_VERBS)}
_NO_CONFIG_VERBS = ("set", "get", "unset", "edit", "list")


def run(argv: Sequence[str]) -> int:
    """Run dirge; returns the exit code. Errors are printed, never raised."""
    try:
        prepare_streams()
        first, *rest = argv or [""]
        if first == "exec":
            return _start(["--print", *rest])
        run_it = _subcommand(first, rest)
        if run_it is None:
            _check_spelling(first, rest)
        # Words that are no subcommand are a prompt.
        return run_it(rest) if run_it is not None else _start(list(argv))
    except (UsageError, ConfigError) as error:
        print_error(error)
        return 2
    except DirgeError as error:
        print_error(error)
        return 1
    except SystemExit as ended:  # From argparse, after `--help`.
        return int(ended.code or 0)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The output has no reader any more; keep the interpreter from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    except Exception as error:
        if isinstance(error, FileNotFoundError) and not has_folder():
            gone = "the current folder no longer exists."
            print_error(UsageError(gone, hint="cd somewhere else."))
            return 2
        if isinstance(error, OSError) and error.errno in _FULL and error.filename is None:
            print_error(DirgeError(f"cannot write the output: {error.strerror}."))
            return 1
        if os.environ.get("DIRGE_LOG"):
            raise
        words = f"internal error: {type(error).__name__}: {error}"
        hint = (
            "This is a bug. Run dirge again with DIRGE_LOG=1 to see where it failed, and report it."
        )
        print_error(DirgeError(words, hint=hint))
        return 1


def _subcommand(name: str, rest: list[str]) -> Callable[[list[str]], int] | None:
    """Return the function of a subcommand; None if the words after it are not its own."""
    from dirge_py.cli.signal import signal, signal_fits
    from dirge_py.cli.trust import trust

    has_only_flags = takes_only_flags(rest)
    match name:
        case "demo" if all(word.startswith("-") for word in rest):
            return _demo
        case "signal" if signal_fits(rest):
            return signal
        case "trust" if has_only_flags:
            return trust
        case "resume" if resume_fits(rest):
            from dirge_py.cli.headless import resume

            return resume
        case "turn" if rest and has_only_flags:  # `turn the page` is a prompt.
            from dirge_py.cli.headless import turn

            return turn
        case "config" if config_fits(rest):
            from dirge_py.cli.config import config_command

            return config_command
        case "doctor" if has_only_flags:
            from dirge_py.cli.doctor import doctor

            return doctor
        case "stats" if has_no_words(rest):
            from dirge_py.cli.stats import stats

            return stats
        case "update" if has_no_words(rest):
            from dirge_py.cli.update import update

            return update
        case "serve" if has_only_flags:
            from dirge_py.cli.serve.command import serve

            return serve
        case "completion":
            from dirge_py.cli.completion import completion, completion_fits

            return completion if completion_fits(rest) else None
        case "embed":
            from dirge_py.cli.embed import embed, embed_fits

            return embed if embed_fits(rest) else None
        case "sessions":
            from dirge_py.cli.sessions import sessions, sessions_fits

            return sessions if sessions_fits(rest) else None
        case "why":
            from dirge_py.cli.why import why, why_fits

            return why if why_fits(rest) else None
    return None


def _check_spelling(first: str, rest: list[str]) -> None:
    """Raise UsageError for a subcommand or its verb with a typing mistake, instead of paying."""
    command, sent = "", shlex.join([first, *rest])
    for name in _SUBCOMMANDS:
        if is_one_edit(first, name) and _subcommand(name, rest) is not None:
            command = shlex.join([name, *rest])
    verbs = _VERBS.get(first, ()) if len(rest) in (1, 2) else ()
    for verb in verbs:
        if is_one_edit(rest[0], verb):
            command = shlex.join([first, verb, *rest[1:]])
    if command:
        hint = f"`dirge -- {sent}` sends it as a prompt."
        raise UsageError(f"there is no `dirge {sent}`. Did you mean `dirge {command}`?", hint=hint)


def _demo(rest: list[str]) -> int:
    flags = build_demo_parser().parse_args(rest)
    if not flags.print:
        _check_terminal()
    from dirge_py.cli.demo.play import Demo, PlanDemo, play_printed

    demo = PlanDemo() if flags.plan else Demo()
    if flags.print:
        return play_printed(demo)
    from dirge_py.cli.interactive import demo_start
    from dirge_py.ui.run import run_tui

    try:
        return run_tui(demo_start(demo))
    finally:
        demo.close()


def _start(argv: list[str]) -> int:
    flags = parse(argv)
    check_flags(flags)
    enter_folder(flags)
    if flags.print:
        from dirge_py.cli.headless import print_run

        return print_run(flags)
    from dirge_py.cli.interactive import line_mode, tui_start, wants_lines

    if wants_lines(line=flags.line):
        return line_mode(flags)
    from dirge_py.ui.terminal import early_frame

    try:
        _check_terminal()
        from dirge_py.ui.run import run_tui

        if flags.no_color:
            os.environ["NO_COLOR"] = "1"
        return run_tui(tui_start(flags))
    finally:
        early_frame.erase()  # Before an error is printed; the UI restores the terminal itself.


def _check_terminal() -> None:
    """Raise UsageError without a usable terminal, ConfigError for an unsupported Textual."""
    from dirge_py.cli.serve.command import is_served

    # Textual draws on stderr, so that one has to be a terminal as well.
    streams = (sys.stdin, sys.stdout, sys.stderr)
    if not is_served() and not all(stream.isatty() for stream in streams):
        hint = "Use `dirge -p` (or `dirge demo --print`) in scripts and pipes."
        raise UsageError("the terminal UI needs a terminal.", hint=hint)
    # Before anything that imports private parts of Textual.
    from dirge_py.ui.terminal.textual_parts import check_textual

    check_textual()


def prepare_streams() -> None:
    """Set the standard streams to UTF-8, and open those that are closed."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            # It was closed: the next opened file would get its number and be used as a stream.
            opened = os.open(os.devnull, os.O_WRONLY if number else os.O_RDONLY)
            setattr(sys, name, io.TextIOWrapper(io.FileIO(opened, "wb" if number else "rb")))
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        # Not `replace`: characters that can't be encoded stay readable, also in JSON.
        errors = "surrogateescape" if stream is sys.stdin else "backslashreplace"
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors=errors)


def config_fits(rest: Sequence[str]) -> bool:
    """Whether the words after `config` are its own. Raises UsageError: a verb of other programs."""
    if rest and rest[0] in _NO_CONFIG_VERBS and len(rest) <= 3:
        hint = f"Verbs: {', '.join(CONFIG_VERBS)}. `/config edit` opens the file in your editor."
        raise UsageError(f"`dirge config` has no verb `{rest[0]}`.", hint=hint)
    return not rest or rest[0] in (*CONFIG_VERBS, "-h", "--help")


def has_no_words(rest: Sequence[str]) -> bool:
    """Whether the words after `stats` or `update` are its own; `update the docs` is a prompt."""
    return not rest or rest[0].startswith("-")


def resume_fits(rest: Sequence[str]) -> bool:
    """Whether the words after `resume` are its own; `resume the work` is a prompt."""
    decides = any(word.partition("=")[0] in ("--confirm", "--reject") for word in rest)
    return bool(rest) and (decides or rest[0].startswith("-") or os.path.isfile(rest[0]))
