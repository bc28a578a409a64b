"""`/goal`: what the runs of a session must reach."""

from dirge_py.types.messages import UserMessage
from tests.support.project import ScriptedProject
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
