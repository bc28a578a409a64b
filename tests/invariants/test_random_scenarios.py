"""Random scenarios: runs, requests and journal stay consistent.

`INVARIANT_EXAMPLES=2000` tries that many scenarios instead of a few.
"""

import asyncio
import os
import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, given, settings

from dirge_py.config.schema import Config
from dirge_py.testing import assert_balanced, assert_event_grammar
from dirge_py.types.events import MessageEnd, RetryNotice, ToolExecutionEnd
from dirge_py.types.messages import AssistantMessage, ToolResultMessage, UserMessage
from dirge_py.types.outcomes import AwaitingConfirmation
from tests.invariants.scenario_runner import ObservedRun, ScenarioRunner
from tests.invariants.scenarios import Scenario, scenarios
from tests.support.history_faults import faults

EXAMPLES = int(os.environ.get("INVARIANT_EXAMPLES", "25"))
RAN = ("ok", "failed_command", "timeout")
SLOW_S = 5.0
"""Far more than the end of an aborted run takes, on a machine that is busy with other things."""


def played(scenario: Scenario) -> ScenarioRunner:
    with tempfile.TemporaryDirectory() as folder:
        runner = ScenarioRunner(scenario, Path(folder))
        asyncio.run(runner.play())
    return runner


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(scenarios)
def test_random_conversations_keep_the_invariants(scenario: Scenario) -> None:
    check(played(scenario))


def check(runner: ScenarioRunner) -> None:
    for seen in runner.seen:
        a_run_has_its_form(seen)
        limits_hold(seen, runner.config)
    requests_are_valid(runner)
    nothing_typed_is_lost(runner)
    the_journal_agrees(runner)


def a_run_has_its_form(seen: ObservedRun) -> None:
    assert_event_grammar(seen.events)
    assert seen.slowness_s < SLOW_S
    new = [event.message for event in seen.events if isinstance(event, MessageEnd)]
    asked = [call.id for m in new if isinstance(m, AssistantMessage) for call in m.calls]
    answered = [m.tool_call_id for m in new if isinstance(m, ToolResultMessage)]
    left = Counter(asked)
    left.subtract(answered)
    if isinstance(seen.outcome, AwaitingConfirmation):
        # What waits may have been asked for in the run before.
        assert all(left[call_id] >= 0 for call_id in seen.outcome.call_ids)
    else:
        assert not +left
    assert all("outcome" in m.details for m in new if isinstance(m, ToolResultMessage))


def limits_hold(seen: ObservedRun, config: Config) -> None:
    assert seen.run.turns <= config.loop.max_turns
    retries = sum(isinstance(event, RetryNotice) for event in seen.events)
    assert seen.requests - retries <= (config.limits.requests or seen.requests)
    ran = [
        event
        for event in seen.events
        if isinstance(event, ToolExecutionEnd) and event.result.details["outcome"] in RAN
    ]
    assert len(ran) <= (config.limits.tool_calls or len(ran))


def requests_are_valid(runner: ScenarioRunner) -> None:
    assert runner.late_calls == []
    for context in runner.sent:
        assert faults(context.messages) == []


def nothing_typed_is_lost(runner: ScenarioRunner) -> None:
    recorded = [
        event.message.text
        for seen in runner.seen
        for event in seen.events
        if isinstance(event, MessageEnd) and isinstance(event.message, UserMessage)
    ]
    queued = [item.message.text for item in runner.conversation.queued()]
    places = Counter([*recorded, *queued, *runner.unsent])
    assert {text: places[text] for text in runner.typed} == dict.fromkeys(runner.typed, 1)


def the_journal_agrees(runner: ScenarioRunner) -> None:
    then, now, records = runner.conversation, runner.again, runner.records
    assert_balanced(then.messages, open_calls_allowed=True)
    assert list(now.messages) == list(then.messages)
    assert runner.shown_after == runner.shown_before
    assert now.usage == then.usage == records.usage
    assert now.cost_usd == then.cost_usd
    assert records.turns == sum(seen.run.turns for seen in runner.seen)
