"""The docs are complete and true."""

import argparse
import ast
import importlib
import operator
import re
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest

from dirge_py import slash
from dirge_py.cli import arguments, completion, doctor, embed, signal, stats, trust, update, why
from dirge_py.cli.serve.command import build_serve_parser
from dirge_py.config.problems import ANY, known_keys
from dirge_py.config.schema import config_from
from dirge_py.frontend.print import result
from dirge_py.frontend.print.streams import read_line
from dirge_py.permission.decide import _TABLE
from dirge_py.permission.decision import Policy
from dirge_py.permission.rules import Mode
from dirge_py.providers import registry as providers
from dirge_py.slash.registry import Registry, discover
from dirge_py.tools import toolbox as tools
from dirge_py.types.errors import ConfigError, DirgeError, ErrorKind
from dirge_py.types.events import ForkEvent, LoopEvent
from dirge_py.types.messages import UserMessage
from dirge_py.types.outcomes import Cancelled, Failed, LimitExceeded, MaxTurns, Outcome
from dirge_py.ui import commands
from dirge_py.ui.keymap import DEFAULTS
from dirge_py.ui.theme.styles import theme_names
from tests.house.source import ROOT, mentioning, name_of, tree_of, walked

PAGES = sorted([ROOT / "README.md", ROOT / "AGENTS.md", *ROOT.glob("docs/**/*.md")])
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OF_SEARCHES = {"--exclude", "--exclude-dir", "--hidden", "--include", "--no-ignore", "--untracked"}
OF_GIT = {"--exec", "--exec-path", "--git-dir", "--output", "--upload-pack"}
OF_OTHER_PROGRAMS = {
    "--force",
    "--format",
    "--pre",
    "--stat",
    "--to-command",
    *OF_SEARCHES,
    *OF_GIT,
}
OF_SLASH_COMMANDS = {"--semantic", "--chain", "--file", "--undo", "--user"}
EXAMPLE_ALIASES = {"/m"}
OF_LINE_MODE = {"/queue"}
SUBCOMMANDS = (
    "completion",
    "config",
    "demo",
    "doctor",
    "embed",
    "exec",
    "resume",
    "serve",
    "sessions",
    "signal",
    "stats",
    "trust",
    "turn",
    "update",
    "why",
)


@cache
def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def spans(text: str) -> set[str]:
    """The code spans of a page, outside its fenced blocks."""
    return {span.replace("\\|", "|") for span in re.findall(r"`([^`\n]+)`", FENCE.sub("", text))}


def missing(names: set[str], name_of_page: str) -> set[str]:
    """The names that appear in no code span of the page."""
    words = {
        word for span in spans(page(name_of_page)) for word in re.split(r"[\s,=|\[\]…]+", span)
    }
    return names - words


def fences(kind: str) -> Iterator[tuple[Path, str]]:
    for path in PAGES:
        for found, body in FENCE.findall(path.read_text(encoding="utf-8")):
            if found == kind:
                yield path, body


def parsers() -> list[argparse.ArgumentParser]:
    return [
        arguments.build_parser(),
        arguments.build_turn_parser(),
        arguments.build_resume_parser(),
        why.build_why_parser(),
        trust.build_trust_parser(),
        doctor.build_doctor_parser(),
        stats.build_stats_parser(),
        update.build_update_parser(),
        arguments.build_config_parser(),
        build_serve_parser(),
        signal.build_signal_parser(),
        embed.build_embed_parser(),
        completion.build_completion_parser(),
        *map(arguments.build_sessions_parser, arguments.SESSIONS_VERBS),
    ]


def flags(*, hidden: bool = True) -> set[str]:
    return {
        flag
        for parser in parsers()
        for action in parser._actions
        for flag in action.option_strings
        if hidden or action.help != argparse.SUPPRESS
    }


def all_commands() -> Registry:
    return Registry(discover(slash, commands))


def command_names() -> set[str]:
    return {f"/{name}" for each in all_commands() for name in (each.name, *each.aliases)}


# -- everything that exists is told


def test_every_flag_is_described() -> None:
    assert missing(flags(), "docs/cli.md") == set()


def test_every_subcommand_is_described() -> None:
    text = " ".join(spans(page("docs/cli.md")))
    expected = [f"dirge config {verb}" for verb in arguments.CONFIG_VERBS]
    expected += [f"dirge {name}" for name in SUBCOMMANDS]
    assert [name for name in expected if name not in text] == []


def test_every_tool_is_described_with_its_arguments() -> None:
    rows = {row.split("`")[1]: row for row in page("docs/tools.md").splitlines() if "| `" in row}
    assert set(rows) == set(tools.tool_names())
    for tool in tools.discover_tools():
        assert [name for name in tool.args.model_fields if f"`{name}`" not in rows[tool.name]] == []


def test_every_command_and_alias_is_described() -> None:
    assert missing(command_names(), "docs/commands.md") == set()


def test_every_key_action_is_described() -> None:
    assert missing({key.action for key in DEFAULTS}, "docs/tui.md") == set()


def test_every_theme_is_described() -> None:
    assert [name for name in theme_names() if name not in page("docs/tui.md")] == []
    assert missing(set(theme_names()), "docs/config.md") == set()


def test_every_setting_is_described_in_its_table() -> None:
    told = settings_in(page("docs/config.md"))
    assert {key for key in known_keys() if key[-1] != ANY} <= told
    named_by_users = {key[:-1] for key in known_keys() if key[-1] == ANY}
    tables = {("keys",), ("aliases",), ("timeouts", "tools"), ("tools", "most_calls")}
    assert named_by_users == tables


def test_every_exit_code_and_subtype_is_described() -> None:
    rows = re.findall(r"^\| ([\d, ]+) \| ([^|]+) \|", page("docs/headless.md"), re.MULTILINE)
    told = {
        (int(code), subtype)
        for codes, subtypes in rows
        for code in codes.split(",")
        for subtype in re.findall(r"`(\w+)`", subtypes)
    }
    endings = {(e.exit_code, e.subtype) for e in map(result.ending_of, every_outcome())}
    failed_starts = [result.error_object(error) for error in (ConfigError("m"), DirgeError("m"))]
    starts = {(value["exit_code"], value["subtype"]) for value in failed_starts}
    assert endings | starts == told


def test_every_member_of_the_result_object_is_described() -> None:
    value = result.error_object(ConfigError("m"))
    names = [*value, *value["error"], *value["usage"]]
    assert [
        name for name in names if not re.search(rf'["`]{name}["`]', page("docs/headless.md"))
    ] == []


def test_every_event_is_described() -> None:
    told = {event.type for event in get_args(LoopEvent) if event is not ForkEvent}
    assert missing(told, "docs/headless.md") == set()


def test_every_provider_type_is_described() -> None:
    assert missing(set(providers.provider_names()), "docs/providers.md") == set()


def test_every_dependency_is_explained() -> None:
    project = tomllib.loads(page("pyproject.toml"))["project"]
    declared = {re.split(r"[<>=~!\[; ]", line)[0] for line in project["dependencies"]}
    table = re.findall(
        r"^\| ([a-z, -]+) \|", page("docs/decisions/0001-dependencies.md"), re.MULTILINE
    )
    assert {name for cell in table for name in cell.split(", ")} - {"package"} == declared


def test_modes_and_policies_are_described() -> None:
    text = page("docs/permissions.md")
    assert [name for name in (*get_args(Mode), *get_args(Policy)) if name not in text] == []


def test_decision_table_in_docs_matches_the_code() -> None:
    rows = re.findall(
        r"^\| [^|]+ \| (\w+ \| \w+ \| \w+ \| \w+ \| \w+) \|$", permission_table(), re.M
    )
    told = [row.split(" | ") for row in rows]
    in_force = [line.split()[:5] for name, line in _TABLE.items() if name != "sandboxed build"]
    assert told[: len(in_force)] == in_force


# -- what is told exists


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_page_names_a_flag_that_does_not_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    named = set(re.findall(r"(?<![\w-])--[a-zA-Z][\w-]*", text))
    assert named - flags() - OF_OTHER_PROGRAMS - OF_SLASH_COMMANDS == set()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_page_names_a_command_that_does_not_exist(path: Path) -> None:
    found = {span.split()[0] for span in spans(path.read_text(encoding="utf-8")) if span[0] == "/"}
    named = {name for name in found if re.fullmatch(r"/[a-z:][\w:-]*", name)}
    assert named - command_names() - EXAMPLE_ALIASES - OF_LINE_MODE == set()


def test_no_text_of_the_program_names_a_missing_subcommand() -> None:
    strings = [
        (name_of(module), node.value)
        for module in mentioning("`dirge ")
        for node in walked(tree_of(module))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    named = {
        (name, word) for name, text in strings for word in re.findall(r"`dirge ([a-z]+)\b", text)
    }
    assert {(name, word) for name, word in named if word not in SUBCOMMANDS} == set()


def test_the_settings_page_names_no_setting_that_does_not_exist() -> None:
    named_by_users = {key[:-1] for key in known_keys() if key[-1] == ANY}
    assert settings_in(page("docs/config.md")) <= {*known_keys(), *named_by_users}


def test_the_keys_page_names_no_action_that_does_not_exist() -> None:
    rows = re.findall(r"^\| (`[a-z_`, ]+`) \|", page("docs/tui.md"), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert named <= {key.action for key in DEFAULTS}


def test_commands_in_shell_examples_parse() -> None:
    lines = [
        line
        for kind in ("sh", "console")
        for path, body in fences(kind)
        for line in starts(body)
        if path.parent.name != "guide"  # whose commands are carried out: tests/guide
    ]
    assert len(lines) > 10
    for line in lines:
        words = shlex.split(line, comments=True)[1:]
        if words[:1] == ["demo"]:
            assert set(words[1:]) <= {"--print", "--plan"}
        elif words[:1] == ["config"]:
            assert words[1] in arguments.CONFIG_VERBS
        elif words[:1] == ["why"]:
            assert why.why_fits(words[1:])
        elif words[:1] == ["trust"]:
            trust.build_trust_parser().parse_args(words[1:])
        elif words[:1] == ["turn"]:
            arguments.parse_words(arguments.build_turn_parser(), words[1:], "prompt")
        elif words[:1] == ["embed"]:
            arguments.parse_words(embed.build_embed_parser(), words[1:], "words")
        elif words[:1] == ["resume"]:
            arguments.parse_words(arguments.build_resume_parser(), words[1:], "file")
        else:
            arguments.parse(words)


def test_settings_in_examples_are_valid() -> None:
    bodies = [body for _, body in fences("toml")]
    for body in bodies:
        table = tomllib.loads(body)
        assert table.keys() == {"replies"} or config_from(table)


def test_example_of_stdin_lines_parses() -> None:
    lines = [line for _, body in fences("json") for line in body.splitlines()]
    users = [line for line in lines if line.startswith('{"type":"user"') and "tool_" not in line]
    assert [isinstance(read_line(line.encode()), UserMessage) for line in users] == [True]


def test_links_in_docs_have_a_target() -> None:
    broken = [
        f"{path.relative_to(ROOT)}: {target}"
        for path in PAGES
        for target in re.findall(r"\]\(([^)#\s]+)", path.read_text(encoding="utf-8"))
        if "://" not in target and not (path.parent / target).exists()
    ]
    assert broken == []


def test_files_named_in_docs_exist() -> None:
    places = (ROOT, ROOT / "dirge_py", ROOT / "dirge_py" / "agent_loop", ROOT / "dirge_py" / "ui")
    places += tuple(ROOT / "dirge_py" / name for name in ("providers", "permission", "session"))
    broken = [
        f"{path.relative_to(ROOT)}: {span}"
        for path in PAGES
        if path.name in ("AGENTS.md", "architecture.md") or path.parent.name == "decisions"
        for span in spans(path.read_text(encoding="utf-8"))
        if re.fullmatch(r"[\w./]+\.(py|toml|md)", span)
        and not any((place / span).exists() for place in places)
    ]
    assert broken == []


def reference_rows() -> list[list[str]]:
    """The cells of both tables of the reference loop."""
    lines = page("docs/architecture.md").partition("## The reference loop")[2].splitlines()
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in lines
        if line.startswith("| `")
    ]


def test_every_file_of_the_reference_loop_has_its_module() -> None:
    files = [row for row in reference_rows() if re.fullmatch(r"`[a-z_]+(\.rs|/)`", row[0])]
    assert len(files) == 18
    for _, module, _ in files:
        assert module == "not built yet" or importlib.import_module(module.strip("`"))


def test_every_name_of_the_reference_loop_has_its_counterpart() -> None:
    names = [row for row in reference_rows() if not re.search(r"(\.rs|/)`", row[0])]
    assert len(names) > 40
    for _, module, ours in names:
        if module == "not built yet":
            continue
        for name in re.findall(r"`([\w.]+)`", ours):
            operator.attrgetter(name)(importlib.import_module(module.strip("`")))


def test_the_guide_for_contributors_is_short() -> None:
    assert len(page("AGENTS.md").splitlines()) <= 120


# -- reading


def starts(body: str) -> Iterator[str]:
    """The dirge commands in a shell example."""
    for line in body.splitlines():
        if found := re.search(r"(?:^|\| )(dirge\b.*)", line.removeprefix("$ ")):
            yield found[1]


def settings_in(text: str) -> set[tuple[str, ...]]:
    """Paths of the settings in the tables of the page, as `known_keys` writes them."""
    found: set[tuple[str, ...]] = set()
    table: tuple[str, ...] = ()
    for line in text.splitlines():
        if heading := re.match(r"##+ `\[+([\w.<>]+)\]+`", line):
            table = tuple(
                ANY if part in ("<alias>", "<name>") else part for part in heading[1].split(".")
            )
            found |= {table} if table[0] in ("keys", "aliases") else set()
        if line.startswith("Each `[[permission.rule]]`"):
            table = ("permission", "rule")
        if row := re.match(r"\| (`[\w`, ]+`) \|", line):
            found |= {(*table, name) for name in re.findall(r"`(\w+)`", row[1])}
    return found


def permission_table() -> str:
    return page("docs/permissions.md").partition("| claim |")[2].partition("\n\n")[0]


def every_outcome() -> Iterator[Outcome]:
    for kind in (*get_args(ErrorKind), "bug"):
        yield Failed(kind=kind, message="m")
    yield MaxTurns(max=1)
    yield LimitExceeded(name="cost", used=2, max=1)
    for reason in ("SIGINT", "SIGTERM", "SIGHUP", "on-ask"):
        yield Cancelled(reason=reason)
    others = set(get_args(Outcome)) - {Failed, MaxTurns, LimitExceeded, Cancelled}
    for kind in others:
        required = [field.name for field in fields(kind) if not _has_default(field)]
        yield kind(**dict.fromkeys(required, "x"))


def _has_default(field: Field[Any]) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING
