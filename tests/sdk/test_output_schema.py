"""Structured answers in a program."""

import datetime
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import BaseModel, Field, field_validator

from dirge_py import Agent, Continue, Done, Failed, FinalResponse, LoopError, NeedsMoreTurns, Text
from dirge_py.testing import ScriptedModel
from dirge_py.types.errors import ConfigError

BUGS = {"type": "object", "properties": {"bugs": {"type": "integer"}}, "required": ["bugs"]}


class Finding(BaseModel):
    """One problem."""

    file: str
    line: int = Field(ge=1)
    since: datetime.date

    @field_validator("file")
    @classmethod
    def is_relative(cls, file: str) -> str:
        if file.startswith("/"):
            raise ValueError("a path within the project is wanted")
        return file


class Node(BaseModel):
    """Refers to itself, so that its schema is a top-level reference."""

    name: str
    below: list["Node"] = []


FINDING = {"file": "a.py", "line": 3, "since": "2026-11-20"}


@pytest.fixture
async def agent(model: ScriptedModel) -> AsyncIterator[Agent]:
    async with Agent(stream_fn=model.stream_fn) as agent:
        yield agent


async def test_class_as_output_schema_returns_an_instance(
    agent: Agent, model: ScriptedModel
) -> None:
    model.will_call("submit_result", **FINDING)

    result = await agent.run("Find it.", output_schema=Finding)

    assert result.structured == Finding(file="a.py", line=3, since=datetime.date(2026, 11, 20))
    assert result.response == '{"file":"a.py","line":3,"since":"2026-11-20"}'


async def test_errors_of_class_validators_go_to_the_model(
    agent: Agent, model: ScriptedModel
) -> None:
    model.will_call("submit_result", **{**FINDING, "line": 0})
    model.will_call("submit_result", **{**FINDING, "file": "/etc/passwd"})
    model.will_call("submit_result", **FINDING)

    result = await agent.run("Find it.", output_schema=Finding)

    assert isinstance(result.structured, Finding)
    results = [message.text for message in result.messages if message.role == "toolResult"]
    assert "0 is less than the minimum of 1" in results[0]
    assert "file: Value error, a path within the project is wanted" in results[1]


async def test_output_schema_class_can_refer_to_itself(agent: Agent, model: ScriptedModel) -> None:
    model.will_call("submit_result", result={"name": "a", "below": [{"name": "b"}]})
    result = await agent.run("Look.", output_schema=Node)
    assert result.structured == Node(name="a", below=[Node(name="b")])


async def test_json_schema_as_output_schema_returns_json_value(
    agent: Agent, model: ScriptedModel
) -> None:
    model.will_call("submit_result", bugs=2).will_say("Just words.")

    counted = await agent.run("Count.", output_schema=BUGS)
    plain = await agent.run("And now?")

    assert (counted.structured, counted.response) == ({"bugs": 2}, '{"bugs":2}')
    assert (plain.structured, plain.response) == (None, "Just words.")
    assert [tool.name for tool in model.seen[1].tools] == []


async def test_agent_output_schema_applies_to_all_runs(model: ScriptedModel) -> None:
    model.will_call("submit_result", bugs=1).will_call("submit_result", **FINDING)
    async with Agent(stream_fn=model.stream_fn, output_schema=BUGS) as agent:
        first = await agent.run("Count.")
        second = await agent.run("Find it.", output_schema=Finding)
    assert first.structured == {"bugs": 1}
    assert isinstance(second.structured, Finding)


async def test_turns_and_steps_return_structured_output(model: ScriptedModel) -> None:
    model.will_call("submit_result", bugs="x").will_call("submit_result", bugs=1)
    model.will_call("submit_result", bugs=2)
    async with Agent(stream_fn=model.stream_fn, output_schema=BUGS) as agent:
        first = await agent.run_turn(Text("Count."))
        second = await agent.run_turn(Continue())
        *_, last = [step async for step in agent.steps(Text("Again."))]
    assert isinstance(first, NeedsMoreTurns)
    assert isinstance(second, Done) and second.result is not None
    assert second.result.structured == {"bugs": 1}
    assert isinstance(last, FinalResponse) and last.result.structured == {"bugs": 2}


async def test_answer_that_never_matches_the_schema_fails_the_run(
    agent: Agent, model: ScriptedModel
) -> None:
    for _ in range(4):
        model.will_say("Two.")

    with pytest.raises(LoopError, match=r"never matched the schema.*Two") as caught:
        await agent.run("Count.", output_schema=BUGS)

    assert isinstance(caught.value.outcome, Failed) and caught.value.outcome.kind == "schema"


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "objekt"}, "objekt"),
        ({"$ref": "https://example.com/a.json"}, "leads nowhere"),
        ({"enum": {1, 2}}, "not JSON"),
    ],
)
async def test_invalid_output_schema_raises_config_error(
    agent: Agent, schema: Any, words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        Agent(output_schema=schema)
    with pytest.raises(ConfigError, match=words):
        await agent.run("Count.", output_schema=schema)
