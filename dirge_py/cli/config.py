"""`dirge config init|check|show|path|prompt`."""

import sys
from pathlib import Path

from dirge_py.cli.arguments import Parser
from dirge_py.config.commands import (
    ConfigReport,
    config_check,
    config_init,
    config_path,
    config_show,
)
from dirge_py.config.load import load
from dirge_py.config.paths import config_file
from dirge_py.context.tokens import estimate_text
from dirge_py.providers.discovery import with_local_servers
from dirge_py.sdk.environment import chosen_tools
from dirge_py.sdk.options import BuildOptions
from dirge_py.sdk.system_prompt import make_system_prompt
from dirge_py.types.errors import UsageError

VERBS = {
    "init": "set up a provider: a few questions, and a test request",
    "check": "say what is wrong with the settings, and what could be used",
    "show": "every setting in force and where it comes from",
    "path": "where the settings are",
    "prompt": "the system prompt that would be sent, with tokens per section",
}


def build_config_parser() -> Parser:
    """The flags of `dirge config`."""
    lines = "\n".join(f"  {verb:7} {summary}" for verb, summary in VERBS.items())
    parser = Parser(
        prog="dirge config", allow_abbrev=False, usage=f"dirge config [VERB]\n\n{lines}"
    )
    parser.add_argument("verb", nargs="?", choices=tuple(VERBS), default="show")
    parser.add_argument("--config", metavar="FILE", type=Path)
    parser.add_argument(
        "--template", action="store_true", help="init: ask nothing, write a file with comments"
    )
    return parser


def config_command(rest: list[str]) -> int:
    """Run one verb, `show` when none is named; returns the exit code."""
    flags = build_config_parser().parse_args(rest)
    if flags.template and flags.verb != "init":
        raise UsageError("--template is for `dirge config init`.")
    if flags.verb == "init" and not flags.template and _has_terminal():
        return _ask_for_provider(flags.config)
    report = _report(flags.verb, flags.config)
    sys.stdout.write(report.text + "\n")
    return report.exit_code


def _has_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _ask_for_provider(path: Path | None) -> int:
    """The questions of the set-up, as plain lines; returns the exit code."""
    from dirge_py.cli.plain_desk import PlainDesk, at_once, tell
    from dirge_py.frontend.setup_wizard import set_up
    from dirge_py.providers.setup import ProviderSetup

    file = path or config_file()
    why = f"A provider for {file}. Ctrl+C leaves without a trace."
    if file.exists():
        load(path=file)  # What is wrong with it is better told before the questions.
        why = f"{file} is there: a provider is added to it. Ctrl+C leaves without a trace."
    ending = at_once(set_up(PlainDesk(), tell, ProviderSetup(file), why, has_demo=True))
    if ending == "demo":
        tell("Type: dirge demo")
    elif ending == "given up":
        tell("Nothing was changed. `dirge config init --template` writes a file with comments.")
    return 1 if ending == "given up" else 0


def _report(verb: str, path: Path | None) -> ConfigReport:
    match verb:
        case "init":
            return config_init(path=path)
        case "check":
            return config_check(path=path, around=with_local_servers)
        case "path":
            return config_path(path=path)
        case "prompt":
            return _prompt(path)
        case _:
            return config_show(path=path, around=with_local_servers)


def _prompt(path: Path | None) -> ConfigReport:
    config = load(path=path)
    prompt = make_system_prompt(config, BuildOptions(), Path.cwd())
    names = [tool.name for tool in chosen_tools(config)]
    text = prompt.text(names)
    table = [f"{tokens:>6}  {name}" for name, tokens in prompt.parts(names)]
    total = f"{estimate_text(text):>6}  together (estimated tokens)"
    return ConfigReport("\n".join([text, "", "-" * 40, *table, total]))
