"""Case 108: a run continues until its goal is met."""

import pytest

from dirge_py.guards.judge import goal_check
from dirge_py.guards.stop_checks import stop_checks
from dirge_py.guards.verification import Verification, track_verification
from dirge_py.testing import ScriptedModel
from dirge_py.types.errors import ProviderError
from dirge_py.types.outcomes import Done
from tests.guards.test_judge import Panel, working
from tests.support.guarded_runs import nudges, run_guarded


async def test_case_108_unmet_goal_continues_the_run_with_what_remains():
    panel = Panel("UNMET\n- the docs", "MET")
    run = await run_guarded(working(), stop_checks([goal_check("docs and tests", panel)]))
    (text,) = nudges(run)
    assert "docs and tests" in text
    assert "What remains:\n- the docs\n" in text
    assert "docs and tests" in panel.asked[0][1]
    assert "USER: go" in panel.asked[0][1]


async def test_case_108_unmet_goal_without_detail_says_no_detail():
    assert (
        "no detail"
        in nudges(
            await run_guarded(working(), stop_checks([goal_check("x", Panel("UNMET", "MET"))]))
        )[0]
    )


@pytest.mark.parametrize("answer", ["MET", "perhaps", "", ProviderError("down"), TimeoutError()])
async def test_case_108_met_unclear_empty_or_failed_verdict_ends_the_run(answer):
    run = await run_guarded(working(), stop_checks([goal_check("x", Panel(answer))]))
    assert isinstance(run.outcome, Done)
    assert nudges(run) == []


async def test_case_108_goal_check_sends_at_most_twelve_messages():
    panel = Panel(*["UNMET"] * 20)
    model = working(stops=20)
    run = await run_guarded(model, stop_checks([goal_check("x", panel)]))
    assert (len(nudges(run)), len(panel.asked), len(model.seen)) == (12, 12, 14)


@pytest.mark.parametrize(
    ("more", "told"),
    [([], "not run, built"), ([("pytest", 1)], "last check"), ([("pytest", 0)], "")],
)
async def test_case_108_goal_prompt_mentions_verification_but_not_as_a_reason(more, told):
    panel = Panel()
    verification = Verification()
    model = ScriptedModel().will_call("edit", path="a.py")
    for command, code in more:
        model.will_call("bash", command=command, exit=code)
    checks = stop_checks([goal_check("x", panel, verification=verification)])
    await run_guarded(model.will_say("done"), track_verification(verification), checks)
    ((_, prompt),) = panel.asked
    assert (told in prompt, "no reason for UNMET" in prompt) == (True, bool(told))


async def test_case_108_run_that_asks_whether_to_continue_is_continued():
    panel = Panel("UNMET\n- the tests", "MET")
    model = ScriptedModel().will_call("read", path="a").will_say("Shall I write the tests?")
    run = await run_guarded(model.will_say("Done."), stop_checks([goal_check("x", panel)]))
    assert len(nudges(run)) == 1


async def test_case_108_blocked_verdict_ends_the_run():
    panel = Panel("BLOCKED")
    model = ScriptedModel().will_call("read", path="a").will_say("Which account do I use?")
    run = await run_guarded(model, stop_checks([goal_check("x", panel)]))
    assert (nudges(run), "BLOCKED" in panel.asked[0][0]) == ([], True)
