"""`dirge config init|check|show|path|prompt`; `init` asks its questions on the console."""

import asyncio
import getpass
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from dirge_py.cli.arguments import build_config_parser
from dirge_py.cli.flags import write_line
from dirge_py.config import commands
from dirge_py.config.commands import ConfigReport
from dirge_py.config.load import load
from dirge_py.config.paths import config_file
from dirge_py.context.tokens import estimate_text
from dirge_py.frontend.print.streams import handled_signals
from dirge_py.frontend.setup_wizard import looks_like_key, set_up
from dirge_py.lib.paths import own_command
from dirge_py.lib.text import visible
from dirge_py.permission.project_trust import SETTINGS, inspect_project
from dirge_py.providers.discovery import with_local_servers
from dirge_py.sdk.environment import chosen_tools
from dirge_py.sdk.options import BuildOptions
from dirge_py.sdk.system_prompt import make_system_prompt
from dirge_py.slash.base import Choice
from dirge_py.types.errors import UsageError

_MOST_LINES = 30


def config_command(rest: list[str]) -> int:
    """Run one verb, by default `show`; returns the exit code."""
    flags = build_config_parser().parse_args(rest)
    path = Path(flags.config) if flags.config else None
    if flags.template and flags.verb != "init":
        raise UsageError("--template is for `dirge config init`.")
    if flags.verb == "init" and not flags.template and sys.stdin.isatty() and sys.stdout.isatty():
        return _ask_for_provider(path)
    report = _report(flags.verb, path)
    sys.stdout.write(report.text + "\n")
    return report.exit_code


def _ask_for_provider(path: Path | None) -> int:
    """The questions of the set-up, as plain lines; returns the exit code."""
    from dirge_py.providers.setup import ProviderSetup

    file = path or config_file()
    why = f"Setting up a provider in {file}. Ctrl+C cancels."
    if file.exists():
        load(path=file)  # Report its errors before the questions.
        why = f"Adding a provider to {file}. Ctrl+C cancels."

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    # `asyncio.run` replaces only Python's own handler, and would then wait for the input.
    with handled_signals(interrupt, signal.SIGINT):
        setup = set_up(ConsolePrompter(), write_line, ProviderSetup(file), why, has_demo=True)
        try:
            ending = asyncio.run(setup)
        except KeyboardInterrupt:
            write_line("\nNothing was changed.")
            raise
    if ending == "demo":
        write_line(f"Type: {own_command()} demo")
    elif ending == "given up":
        template = "`dirge config init --template` writes a commented file."
        write_line(f"Nothing was changed. {template}")
        return 1
    else:
        write_line(f"Now run `{own_command()}` in the folder of your project.")
    return 0


def _report(verb: str, path: Path | None) -> ConfigReport:
    match verb:
        case "init":
            return commands.config_init(path=path)
        case "check":
            return commands.config_check(path=path, around=with_local_servers)
        case "path":
            return commands.config_path(path=path)
        case "prompt":
            config = load(path=path)
            prompt = make_system_prompt(config, BuildOptions(), Path.cwd())
            names = [tool.name for tool in chosen_tools(config)]
            text = prompt.text(names)
            table = [f"{tokens:>6}  {name}" for name, tokens in prompt.parts(names)]
            total = f"{estimate_text(text):>6}  total (estimated tokens)"
            return ConfigReport("\n".join([text, "", "-" * 40, *table, total]))
        case _:
            trust = inspect_project(Path.cwd())
            settings = trust.settings
            project = (settings, visible(str(trust.root / SETTINGS))) if settings else None
            return commands.config_show(path=path, around=with_local_servers, project=project)


class ConsolePrompter:
    """The `setup_wizard.Prompter` of a plain terminal, line by line."""

    async def pick(self, title: str, choices: Sequence[Choice], current: str) -> str | None:
        """By number; words narrow the list, an empty line takes the marked one. None at Ctrl+D."""
        numbered = list(enumerate(choices, start=1))
        shown = numbered
        usual = next((n for n, choice in numbered if choice.id == current), 1)
        write_line(title)
        while True:
            for number, choice in shown[:_MOST_LINES]:
                mark = "*" if number == usual else " "
                write_line(f"{mark}{number:>3}  {choice.label}  {choice.detail}".rstrip())
            if len(shown) > _MOST_LINES:
                write_line(f"      and {len(shown) - _MOST_LINES} more")
            number = usual if len(shown) == len(numbered) else shown[0][0]
            answer = _typed(f"Number, or text to filter by [{number}]: ")
            if answer is None:
                return None
            if not answer or (answer.isdecimal() and 0 < int(answer) <= len(numbered)):
                return choices[int(answer or number) - 1].id
            if looks_like_key(answer):
                write_line("This looks like an API key. dirge asks for it in a later question.")
                continue
            words = answer.lower().split()
            shown = [
                (n, choice)
                for n, choice in numbered
                if all(word in f"{choice.label} {choice.detail}".lower() for word in words)
            ]
            if len(shown) == 1:
                write_line(f"{shown[0][1].label}")
                return shown[0][1].id
            if not shown:
                write_line(f"Nothing matches {answer!r}.")
                shown = numbered

    async def ask_line(self, title: str, *, value: str = "", hidden: bool = False) -> str | None:
        """One line; an empty one is `value`. None at Ctrl+D."""
        if not hidden:
            answer = _typed(f"{title} [{value}]: " if value else f"{title}: ")
            return answer if answer is None else answer or value
        try:
            return getpass.getpass(f"{title}: ")
        except EOFError:
            return None


def _typed(prompt: str) -> str | None:
    try:
        typed = input(prompt).strip()
    except EOFError:
        write_line("\n")
        return None
    if looks_like_key(typed):
        # The terminal has shown it. Its lines are cleared, as others may see the screen.
        width = shutil.get_terminal_size().columns
        lines = -(-(len(prompt) + len(typed)) // width)
        sys.stdout.write("\x1b[A\x1b[2K" * max(1, lines) + f"{prompt}\n")
    return typed
