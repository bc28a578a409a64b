"""Structured answers: through a tool, or from a service that supports schemas."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from dirge_py.agent_loop import Hooks, LoopConfig, StopRun, ToolOverride, TurnInfo, compose
from dirge_py.agent_loop.answer_schema import TOOL, compact
from dirge_py.guards.repetition import StormBreaker
from dirge_py.guards.stop_checks import failure_check, stop_checks
from dirge_py.guards.structured_output import KIND, MOST_ASKED_AGAIN, StructuredAnswer
from dirge_py.providers.scripted import Reply
from dirge_py.sdk.structured import checked_schema
from dirge_py.testing import ScriptedModel, assert_balanced
from dirge_py.tools.toolbox import validate_schema
from dirge_py.types.abort import AbortSignal
from dirge_py.types.events import SystemNotice
from dirge_py.types.llm import LlmContext, StreamOptions
from dirge_py.types.messages import AssistantMessage, ToolResultMessage, user_text
from dirge_py.types.outcomes import Done, Failed, MaxTurns, Outcome
from dirge_py.types.tools import ToolCall
from tests.security.sizes import size
from tests.support.guarded_runs import nudges, says, tools
from tests.support.loop_runs import LoopRun, run_loop

BUGS: dict[str, Any] = {
    "type": "object",
    "properties": {"bugs": {"type": "integer"}},
    "required": ["bugs"],
}
TREE: dict[str, Any] = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "const": {"type": "integer"},
                "below": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            },
            "required": ["const"],
            "additionalProperties": False,
        }
    },
}


@dataclass(frozen=True)
class Judged:
    """A run, and its outcome under a schema."""

    run: LoopRun
    outcome: Outcome

    @property
    def value(self) -> Any:
        assert isinstance(self.outcome, Done) and self.outcome.result is not None, self.outcome
        assert self.outcome.result.response == compact(self.outcome.result.structured)
        return self.outcome.result.structured

    @property
    def failure(self) -> Failed:
        assert isinstance(self.outcome, Failed) and self.outcome.kind == KIND, self.outcome
        return self.outcome


async def run_with_schema(
    model: ScriptedModel,
    schema: dict[str, Any] = BUGS,
    *others: Hooks,
    native: Sequence[str] = (),
    prompt: str = "count",
) -> Judged:
    """A run of `model` that must answer in the schema; `native` models support schemas."""
    answer = StructuredAnswer(checked_schema(schema), is_native=lambda name: name in native)
    config = LoopConfig(
        model="a/m",
        validate=lambda tool, arguments: validate_schema(tool.parameters, arguments),
    )
    run = await run_loop(
        answer.around_model(model.stream_fn),
        prompt,
        tools=tools(),
        config=compose(*others, answer.bundle(), config=config),
    )
    messages = [user_text(prompt), *run.new]
    return Judged(run, answer.check_outcome(run.outcome, messages))


def saying(*texts: str) -> ScriptedModel:
    model = ScriptedModel()
    for text in texts:
        model.will_say(text)
    return model


# -- the tool


async def test_submitted_result_is_the_answer_and_ends_the_run() -> None:
    model = ScriptedModel().will_call("read", path="a").will_call(TOOL, bugs=2)

    judged = await run_with_schema(model)

    assert judged.value == {"bugs": 2}
    assert len(model.seen) == 2 and nudges(judged.run) == []
    assert TOOL in [tool.name for tool in model.seen[0].tools]
    assert TOOL in model.seen[0].system_prompt


async def test_third_submission_is_accepted_after_two_invalid_ones() -> None:
    model = ScriptedModel().will_call(TOOL, bugs="x").will_call(TOOL).will_call(TOOL, bugs=1)

    judged = await run_with_schema(model)

    assert judged.value == {"bugs": 1}
    first, second, _ = judged.run.results
    assert "- bugs: 'x' is not of type 'integer'" in first.text
    assert "- `bugs` is required" in second.text
    assert [each.details.get("attempt") for each in (first, second)] == [1, 2]


async def test_a18_fourth_invalid_submission_fails_the_run() -> None:
    model = ScriptedModel()
    for _ in range(6):
        model.will_call(TOOL, bugs="x")

    judged = await run_with_schema(model)

    assert "'x' is not of type 'integer'" in judged.failure.message
    assert '{"bugs":"x"}' in judged.failure.message
    assert len(model.seen) == MOST_ASKED_AGAIN + 1
    assert [each.details.get("attempt") for each in judged.run.results] == [1, 2, 3, None]
    assert_balanced(judged.run.new)


async def test_failure_guards_ignore_invalid_submissions() -> None:
    model = ScriptedModel()
    for _ in range(MOST_ASKED_AGAIN):
        model.will_call(TOOL, bugs="x")
    model.will_say("I give up.").will_say("Really.")

    storm = StormBreaker(failures=3).bundle()
    judged = await run_with_schema(model, BUGS, storm, stop_checks([failure_check()]))

    assert judged.failure.message.endswith("It was: I give up.")
    assert nudges(judged.run) == [], "each result has said what is wrong, and how often yet"


async def test_several_submissions_in_one_answer_are_one_attempt() -> None:
    model = ScriptedModel()
    for _ in range(3):
        model.will_call_all((TOOL, {"bugs": "a"}), (TOOL, {"bugs": "b"}))
    model.will_call(TOOL, bugs=3)

    assert (await run_with_schema(model)).value == {"bugs": 3}


async def test_text_answer_is_asked_to_be_submitted() -> None:
    model = ScriptedModel().will_say("Two.").will_say('{"bugs": "2"}').will_call(TOOL, bugs=2)

    judged = await run_with_schema(model)

    assert judged.value == {"bugs": 2}
    first, second = nudges(judged.run)
    assert f"Call `{TOOL}`" in first and "Wrong" not in first
    assert "bugs: '2' is not of type 'integer'" in second


async def test_valid_json_text_is_accepted_from_a_model_without_tool_calls() -> None:
    assert (await run_with_schema(saying('```json\n{"bugs": 2}\n```'))).value == {"bugs": 2}


async def test_run_fails_if_the_result_is_never_submitted() -> None:
    model = saying(*["I am done."] * 6)

    judged = await run_with_schema(model)

    assert judged.failure.message.endswith("It was: I am done.")
    assert len(nudges(judged.run)) == MOST_ASKED_AGAIN == len(model.seen) - 1


async def test_other_calls_beside_the_submission_run() -> None:
    model = ScriptedModel().will_call_all(("read", {"path": "a"}), (TOOL, {"bugs": 2}))
    model.will_say("That was all.")

    judged = await run_with_schema(model)

    assert judged.value == {"bugs": 2}
    assert judged.run.outcomes == ["ok", "ok"] and nudges(judged.run) == []


async def test_last_of_two_submissions_counts() -> None:
    model = ScriptedModel().will_call_all((TOOL, {"bugs": 1}), (TOOL, {"bugs": 2}))
    assert (await run_with_schema(model)).value == {"bugs": 2}


async def test_result_must_be_submitted_again_after_a_follow_up() -> None:
    model = ScriptedModel().will_call(TOOL, bugs=1).will_say("Three now.").will_call(TOOL, bugs=3)

    judged = await run_with_schema(model, BUGS, says("And the tests?"))

    assert judged.value == {"bugs": 3}
    assert len(nudges(judged.run)) == 1, "the answer to the first question is not one to the second"


async def test_submission_reminder_waits_for_other_messages() -> None:
    model = saying("Done.", "Also done.").will_call(TOOL, bugs=1)

    judged = await run_with_schema(model, BUGS, says("And the tests?"))

    users = [each.text for each in judged.run.new if each.role == "user"]
    assert users[1] == "And the tests?"
    assert users[2].startswith("The result is not there yet.")


async def test_run_that_ends_in_another_way_keeps_its_outcome() -> None:
    def stop(_info: Any) -> bool:
        return True

    def full(_info: Any) -> Any:
        raise StopRun(MaxTurns(max=1))

    early = await run_with_schema(saying("Hm."), BUGS, Hooks(should_stop_after_turn=stop))
    at_limit = await run_with_schema(saying("Hm."), BUGS, Hooks(should_stop_after_turn=full))

    assert "never matched the schema" in early.failure.message, (
        "done without an answer is no success"
    )
    assert at_limit.outcome == MaxTurns(max=1)


async def test_truncated_submission_is_refused_even_if_valid() -> None:
    model = ScriptedModel().will_call_all((TOOL, '{"bugs": 2, "where": ["a.py", "b'))
    model.will_call(TOOL, bugs=2, where=["a.py", "b.py"])

    judged = await run_with_schema(model)

    assert judged.value == {"bugs": 2, "where": ["a.py", "b.py"]}
    assert "The arguments were cut off" in judged.run.results[0].text


async def test_deep_output_schema_can_be_flattened() -> None:
    inner = {"type": "object", "properties": {"c": {"type": "integer"}}, "required": ["c"]}
    middle = {"type": "object", "properties": {"b": inner}, "required": ["b"]}
    schema = {"type": "object", "properties": {"a": middle}, "required": ["a"]}
    model = ScriptedModel().will_call(TOOL, **{"a.b.c": 1})

    judged = await run_with_schema(model, schema)

    assert judged.value == {"a": {"b": {"c": 1}}}
    told = next(tool for tool in model.seen[0].tools if tool.name == TOOL)
    assert list(told.parameters["properties"]) == ["a.b.c"]


async def test_denied_submission_fails_the_run() -> None:
    def forbid(_info: Any, call: ToolCall) -> ToolOverride | None:
        return ToolOverride("No.", details={"outcome": "denied"}) if call.name == TOOL else None

    model = ScriptedModel()
    for _ in range(6):
        model.will_call(TOOL, bugs=1)

    judged = await run_with_schema(model, BUGS, Hooks(before_tool_call=forbid))

    assert "it was not accepted" in judged.failure.message
    assert len(model.seen) == MOST_ASKED_AGAIN + 1


async def test_result_must_be_submitted_again_after_steering() -> None:
    steered = [[user_text("Only in a.py.", origin="steering")]]

    def steer(info: TurnInfo) -> list[Any]:
        return steered.pop() if steered and info.message is not None else []

    model = ScriptedModel().will_call(TOOL, bugs=2).will_call(TOOL, bugs=1)

    judged = await run_with_schema(model, BUGS, Hooks(get_steering_messages=steer))

    assert (judged.value, len(model.seen)) == ({"bugs": 1}, 2)


async def test_schema_that_is_not_an_object_is_wrapped_with_its_references() -> None:
    value = {"const": 1, "below": [{"const": 2}]}
    model = ScriptedModel().will_call(TOOL, result={"const": 1, "below": [{"no": 2}]})
    model.will_call(TOOL, result=value)

    judged = await run_with_schema(model, TREE)

    assert judged.value == value
    assert "below[0].const: `const` is required" in judged.run.results[0].text
    told = next(tool for tool in model.seen[0].tools if tool.name == TOOL).parameters
    Draft202012Validator.check_schema(told)
    assert Draft202012Validator(told).is_valid({"result": value})
    assert not Draft202012Validator(told).is_valid({"result": {"const": 1, "below": [3]}})


# -- the service


async def test_model_with_native_schema_support_gets_the_schema_and_no_tool() -> None:
    model = ScriptedModel().will_call("read", path="a").will_say('{"bugs": 2}')

    judged = await run_with_schema(model, native=["a/m"])

    assert judged.value == {"bugs": 2}
    for options, seen in zip(model.options, model.seen, strict=True):
        assert options.response_schema is not None and options.response_schema.schema == BUGS
        assert TOOL not in [tool.name for tool in seen.tools]
        assert '"bugs"' in seen.system_prompt


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("Two.", "It is not JSON alone"),
        ('{"bugs": 2', "It is not JSON alone"),
        ('{"bugs": 2} as I said', "It is not JSON alone"),
        ('{"bugs": NaN}', "NaN is not a JSON number"),
        ('{"bugs": true}', "bugs: True is not of type 'integer'"),
        ("[" * 100_000, "It is not JSON alone"),
    ],
)
async def test_native_answer_that_does_not_fit_is_asked_for_again(wrong: str, words: str) -> None:
    judged = await run_with_schema(saying(wrong, '{"bugs": 2}'), native=["a/m"])

    assert judged.value == {"bugs": 2}
    [asked] = nudges(judged.run)
    assert words in asked and TOOL not in asked


async def test_run_fails_if_native_answers_never_fit_the_schema() -> None:
    model = saying(*['{"bugs": "2"}'] * 6)
    judged = await run_with_schema(model, native=["a/m"])
    assert 'It was: {"bugs": "2"}' in judged.failure.message
    assert len(model.seen) == MOST_ASKED_AGAIN + 1


async def test_native_answer_that_is_not_an_object_can_be_bare_or_wrapped() -> None:
    schema = {"type": "array", "items": {"type": "integer"}}
    assert (await run_with_schema(saying("[1]"), schema, native=["a/m"])).value == [1]
    assert (await run_with_schema(saying('{"result": [1]}'), schema, native=["a/m"])).value == [1]


async def test_null_is_a_valid_answer() -> None:
    assert (await run_with_schema(saying("null"), {"type": "null"}, native=["a/m"])).value is None


async def test_service_that_rejects_the_schema_gets_the_tool_instead() -> None:
    model = ScriptedModel().will_fail("no such schema", kind="invalid_request")
    model.will_call("read", path="a").will_call(TOOL, bugs=2)

    judged = await run_with_schema(model, native=["a/m"])

    assert judged.value == {"bugs": 2}
    assert [each.response_schema is not None for each in model.options] == [True, False, False]
    [notice] = judged.run.recorder.of(SystemNotice)
    assert "rejects the schema" in notice.content and "no such schema" in notice.content


@pytest.mark.parametrize("kind", ["auth", "server", "context_length"])
async def test_other_provider_errors_fail_the_run_unchanged(kind: Any) -> None:
    model = ScriptedModel().will_fail("no", kind=kind)
    judged = await run_with_schema(model, native=["a/m"])
    assert isinstance(judged.outcome, Failed) and judged.outcome.kind == kind
    assert len(model.seen) == 1


async def test_each_model_gets_the_schema_natively_or_by_tool() -> None:
    model = ScriptedModel()
    answer = StructuredAnswer(checked_schema(BUGS), is_native=lambda name: name == "b/m")
    stream_fn = answer.around_model(model.will_say("a").will_say("b").stream_fn)
    context = LlmContext(system_prompt="", messages=())

    for name in ("a/m", "b/m"):
        events = stream_fn(context, StreamOptions(model=name), AbortSignal())
        assert [event async for event in events]

    assert [each.response_schema is not None for each in model.options] == [False, True]


# -- random answers

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["bugs", "result", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)
SCHEMAS = st.sampled_from(
    [
        BUGS,
        TREE,
        {"type": "array", "items": {"type": ["integer", "string"]}},
        {"type": "object", "properties": {"result": {"type": "integer"}}, "required": ["result"]},
        {"type": "object", "maxProperties": 1, "additionalProperties": {"type": "number"}},
        {},
    ]
)
ARGUMENTS = (
    st.fixed_dictionaries({"bugs": VALUES})
    | st.fixed_dictionaries({"result": VALUES})
    | st.just('{"bugs": 1')
)
REPLIES = st.lists(
    st.one_of(
        VALUES.map(lambda value: Reply(text=json.dumps(value))),
        st.sampled_from(["", "done", '{"bugs": 1}', "```json\n[1]\n```"]).map(
            lambda text: Reply(text=text)
        ),
        st.lists(
            ARGUMENTS.map(lambda given: (TOOL, given)) | st.just(("read", {"path": "a"})),
            min_size=1,
            max_size=3,
        ).map(lambda calls: Reply(calls=calls)),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=size(60, 400), deadline=None)
@given(schema=SCHEMAS, replies=REPLIES, is_native=st.booleans())
async def test_random_answers_fit_the_schema_or_the_run_fails(
    schema: dict[str, Any], replies: list[Reply], is_native: bool
) -> None:
    model = ScriptedModel()
    for reply in replies:
        model.will(reply)

    judged = await run_with_schema(model, schema, native=["a/m"] if is_native else [])

    if isinstance(judged.outcome, Done):
        assert Draft202012Validator(schema).is_valid(judged.value)
        assert json.loads(compact(judged.value)) == judged.value
    else:
        assert isinstance(judged.outcome, Failed)
    assert_balanced(judged.run.new)
    asked = [each for each in judged.run.new if isinstance(each, AssistantMessage)]
    failed = [
        each for each in judged.run.new if isinstance(each, ToolResultMessage) and each.is_error
    ]
    assert len(nudges(judged.run)) <= MOST_ASKED_AGAIN and len(asked) <= len(replies) + 1
    assert all(each.tool_name == TOOL for each in failed)
