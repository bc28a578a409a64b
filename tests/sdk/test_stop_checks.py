"""All stop checks of a run, from settings."""

from pathlib import Path

import pytest

from dirge_py.config.load import load
from dirge_py.guards.judge import SideModels, WorkspaceDiff
from dirge_py.guards.reminders import DepthTracker
from dirge_py.providers.scripted import Reply, Script
from dirge_py.sdk.guards import gates
from dirge_py.testing import ScriptedModel
from dirge_py.types.events import UsageReported
from dirge_py.types.messages import Usage
from dirge_py.types.outcomes import Done
from tests.guards.test_stop_checks import spoke, stopping_after_a_failure
from tests.support.guarded_runs import nudges, run_guarded

PROVIDERS = '[providers.fake]\ntype = "openai"\nmodel = "gpt-4o"\napi_key_env = "FAKE_KEY"\n'
ONCE = '[loop.gates]\nresume = 1\ntodo = 1\ngoal = "g"\ngoal_checks = 1\n'
NO_GOAL = ONCE.replace('goal = "g"\n', "")
CRITIC = '[roles]\ncritic = "fake/critical"\n'


@pytest.fixture
def config(tmp_path: Path):
    def made(text: str = ONCE + CRITIC):
        (tmp_path / "config.toml").write_text(PROVIDERS + text)
        environment = {
            "HOME": str(tmp_path),
            "DIRGE_CONFIG_DIR": str(tmp_path),
            "DIRGE_STATE_DIR": str(tmp_path / "state"),
            "FAKE_KEY": "sk-x",
        }
        return load(environment=environment)

    return made


def critic(goal="UNMET\n- c"):
    """Answers the judge and the goal check by their prompts."""

    def answer(context):
        is_goal = "UNMET" in context.system_prompt
        text = goal if is_goal else "INCOMPLETE\n- a"
        return Reply(text=text, usage=Usage(input=7))

    return Script([answer] * 20)


def services(config, script=None, **more):
    judges = SideModels(config=config, stream_fn=(script or critic()).stream)
    return {"judges": judges, "open_items": lambda: ["d"], **more}


async def run_with(config, made, **more):
    bundles = gates(config.loop.gates, **made, **more)
    return await run_guarded(stopping_after_a_failure(), *bundles)


async def test_case_109_by_default_one_stop_check_sends_one_message(config):
    settings = config("[loop.gates]\nresume = 3\nverifier = 3\ntodo = 3\n")
    assert spoke(await run_with(settings, services(settings))) == ["resume"]


async def test_case_109_critic_and_goal_have_separate_limits(config):
    settings = config(ONCE.replace("goal_checks = 1", "goal_checks = 2") + CRITIC)
    assert spoke(await run_with(settings, services(settings))) == ["judge", "goal", "goal"]


async def test_usage_of_judge_models_is_reported_in_the_run(config):
    settings = config()
    run = await run_with(settings, services(settings))
    told = run.recorder.of(UsageReported)
    assert {(event.model, event.usage) for event in told} == {("fake/critical", Usage(input=7))}


async def test_fork_has_no_stop_checks(config):
    settings = config()
    assert gates(settings.loop.gates, **services(settings), is_fork=True) == ()
    run = await run_with(settings, services(settings), is_fork=True)
    assert (nudges(run), isinstance(run.outcome, Done)) == ([], True)


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        (ONCE, ["goal"]),
        (NO_GOAL, ["resume"]),
        (ONCE.replace('goal = "g"\n', "") + CRITIC, ["judge"]),
        (ONCE + 'critic = "off"\n' + CRITIC, ["goal"]),
        (ONCE.replace("goal_checks = 1", "goal_checks = 0") + CRITIC, ["judge"]),
        (NO_GOAL.replace("resume = 1", "resume = 0"), ["verifier"]),
        (NO_GOAL.replace("resume = 1", "resume = 0\nverifier = 0"), ["todo"]),
        (ONCE.replace("= 1", "= 0") + "verifier = 0\n", []),
        (ONCE + '[roles]\ncritic = "gone/x"\n', ["resume"]),
    ],
)
async def test_each_stop_check_can_be_turned_off(config, text, spoken):
    settings = config(text)
    assert spoke(await run_with(settings, services(settings))) == spoken


async def test_reviewed_work_is_only_checked_for_failed_calls(config):
    settings = config()
    run = await run_with(settings, services(settings), is_reviewed=True)
    assert spoke(run) == ["resume"]


async def test_case_108_without_services_only_the_resume_check_runs(config):
    assert spoke(await run_with(config(), {})) == ["resume"]


async def test_judge_sees_the_diff_and_can_block_the_end(config):
    changes = iter(
        [WorkspaceDiff(text="", fingerprint="0"), *[WorkspaceDiff(text="+x", fingerprint="1")] * 9]
    )

    async def diff():
        return next(changes)

    script = critic(goal="MET")
    settings = config(ONCE + 'critic = "blocking"\n' + CRITIC)
    run = await run_with(settings, services(settings, script, diff=diff))
    assert spoke(run).count("judge") == 3
    judged = [each for each in script.seen if "COMPLETE" in each.system_prompt]
    assert ["+x" in each.messages[0].text for each in judged] == [True, False, False]


async def test_deferred_end_skips_all_stop_checks(config):
    settings, script = config(), critic()
    run = await run_with(settings, services(settings, script), should_defer=lambda: True)
    assert (nudges(run), script.seen) == ([], [])


async def test_depth_check_reminds_during_the_run(config):
    settings = config("[loop.gates]\ndepth = 2\n")
    tracker = DepthTracker()
    model = ScriptedModel().will_call("read", path="a").will_call("read", path="a")
    model.will_call("faulty", n=1).will_call("faulty", n=2).will_call("read", path="b")
    bundles = gates(settings.loop.gates, depth=tracker)
    texts = nudges(await run_guarded(model.will_say("done"), *bundles))
    assert ["Step back" in text for text in texts] == [True]
    assert tracker.files == ("/w/b",)


async def test_failure_and_depth_checks_can_be_turned_off(config):
    settings = config("[loop.gates]\nfailures = 0\ndepth = 0\nresume = 0\n")
    model = ScriptedModel()
    for n in range(5):
        model.will_call("faulty", path="a", n=n)
    bundles = gates(settings.loop.gates)
    assert nudges(await run_guarded(model.will_say("done"), *bundles)) == []
