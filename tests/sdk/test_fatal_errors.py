"""Errors of tools that end a run instead of going to the model."""

import json
from pathlib import Path
from typing import Any

import pytest

from dirge_py import Agent, ModelRetry, ToolFailed, tool
from dirge_py.config.load import load
from dirge_py.testing import ScriptedModel, assert_balanced
from dirge_py.types.errors import ConfigError
from dirge_py.types.messages import ToolResultMessage
from dirge_py.types.outcomes import Done, Failed, Outcome
from tests.support.fake_service import ModelReply
from tests.support.product import Product, product

__all__ = ["product"]


class OutOfStock(ToolFailed):
    """A program's own error."""


@tool(op="read")
def fetch(how: str, attempt: int = 0) -> str:
    """Fetch."""
    match how:
        case "refused":
            raise ConnectionRefusedError("Nobody listens.\nSecond line.")
        case "stock":
            raise OutOfStock("There is none left.")
        case "retry":
            raise ModelRetry("Say which one.")
        case "plain":
            raise ToolFailed("No such page.")
    return how


@tool(op="plugin")
def deploy() -> str:
    """Deploy."""
    return "done"


async def outcome_of(
    model: ScriptedModel, fatal: list[Any], name: str = "fetch", **arguments: Any
) -> tuple[Outcome, list[ToolResultMessage]]:
    """The outcome of a run with two tool calls, and their results."""
    model.will_call("fetch", how="fine").will_call(name, **arguments).will_say("I go on.")
    async with Agent(stream_fn=model.stream_fn, tools=[fetch, deploy], fatal_errors=fatal) as agent:
        outcome = await agent.start("go").outcome
        assert_balanced(agent.messages())
        return outcome, [m for m in agent.messages() if isinstance(m, ToolResultMessage)]


@pytest.mark.parametrize(
    ("fatal", "name", "arguments"),
    [
        ([ConnectionError], "fetch", {"how": "refused"}),
        (["OSError"], "fetch", {"how": "refused"}),
        (["error"], "fetch", {"how": "refused"}),
        ([OutOfStock], "fetch", {"how": "stock"}),
        ([ToolFailed], "fetch", {"how": "stock"}),
        (["error"], "fetch", {"how": "plain"}),
        (["denied"], "deploy", {}),
        (["invalid"], "fetch", {}),
        (["unknown_tool"], "no_such_tool", {}),
    ],
)
async def test_fatal_tool_error_ends_run_as_failed_with_every_call_answered(
    model: ScriptedModel, fatal: list[Any], name: str, arguments: dict[str, Any]
) -> None:
    outcome, results = await outcome_of(model, fatal, name, **arguments)

    assert isinstance(outcome, Failed) and outcome.kind == "tool"
    assert outcome.message.startswith(f"`{name}` failed (") and "\n" not in outcome.message
    assert [result.is_error for result in results] == [False, True]
    assert len(model.seen) == 2


@pytest.mark.parametrize(
    ("fatal", "how"),
    [
        ([], "refused"),
        ([TimeoutError, "denied"], "refused"),
        ([OutOfStock], "plain"),
        (["invalid"], "retry"),
    ],
)
async def test_errors_not_listed_as_fatal_go_to_the_model(
    model: ScriptedModel, fatal: list[Any], how: str
) -> None:
    outcome, results = await outcome_of(model, fatal, how=how)

    assert isinstance(outcome, Done) and results[-1].is_error


async def test_fatal_invalid_error_ends_run_only_after_the_last_retry(model: ScriptedModel) -> None:
    for attempt in range(4):
        model.will_call("fetch", how="retry", attempt=attempt)
    model.will_say("I go on.")
    async with Agent(stream_fn=model.stream_fn, tools=[fetch], fatal_errors=["invalid"]) as agent:
        outcome = await agent.start("go").outcome

    assert isinstance(outcome, Failed) and len(model.seen) == 4


@pytest.mark.parametrize("name", ["invalid_input", "Not A Class", ""])
def test_unknown_fatal_error_name_is_refused(tmp_path: Path, name: str) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f"[tools]\nfatal_errors = {json.dumps([name])}\n")

    with pytest.raises(ConfigError, match="neither a kind of error"):
        Agent(stream_fn=ScriptedModel().stream_fn, fatal_errors=[name])
    with pytest.raises(ConfigError, match="neither a kind of error"):
        load(path=file)


def test_fatal_errors_setting_makes_headless_run_fail(product: Product) -> None:
    settings = product.config_dir / "config.toml"
    settings.write_text(settings.read_text() + '\n[tools]\nfatal_errors = ["failed_command"]\n')
    product.will(ModelReply(calls=[("bash", {"command": "false"})]), ModelReply(text="I go on."))

    result = product.ask("--yolo", "go")

    assert (result.exit_code, result.json["error"]["kind"]) == (1, "tool")
    assert "`bash` failed (failed_command)" in result.json["error"]["message"]
