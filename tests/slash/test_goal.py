"""`/goal`: what the runs of a session must reach."""

from functools import partial

from dirge_py.types.events import ToolExecutionEnd
from dirge_py.types.messages import UserMessage
from tests.support.project import ScriptedProject, on_first
from tests.support.typed_commands import run_command


async def test_run_continues_until_the_goal_is_met_and_then_it_is_off(project: ScriptedProject):
    project.model.will_say("I began.").will_say("UNMET\n- the changelog")
    project.model.will_say("Now all of it.").will_say("MET").will_say("Fine.")
    async with project.open() as conversation:
        await run_command("/goal the changelog is up to date", conversation)
        assert conversation.settings.goal == "the changelog is up to date"
        await conversation.send("go")

        sent = [m.text for m in conversation.messages if isinstance(m, UserMessage)]
        assert sent[0] == "go"
        assert "The goal is not met yet: the changelog is up to date" in sent[1]
        assert len(project.model.seen) == 4
        assert conversation.settings.goal is None

        await conversation.send("thanks")
        assert len(project.model.seen) == 5


async def test_goal_is_kept_with_the_session_and_off_beats_the_settings(project: ScriptedProject):
    project.configure('[loop.gates]\ngoal = "ship it"\n')
    project.model.will_say("Done.")
    async with project.open() as conversation:
        await run_command("/goal off", conversation)
        await conversation.send("go")
        assert len(project.model.seen) == 1
    async with project.open("newest") as conversation:
        assert conversation.settings.goal == ""


async def test_goal_set_during_the_run_stays_when_the_earlier_one_is_met(project: ScriptedProject):
    project.model.will_call("read", path="notes").will_say("Done.").will_say("MET")
    async with project.open() as conversation:
        conversation.settings.set_goal("the first")
        change = partial(conversation.settings.set_goal, "the second")
        conversation.subscribe(on_first(ToolExecutionEnd, change))
        await conversation.send("go")
        assert conversation.settings.goal == "the second"


async def test_goal_of_a_continued_run_is_judged_by_all_work_since_the_prompt(
    project: ScriptedProject,
):
    (project.folder / "a.py").write_text("x = 1\n")
    project.model.will_call("read", path="a.py")
    project.model.will_call("edit", path="a.py", old_text="x = 1", new_text="x = 2")
    project.model.will_fail("no connection").will_say("Done.").will_say("MET").will_say("Yes.")
    async with project.open() as conversation:
        await run_command("/goal x is 2", conversation)
        await conversation.send("set x to 2")
        await conversation.continue_run()

    first = [context.messages[0].text for context in project.model.seen]
    [judged] = [text for text in first if text.startswith("The goal: ")]
    assert "USER: set x to 2" in judged
    assert "CALL edit" in judged
    assert "the code edited in this run was not run" in judged
