import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.agent_loop import LoopConfig, compose
from dirge_py.agent_loop.tool_calls import parse_arguments
from dirge_py.guards.repetition import StormBreaker
from dirge_py.providers.scripted import Reply
from dirge_py.testing import ScriptedModel, assert_balanced
from dirge_py.types.events import RepairStats
from dirge_py.types.tools import LoopToolResult
from tests.security.sizes import size
from tests.support.loop_runs import Tool, run_loop
from tests.support.tool_arguments import (
    CHECKED,
    STRICT,
    STRING,
    OperationTool,
    Unsure,
    asking,
    by_schema,
    prepared,
    shaped,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ('{"v":1', {"v": 1}),
        ('{"v":  1,', {"v": 1}),
        ('{"v":  1 ,  ', {"v": 1}),
        ('{"a": [1, {"b": "c', {"a": [1, {"b": "c"}]}),
        ('{"a": [1, 2]', {"a": [1, 2]}),
        ('{"a": "x, ', {"a": "x, "}),
        ('{"a":', {"a": None}),
        ('{"a": "say \\"hi', {"a": 'say "hi'}),
        ('{"a": "x\\', {"a": "x"}),
        ('{"a": "x\\\\', {"a": "x\\"}),
        ('{"a": "x\\u00', {"a": "x"}),
        ('{"a": "x\\ud83d', {"a": "x"}),
        ('{"a": "x\\ud83d\\ude', {"a": "x"}),
        ('{"a": "{[', {"a": "{["}),
        ('{"a": "line\nbreak', {"a": "line\nbreak"}),
    ],
)
def test_truncated_json_is_closed(raw, value):
    parsed = parse_arguments(raw)
    assert (parsed.value, parsed.state) == (value, "closed")


@pytest.mark.parametrize(
    "raw",
    [
        '{"a": tru',
        '{"a": -',
        '{"a',
        '{"a": 1, "b',
        '{"a": 1, b',
        '{"a": "}',
        "{",
        '"{\\"a\\": 1',
        '{"a": Infinity',
        '{"a": 1}{"a": 1',
    ],
)
def test_a22_truncated_json_that_cannot_be_closed_stays_raw_text(raw):
    parsed = parse_arguments(raw)
    assert (parsed.value, parsed.state) == (raw, "cut_off")
    assert parsed.problem


@pytest.mark.parametrize("raw", ['{"a": 1]', "x", "NaN", "[" * 300 + "]" * 300 + "]", '{"a": 1 "b'])
def test_json_malformed_before_its_end_is_not_called_truncated(raw):
    parsed = parse_arguments(raw)
    assert (parsed.value, parsed.state) == (raw, "malformed")
    assert parsed.problem


@pytest.mark.parametrize(
    ("raw", "value"),
    [("", {}), (" \n", {}), ('{"a": 1}', {"a": 1}), ('{"a": "b\nc"}', {"a": "b\nc"})],
)
def test_complete_json_is_parsed_as_is(raw, value):
    parsed = parse_arguments(raw)
    assert (parsed.value, parsed.state) == (value, "whole")


def test_too_deeply_nested_json_is_malformed():
    assert parse_arguments('{"a":' * 100_000).state == "malformed"
    assert "too deep" in parse_arguments("[" * 100_000 + "]" * 100_000).problem
    assert "levels deep" in parse_arguments("{'a':" * 10_000 + "1" + "}" * 10_000).problem


@pytest.mark.parametrize(("raw", "state"), [('{"a": 1', "cut_off"), ('{"a": 1,}', "malformed")])
def test_truncated_json_and_slips_are_not_repaired_when_repair_is_off(raw, state):
    parsed = parse_arguments(raw, may_repair=False)
    assert (parsed.value, parsed.state) == (raw, state)
    assert parsed.problem.startswith("Line 1, column ")


async def test_call_cut_off_before_its_arguments_does_not_run_without_any():
    tool = OperationTool("deploy", parameters=shaped(target=STRING), ops=["mcp"])
    model = ScriptedModel().will(Reply(calls=[("deploy", "")], stop_reason="length"))
    run = await run_loop(model.will(Reply(text="done")), "go", tools=[tool], config=CHECKED)
    assert (tool.ran, run.outcomes) == ([], ["invalid"]) and "cut off" in run.results[0].text


async def test_numbers_that_json_does_not_have_are_refused_and_not_sent_back():
    tool = Tool("t")
    raw = '{"v": NaN}'
    run = await run_loop(asking(("t", raw)), "go", tools=[tool])
    assert (tool.ran, run.outcomes) == ([], ["invalid"])
    assert run.new[1].calls[0].arguments == raw  # the object would make every request invalid


@given(st.dictionaries(st.text(max_size=4), JSON, min_size=1, max_size=3), st.data())
@settings(max_examples=size(26, 80), deadline=None)
def test_every_prefix_of_json_is_closed_or_refused(value, data):
    whole = json.dumps(value, ensure_ascii=data.draw(st.booleans()))
    cut = whole[: data.draw(st.integers(1, len(whole) - 1))]
    parsed = parse_arguments(cut)
    if parsed.state == "closed":
        assert set(parsed.value) <= set(value)
    else:
        assert parsed.value == cut


@pytest.mark.parametrize(
    "tool",
    [
        OperationTool("w", parameters=STRICT, ops=["edit"]),
        OperationTool("w", parameters=STRICT, ops=["read", "execute"]),
        OperationTool("w", parameters=STRICT, ops=["mcp"]),
        OperationTool("w", parameters=STRICT, ops=["meta"]),
        Unsure("w", parameters=STRICT),
    ],
    ids=["edit", "execute", "mcp", "meta", "claims fail"],
)
async def test_a3_truncated_call_never_runs_if_it_could_change_something(tool):
    run = await run_loop(asking(("w", '{"path": "a')), "go", tools=[tool], config=CHECKED)

    assert (tool.ran, run.outcomes) == ([], ["invalid"])
    assert "cut off" in run.results[0].text and "split the work" in run.results[0].text
    assert run.results[0].is_error
    counts = run.recorder.of(RepairStats)[0].counts
    assert counts == {"truncation_fixed": 1, "invalid": 1}


async def test_truncated_read_call_runs_with_a_note_to_the_model():
    tool = OperationTool("read", parameters=STRICT, ops=["read"])
    run = await run_loop(asking(("read", '{"path": "src/a')), "go", tools=[tool], config=CHECKED)

    assert tool.ran == [{"path": "src/a"}]
    first, second = run.results[0].content
    assert "cut off" in first.text and '{"path":"src/a"}' in first.text
    assert second.text == "ok"
    assert run.recorder.of(RepairStats)[0].counts == {"truncation_fixed": 1}


async def test_a4_truncated_call_that_cannot_be_closed_error_quotes_its_arguments():
    raw = '{"path": "' + "x" * 2000 + '", "q'
    tool = OperationTool("read", parameters=STRICT, ops=["read"])
    run = await run_loop(asking(("read", raw)), "go", tools=[tool], config=CHECKED)

    text = run.results[0].text
    assert (tool.ran, run.outcomes) == ([], ["invalid"])
    assert "cut off" in text and "shorter arguments" in text and "xxxx…" in text
    assert len(text) < 1000
    assert run.recorder.of(RepairStats)[0].counts == {"truncation_fixed": 1, "invalid": 1}
    assert run.new[1].calls[0].arguments == raw


async def test_truncated_and_invalid_call_error_names_both_problems():
    tool = OperationTool(
        "read", parameters=shaped(["path", "q"], path=STRING, q=STRING), ops=["read"]
    )
    run = await run_loop(asking(("read", '{"path": "a')), "go", tools=[tool], config=CHECKED)
    assert "cut off" in run.results[0].text and "`q` is required" in run.results[0].text


async def test_a22_property_without_its_value_is_not_dropped():
    tool = OperationTool("list", parameters=shaped(path=STRING), ops=["read"])
    run = await run_loop(asking(("list", '{"path":')), "go", tools=[tool], config=CHECKED)
    assert (tool.ran, run.outcomes) == ([], ["invalid"])


async def test_case_88_equal_truncated_calls_are_suppressed_at_the_third():
    tool = Tool("echo", parameters={"type": "object"})
    raws = ['{"v":1', '{"v": 1', '{"v":  1']
    config = compose(StormBreaker().bundle(), config=LoopConfig(validate=by_schema))
    run = await run_loop(
        asking(*(("echo", raw) for raw in raws)), "go", tools=[tool], config=config
    )

    assert tool.ran == [{"v": 1}, {"v": 1}]
    assert run.outcomes == ["ok", "ok", "suppressed"]
    assert run.recorder.of(RepairStats)[0].counts == {"truncation_fixed": 3}
    assert_balanced(run.new)


def test_case_88_written_arguments_are_the_closed_value():
    written = [prepared(Tool("e"), raw).written for raw in ('{"v":1', '{"v": 1', '{"v":  1,')]
    assert written == [{"v": 1}] * 3
    assert prepared(Tool("e"), '{"v": tru').written == '{"v": tru'
    assert prepared(Tool("e"), {"v": 1}).written == {"v": 1}
    assert prepared(Tool("e"), '{"v": 1').tool is not None


async def test_truncation_note_is_added_to_an_empty_result():
    async def body(*_):
        return LoopToolResult(content=())

    tool = OperationTool("read", body, parameters=STRICT, ops=["read"])
    run = await run_loop(asking(("read", '{"path": "a')), "go", tools=[tool], config=CHECKED)
    assert len(run.results[0].content) == 1
