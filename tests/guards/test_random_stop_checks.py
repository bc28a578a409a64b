"""Random runs with all stop checks and reminders: their invariants."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.guards.reminders import DepthTracker, depth_reminder
from dirge_py.guards.repetition import StormBreaker
from dirge_py.guards.stop_checks import stop_checks
from dirge_py.providers.scripted import Reply
from dirge_py.testing import ScriptedModel, assert_balanced
from dirge_py.types.errors import ProviderError
from dirge_py.types.messages import AssistantMessage, UserMessage
from dirge_py.types.outcomes import Done
from tests.guards.test_judge import Panel
from tests.guards.test_stop_checks import WORDS, every_check
from tests.security.sizes import size
from tests.support.guarded_runs import run_guarded

CALLS = st.sampled_from(
    [
        ("edit", {"path": "a.py"}),
        ("edit", {"path": "README.md"}),
        ("read", {"path": "a.py"}),
        ("bash", {"command": "pytest"}),
        ("bash", {"command": "pytest", "exit": 1}),
        ("faulty", {}),
        ("faulty", {"outcome": "denied"}),
        ("gone", {}),
        ("todo", {}),
        ("edit", '{"cut'),
    ]
)
REPLIES = st.builds(
    Reply, text=st.sampled_from(["", "done"]), calls=st.lists(CALLS, max_size=3).map(tuple)
)
ANSWERS = st.sampled_from(
    ["COMPLETE", "INCOMPLETE\n- a", "UNMET", "MET", "", "\0", ProviderError("down"), TimeoutError()]
)


@settings(max_examples=size(25, 60), deadline=None)
@given(
    st.lists(REPLIES, max_size=8),
    st.lists(ANSWERS, max_size=6),
    st.lists(st.booleans(), max_size=6),
)
def test_random_runs_get_one_check_message_at_a_time_within_limits(replies, answers, deferrals):
    asyncio.run(_body(replies, answers, iter(deferrals)))


async def _body(replies, answers, deferrals):
    model = ScriptedModel()
    for reply in [*replies, *[Reply(text="done")] * 12]:
        model.will(reply)
    tracking, checks = every_check(Panel(*answers), Panel(*reversed(answers)))
    gate = stop_checks(checks, should_defer=lambda: next(deferrals, False))

    run = await run_guarded(
        model,
        depth_reminder(DepthTracker(), 2),
        StormBreaker(failures=2).bundle(),
        tracking,
        gate,
    )

    assert isinstance(run.outcome, Done)
    assert_balanced(run.new)
    said = [name for message in run.new for name in _gates_in(message)]
    assert len(said) <= 1 or set(said) <= {"judge", "goal"}
    assert (said.count("judge") <= 1, said.count("goal") <= 2) == (True, True)
    for before, message in zip(run.new, run.new[1:], strict=False):
        if _gates_in(message):
            # A check message follows a closing answer, never a call, a result or another check.
            assert isinstance(before, AssistantMessage)
            assert not before.calls


def _gates_in(message):
    if not isinstance(message, UserMessage) or message.origin != "harness":
        return []
    return [name for name, word in WORDS.items() if word in message.text]
