"""`dirge config init|check|show|path|prompt`."""

import sys
from pathlib import Path

from dirge_py.cli.arguments import Parser
from dirge_py.config.commands import Report, config_check, config_init, config_path, config_show
from dirge_py.config.load import load
from dirge_py.context.counter import estimate_text
from dirge_py.wiring.options import BuildOptions
from dirge_py.wiring.prompt import SystemPrompt
from dirge_py.wiring.toolset import chosen_tools

VERBS = {
    "init": "write a first config.toml",
    "check": "say what is wrong with the settings, and what could be used",
    "show": "every setting in force and where it comes from",
    "path": "where the settings are",
    "prompt": "the system prompt that would be sent, with tokens per section",
}


def config_command(rest: list[str]) -> int:
    """Run one verb, `show` when none is named; returns the exit code."""
    lines = "\n".join(f"  {verb:7} {summary}" for verb, summary in VERBS.items())
    parser = Parser(
        prog="dirge config", allow_abbrev=False, usage=f"dirge config [VERB]\n\n{lines}"
    )
    parser.add_argument("verb", nargs="?", choices=tuple(VERBS), default="show")
    parser.add_argument("--config", metavar="FILE", type=Path)
    flags = parser.parse_args(rest)
    report = _report(flags.verb, flags.config)
    sys.stdout.write(report.text + "\n")
    return report.exit_code


def _report(verb: str, path: Path | None) -> Report:
    match verb:
        case "init":
            return config_init(path=path)
        case "check":
            return config_check(path=path)
        case "path":
            return config_path(path=path)
        case "prompt":
            return _prompt(path)
        case _:
            return config_show(path=path)


def _prompt(path: Path | None) -> Report:
    config = load(path=path)
    prompt = SystemPrompt(config, BuildOptions(), Path.cwd())
    names = [tool.name for tool in chosen_tools(config)]
    text = prompt.text(names)
    table = [f"{tokens:>6}  {name}" for name, tokens in prompt.parts(names)]
    total = f"{estimate_text(text):>6}  together (estimated tokens)"
    return Report("\n".join([text, "", "-" * 40, *table, total]))
