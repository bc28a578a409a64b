"""Finding, completing and running slash commands."""

from types import SimpleNamespace
from typing import Any

import pytest

from dirge_py import slash
from dirge_py.slash.registry import UI_COMMANDS, Registry, as_prompt, discover
from dirge_py.types.errors import UsageError
from dirge_py.types.extensions import Command
from dirge_py.ui import commands


class RanCommands:
    def __init__(self) -> None:
        self.args: list[str] = []

    async def __call__(self, args: str, conversation: Any, front: Any) -> None:
        self.args.append(args)


def command(name: str, run: Any = None, **more: Any) -> Command:
    return Command(name=name, summary=f"does {name}", run=run or RanCommands(), **more)


@pytest.mark.parametrize(
    ("line", "name", "args"),
    [
        ("/model", "model", ""),
        ("/model   x y  ", "model", "x y"),
        ("/nope", "nope", ""),
        ("/q", "q", ""),
    ],
)
def test_line_with_leading_slash_is_a_command(line: str, name: str, args: str):
    typed = Registry([command("model"), command("quit", aliases=("q",))]).read(line)
    assert typed is not None
    assert (typed.name, typed.args) == (name, args)


@pytest.mark.parametrize("line", ["hello", "//model", "/usr/bin/x is", "/", "/ model", " /model"])
def test_other_lines_are_prompts(line: str):
    assert Registry([command("model")]).read(line) is None


def test_double_slash_becomes_one_slash_in_prompt():
    assert as_prompt("//model") == "/model"
    assert as_prompt("/usr/bin") == "/usr/bin"


def test_first_command_keeps_its_name_and_conflict_is_reported():
    first = command("model")
    registry = Registry([first, command("model"), command("mode", aliases=("model",))])
    assert registry.find("model") is first
    assert registry.conflicts == ["/model is already taken"]


def test_completion_lists_names_before_aliases():
    registry = Registry([command("zap", aliases=("mo",)), command("model"), command("mode")])
    assert [name for name, _ in registry.complete("mo")] == ["mode", "model", "zap"]


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("cmpct", ["compact"]), ("pact", ["compact"]), ("cost", ["cost"]), ("ag", ["cost"]),
        ("modl", ["model"]), ("moddel", ["model"]), ("zzz", []), ("x", []),
    ],
)  # fmt: skip
def test_completion_finds_letters_in_order_and_offers_the_nearest_name(
    typed: str, offered: list[str]
):
    registry = Registry([command("compact"), command("model"), command("cost", aliases=("usage",))])
    assert [name for name, _ in registry.complete(typed)] == offered


@pytest.mark.parametrize(
    ("while_running", "args", "runs"),
    [("yes", "x", True), ("listing", "", True), ("listing", "x", False), ("no", "", False)],
)
async def test_some_commands_have_to_wait_during_a_run(while_running: Any, args: str, runs: bool):
    result = RanCommands()
    registry = Registry([command("x", result, while_running=while_running)])
    typed = registry.read(f"/x {args}")
    assert typed is not None
    busy: Any = SimpleNamespace(is_running=True)
    if runs:
        await registry.run(typed, busy, None)  # type: ignore[arg-type]
    else:
        with pytest.raises(UsageError, match="has to wait"):
            await registry.run(typed, busy, None)  # type: ignore[arg-type]
    assert result.args == ([args] if runs else [])


async def test_unknown_command_suggests_nearest_name():
    registry = Registry([command("sessions")])
    typed = registry.read("/sesions")
    assert typed is not None
    with pytest.raises(UsageError) as raised:
        await registry.run(typed, SimpleNamespace(is_running=False), None)  # type: ignore[arg-type]
    assert "Did you mean /sessions?" in raised.value.hint


def test_discover_finds_all_commands_without_conflicts():
    registry = Registry(discover(slash))
    assert registry.conflicts == []
    names = {found.name for found in registry}
    assert names >= {"help", "model", "mode", "why", "allow", "clear", "sessions", "quit"}


# -- user aliases


def test_user_alias_is_expanded_once_and_arguments_are_appended():
    registry = Registry([command("model"), command("mode")])
    warnings = registry.use_own_names({"/m": "/model small", "/model": "/mode plan"})

    short, shadowing = registry.read("/m :high"), registry.read("/model")
    assert short and (short.name, short.args) == ("model", "small :high")
    assert shadowing and (shadowing.name, shadowing.args) == ("mode", "plan")
    assert warnings == ["/model is now /mode plan, no longer the built-in command."]


def test_commands_that_need_the_terminal_ui_are_those_of_the_ui():
    found = Registry(discover(commands))
    assert {name for each in found for name in (each.name, *each.aliases)} == UI_COMMANDS


def test_user_alias_of_unknown_command_is_reported_and_ignored():
    registry = Registry([command("model")])
    assert registry.use_own_names({"/a": "/b", "/b": "/model"}) == ["/a: There is no command /b."]
    assert registry.own_names == [("/b", "/model")]


def test_user_aliases_are_completed_first():
    registry = Registry([command("model"), command("mode")])
    registry.use_own_names({"/mo": "/model x"})
    assert [name for name, _ in registry.complete("m")] == ["mo", "mode", "model"]
    assert registry.find("mo") is registry.find("model")
