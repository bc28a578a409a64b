from dirge_py.agent_loop import LoopConfig, compose
from dirge_py.guards.tool_hooks import limit_tool_retries
from dirge_py.testing import ScriptedModel
from dirge_py.types.errors import ModelRetry, ToolFailed
from dirge_py.types.tools import text_result
from tests.support.loop_runs import Tool, run_loop


def raising(*errors):
    """A tool body that raises these in turn; None is a success."""
    left = list(errors)

    async def body(*_):
        error = left.pop(0)
        if error is not None:
            raise error
        return text_result("ok")

    return body


def again():
    return ModelRetry("use YYYY-MM-DD")


async def run_with(tool, calls, *, most=3, other=None):
    model = ScriptedModel()
    for number in range(calls):
        model.will_call(tool.name, n=number)
    tools = [tool, *([other] if other else [])]
    return await run_loop(
        model.will_say("done"),
        "go",
        tools=tools,
        config=compose(limit_tool_retries(most), config=LoopConfig()),
    )


async def test_a20_retry_result_is_exactly_the_hint_and_the_run_continues():
    run = await run_with(Tool("date", raising(again(), None)), 2)

    assert [each.text for each in run.results] == ["use YYYY-MM-DD", "ok"]
    assert run.results[0].is_error
    assert dict(run.results[0].details) == {
        "outcome": "invalid",
        "retry": True,
        "attempt": 1,
        "attempts": 3,
    }


async def test_a20_model_retry_gives_a_retry_result_without_the_guard():
    run = await run_loop(
        ScriptedModel().will_call("date").will_say("done"),
        "go",
        tools=[Tool("date", raising(again()))],
    )
    assert run.results[0].text == "use YYYY-MM-DD"
    assert run.results[0].details == {"outcome": "invalid", "retry": True}


async def test_a18_fourth_retry_in_a_row_is_a_plain_error():
    run = await run_with(Tool("date", raising(*[again()] * 4)), 4)

    details = [each.details for each in run.results]
    assert [each["attempt"] for each in details] == [1, 2, 3, 4]
    assert [each.get("retry", False) for each in details] == [True, True, True, False]
    assert (run.outcomes[-1], run.results[-1].is_error) == ("invalid", True)
    assert run.results[-1].text.startswith("use YYYY-MM-DD")
    assert "(attempt 4/3)" in run.results[-1].text


async def test_a18_success_resets_the_retry_count_and_other_errors_do_not():
    errors = [again(), again(), ToolFailed("no"), again(), None, again()]
    run = await run_with(Tool("date", raising(*errors)), 6)
    assert [each.details.get("attempt") for each in run.results] == [1, 2, None, 3, None, 1]


async def test_retry_count_is_separate_for_each_tool_and_run():
    date, time = Tool("date", raising(*[again()] * 4)), Tool("time", raising(again()))
    model = ScriptedModel().will_call("date").will_call("time").will_call("date").will_say("done")
    run = await run_loop(
        model, "go", tools=[date, time], config=compose(limit_tool_retries(1), config=LoopConfig())
    )
    assert [each.details.get("retry", False) for each in run.results] == [True, True, False]

    run = await run_with(date, 1, most=1)
    assert run.results[0].details["retry"] is True


async def test_zero_retries_make_the_first_retry_a_plain_error():
    run = await run_with(Tool("date", raising(again())), 1, most=0)
    assert "retry" not in run.results[0].details
