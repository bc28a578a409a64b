"""`dirge`: reads the command line, picks one front end, and turns errors into exit codes.

Imports that cost something stand at the top of the branch that needs them: here and nowhere else.
"""

import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dirge_py.cli.arguments import MODES, folders, parse
from dirge_py.cli.streams import prepare_streams
from dirge_py.errors import ConfigError, DirgeError, UsageError

if TYPE_CHECKING:
    from dirge_py.config.schema import Config
    from dirge_py.config.sources import Overrides
    from dirge_py.headless.prompt import Prompt
    from dirge_py.wiring.options import BuildOptions, SessionChoice

CONFIG_VERBS = ("init", "check", "show", "path", "prompt")
MOST_PERMISSIVE_FIRST = ("yolo", "accept", "standard", "restrictive", "plan")
assert set(MODES) == set(MOST_PERMISSIVE_FIRST)


def run(argv: Sequence[str]) -> int:
    """Run dirge; returns the exit code. Errors are printed, never raised."""
    try:
        prepare_streams()
        return _dispatch(list(argv))
    except UsageError as error:
        _complain(error)
        return 2
    except ConfigError as error:
        _complain(error)
        return 2
    except DirgeError as error:
        _complain(error)
        return 1
    except KeyboardInterrupt:
        return 130
    except FileNotFoundError as error:
        if _has_folder():
            return _complain_of_bug(error)
        _complain(UsageError("the folder this was started in is gone.", hint="cd somewhere else."))
        return 2
    except BrokenPipeError:
        # Nobody reads our output any more; keep the interpreter from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    except Exception as error:
        return _complain_of_bug(error)


def _dispatch(argv: list[str]) -> int:
    first, rest = (argv[0], argv[1:]) if argv else ("", [])
    if first == "exec":
        return _start(["--print", *rest])
    if first == "demo" and all(word.startswith("-") for word in rest):
        return _demo(rest)
    if first == "config" and (not rest or rest[0] in (*CONFIG_VERBS, "-h", "--help")):
        return _config(rest)
    if first == "why" and rest:
        from dirge_py.cli.why import fits, why

        if fits(rest):
            return why(rest)
    return _start(argv)


def _demo(rest: list[str]) -> int:
    known = {"--print", "-p"}
    unknown = [word for word in rest if word not in known]
    if unknown:
        raise UsageError(f"no flag `{unknown[0]}` for `dirge demo`.", hint="There is --print.")
    if rest:
        from dirge_py.demo.play import play_printed

        return play_printed()
    return _demo_on_screen()


def _config(rest: list[str]) -> int:
    from dirge_py.cli.config import config_command

    return config_command(rest)


def _start(argv: list[str]) -> int:
    flags = parse(argv)
    _check(flags)
    if flags.cwd is not None:
        _change_folder(flags.cwd)
    if flags.output_file is not None:
        _check_output(flags.output_file)
    return _print(flags) if flags.print else _interactive(flags)


def _check(flags: Namespace) -> None:
    """Raise UsageError for flags that do not go together."""
    if not flags.print:
        for name in ("output_format", "input_format", "event_format", "output_file", "on_ask"):
            if getattr(flags, name) is not None:
                shown = "-o" if name == "output_file" else "--" + name.replace("_", "-")
                raise UsageError(f"{shown} works with -p only.", hint="Add -p, or leave it out.")
    if flags.event_format and flags.output_format != "stream-json":
        raise UsageError("--event-format needs --output-format stream-json.")
    if flags.input_format == "stream-json" and flags.prompt:
        raise UsageError(
            "--input-format stream-json takes its prompts from stdin.", hint="Leave the words out."
        )
    if flags.include_partial_messages and flags.output_format != "stream-json":
        raise UsageError("--include-partial-messages needs --output-format stream-json.")
    if flags.tools is not None and flags.no_tools:
        raise UsageError("--tools and --no-tools exclude each other.")
    _check_session(flags)


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


def _check_output(path: str) -> None:
    """Raise UsageError now, rather than after a run that was paid for."""
    folder = os.path.dirname(path) or "."
    if os.path.isdir(path) or not os.path.isdir(folder):
        raise UsageError(f"-o {path}: there is no folder {folder}, or the name is one.")


def _change_folder(folder: str) -> None:
    try:
        os.chdir(folder)
    except OSError as error:
        raise UsageError(f"{folder} cannot be worked in: {error.strerror}.") from error


def _print(flags: Namespace) -> int:
    try:
        return _print_run(flags)
    except (UsageError, BrokenPipeError):
        raise
    except Exception as error:
        if isinstance(error, FileNotFoundError) and not _has_folder():
            raise
        if flags.output_format in ("json", "stream-json"):
            from dirge_py.headless.json_lines import one_line
            from dirge_py.headless.result import error_object

            sys.stdout.write(one_line(error_object(error)))
            sys.stdout.flush()
        raise


def _print_run(flags: Namespace) -> int:
    from dirge_py import slash
    from dirge_py.headless.asker import PolicyAsker
    from dirge_py.headless.print_mode import PrintOptions, complain, print_all
    from dirge_py.slash.registry import discover
    from dirge_py.wiring.build import build

    api_key = _key_from_stdin() if flags.api_key_stdin else None
    prompt = None if flags.input_format == "stream-json" else _prompt(flags)
    config = _load(flags, api_key)
    options = _options(flags)
    asker = PolicyAsker(flags.on_ask or "deny")
    commands = discover(slash)
    for warning in commands.use_own_names(config.aliases):
        complain(warning)
    return print_all(
        lambda: build(config, asker, options),
        prompt=prompt,
        options=PrintOptions(
            output=flags.output_format or "text",
            events=flags.event_format or "claude",
            partial=flags.include_partial_messages,
            output_file=Path(flags.output_file) if flags.output_file else None,
        ),
        commands=commands,
    )


def _prompt(flags: Namespace) -> "Prompt":
    from dirge_py.headless.prompt import Prompt

    words = " ".join(flags.prompt)
    piped = ""
    if not flags.api_key_stdin:
        from dirge_py.headless.print_mode import complain
        from dirge_py.headless.stdin import read_prompt

        piped, notice = read_prompt(have_words=bool(words.strip()))
        if notice and (words.strip() or piped):
            complain(notice)
    if not (words.strip() or piped.strip()):
        raise UsageError(
            "there is no prompt.", hint='Give it as words, `dirge -p "why?"`, or on stdin.'
        )
    return Prompt(words=words, piped=piped)


def _key_from_stdin() -> str:
    key = sys.stdin.readline().strip()
    if not key:
        raise UsageError("--api-key-stdin: no key came on stdin.")
    return key


def _interactive(flags: Namespace) -> int:
    _need_terminal()
    from dirge_py.cli.screen import start_of
    from dirge_py.ui.run import run_tui

    if flags.no_color:
        os.environ["NO_COLOR"] = "1"
    key = _key_from_stdin() if flags.api_key_stdin else None
    start = start_of(
        lambda: _load(flags, key),
        lambda: _options(flags),
        prompt=" ".join(flags.prompt),
        pick_session=flags.resume == "",
        config_file=Path(flags.config) if flags.config else None,
    )
    return run_tui(start)


def _demo_on_screen() -> int:
    _need_terminal()
    from dirge_py.cli.screen import start_of_demo
    from dirge_py.demo.play import Demo
    from dirge_py.ui.run import run_tui

    demo = Demo()
    try:
        run_tui(start_of_demo(demo))
        return 0 if demo.has_passed else 1
    finally:
        demo.close()


def _need_terminal() -> None:
    # Textual draws on stderr, so that one has to be a terminal as well.
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        raise UsageError(
            "the terminal UI needs a terminal.",
            hint="Use `dirge -p` (or `dirge demo --print`) in scripts and pipes.",
        )


def _load(flags: Namespace, api_key: str | None = None) -> "Config":
    from dirge_py.config.load import load

    return load(_overrides(flags, api_key), path=Path(flags.config) if flags.config else None)


def _overrides(flags: Namespace, api_key: str | None) -> "Overrides":
    from dirge_py.config.sources import Overrides

    return Overrides(
        provider=flags.provider,
        model=flags.model,
        base_url=flags.base_url,
        thinking=flags.thinking,
        api_key=api_key,
        api_key_file=flags.api_key_file,
        permission_mode=_mode(flags),
        max_turns=flags.max_turns,
        max_cost_usd=flags.max_cost,
        max_tokens=flags.max_tokens,
        timeout_s=flags.timeout,
        tools=tuple(flags.tools.split(",")) if flags.tools is not None else None,
        no_tools=flags.no_tools,
        no_context_files=flags.no_context_files,
        no_session=flags.no_session,
    )


def _mode(flags: Namespace) -> str | None:
    asked = [
        mode
        for mode, given in (
            ("yolo", flags.yolo),
            ("accept", flags.accept_all),
            ("restrictive", flags.restrictive),
            (flags.permission_mode, flags.permission_mode is not None),
        )
        if given
    ]
    if not asked:
        return None
    chosen = min(asked, key=MOST_PERMISSIVE_FIRST.index)
    if len(set(asked)) > 1:
        sys.stderr.write(f"dirge: several permission modes were asked for; {chosen} it is.\n")
    return str(chosen)


def _options(flags: Namespace) -> "BuildOptions":
    from dirge_py.wiring.options import BuildOptions

    return BuildOptions(
        session=_session_choice(flags),
        add_dirs=folders(flags.add_dir),
        allow=tuple(flags.allow),
        deny=tuple(flags.deny),
        allowed_tools=tuple(flags.allowedTools),
        disallowed_tools=tuple(flags.disallowedTools),
        system_prompt=_text(flags.system_prompt, flags.system_prompt_file),
        append_system_prompt=_text(flags.append_system_prompt, flags.append_system_prompt_file),
        log=flags.verbose or bool(os.environ.get("DIRGE_LOG")),
    )


def _session_choice(flags: Namespace) -> "SessionChoice":
    from dirge_py.wiring.options import SessionChoice

    fork = flags.fork_session
    if flags.no_session:
        return SessionChoice(kind="none")
    if flags.continue_:
        return SessionChoice(kind="newest", fork=fork)
    if flags.resume:
        return SessionChoice(kind="resume", id=flags.resume, fork=fork)
    if flags.session is not None:
        return SessionChoice(kind="named", id=flags.session, fork=fork)
    return SessionChoice(kind="new", fork=fork)


def _text(text: str | None, path: str | None) -> str | None:
    if text is not None and path is not None:
        raise UsageError("a prompt was given both as text and as a file.")
    if path is None:
        return text
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}.") from error


def _has_folder() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


def _complain_of_bug(error: Exception) -> int:
    """Say that dirge itself failed; where, only to who asked for a log."""
    if os.environ.get("DIRGE_LOG"):
        raise error
    words = f"dirge failed in a way it should not: {type(error).__name__}: {error}"
    _complain(DirgeError(words, hint="Run it with DIRGE_LOG=1 to see where, and report it."))
    return 1


def _complain(error: DirgeError) -> None:
    from dirge_py.lib.clean import clean

    hint = f"  {error.hint}\n" if error.hint else ""
    sys.stderr.write(clean(f"dirge: {error.message}\n{hint}"))
