"""Changes during a conversation: model, mode, grants; and forks."""

import json

import pytest

from dirge_py.conversation.deps import ForkOptions
from dirge_py.permission.rules import Mode
from dirge_py.testing import assert_balanced
from dirge_py.types.errors import ConfigError, UsageError
from dirge_py.types.events import ToolExecutionStart
from dirge_py.types.outcomes import Done, MaxTurns
from dirge_py.types.questions import PermissionAnswer
from tests.support.project import ScriptedProject, on_first


async def test_model_changed_during_a_run_is_used_for_the_next_turn(
    project: ScriptedProject,
) -> None:
    project.model.will_call("list_dir", path=".").will_say("Empty.")

    async with project.open() as conversation:
        conversation.subscribe(
            on_first(
                ToolExecutionStart, lambda: conversation.settings.set_model("fake/gpt-4.1:high")
            )
        )
        await conversation.send("look")

        assert (conversation.settings.model, conversation.settings.thinking) == (
            "fake/gpt-4.1",
            "high",
        )
    options = project.model.options
    assert [(o.model, o.thinking_level) for o in options] == [
        ("fake/gpt-4o", "off"),
        ("fake/gpt-4.1", "high"),
    ]


async def test_unknown_model_is_refused_and_the_model_stays(project: ScriptedProject) -> None:
    async with project.open() as conversation:
        with pytest.raises(ConfigError):
            conversation.settings.set_model("fakee/gpt-4.1")

        assert conversation.settings.model == "fake/gpt-4o"


async def test_models_lists_every_configured_model(project: ScriptedProject) -> None:
    async with project.open() as conversation:
        choices = conversation.settings.models()

    assert [choice.spec for choice in choices] == ["fake/gpt-4o", "fake/gpt-4.1"]
    assert all(choice.window_tokens > 0 and choice.price for choice in choices)


async def test_mode_changed_during_a_run_applies_to_the_next_call(project: ScriptedProject) -> None:
    project.model.will_call("bash", command="touch a").will_call("bash", command="touch b")
    project.model.will_say("done")

    async with project.open() as conversation:
        conversation.subscribe(
            on_first(ToolExecutionStart, lambda: conversation.settings.set_mode("yolo"))
        )
        await conversation.send("touch both")
        assert conversation.settings.mode == "yolo"

    assert (project.folder / "b").exists()


async def test_session_grant_asks_once_and_ends_with_the_session(
    project: ScriptedProject,
) -> None:
    project.user.answer = PermissionAnswer(effect="allow", remember="session")
    project.model.will_call("bash", command="touch a").will_call("bash", command="touch a")
    project.model.will_say("done").will_call("bash", command="touch a").will_say("again")

    async with project.open() as conversation:
        await conversation.send("touch")
        granted = [str(grant) for grant in conversation.settings.grants]
        assert len(granted) == len(project.user.asked) == 1
    async with project.open("newest") as conversation:
        assert list(conversation.settings.grants) == []
        assert list(conversation.notices) == [
            f"1 rule you allowed for the session is not carried over: {granted[0]}."
        ]
        await conversation.send("touch")

    assert len(project.user.asked) == 2


async def test_dropped_session_grants_are_reported_once(project: ScriptedProject) -> None:
    project.model.will_say("ok")
    async with project.open() as conversation:
        await conversation.send("x")
        for rule in ("execute:make", "execute:make test", "execute:make check"):
            conversation.settings.add_grant(rule)
        with pytest.raises(UsageError):
            conversation.settings.remove_grant(5)
        conversation.settings.remove_grant(0)
        left = ", ".join(str(grant) for grant in conversation.settings.grants)

    received = []
    for _ in range(2):
        async with project.open("newest") as conversation:
            received.append(list(conversation.notices))

    assert received == [[f"2 rules you allowed for the session are not carried over: {left}."], []]


async def test_fork_adds_only_decision_records_to_its_parents_journal(
    project: ScriptedProject,
) -> None:
    project.model.will_say("one").will_call("bash", command="touch a").will_say("two")
    project.user.answer = PermissionAnswer(effect="allow")

    async with project.open() as conversation:
        await conversation.send("first")
        before = project.journal.read_bytes()
        fork = await conversation.fork(ForkOptions())
        await fork.send("second")
        await fork.close()

        assert fork.session_id is None
        assert len(conversation.messages) == 2
        assert len(fork.messages) == 6
        assert_balanced(fork.messages)
        # Permission decisions of a fork are stored in the journal of its parent.
        added = project.journal.read_bytes().removeprefix(before).splitlines()
        assert [json.loads(line)["type"] for line in added] == ["decision"]
        assert (project.folder / "a").exists()


MODES: tuple[Mode, ...] = ("plan", "standard")


async def test_grants_and_mode_of_a_session_apply_to_its_forks_only(
    project: ScriptedProject,
) -> None:
    project.model.will_say("one")
    for _ in range(3):
        project.model.will_call("bash", command="touch a").will_say("done")

    async with project.open() as conversation:
        conversation.settings.add_grant("execute:touch a")
        await conversation.send("first")
        for mode in MODES:
            conversation.settings.set_mode(mode)
            fork = await conversation.fork(ForkOptions())
            await fork.send("touch")
            await fork.close()
            assert (project.folder / "a").exists() == (mode == "standard")
        assert project.user.asked == []
    async with project.open() as other:
        await other.send("touch")
    assert len(project.user.asked) == 1


async def test_fork_can_have_fewer_tools_and_another_model(project: ScriptedProject) -> None:
    project.model.will_say("one")
    for _ in range(3):
        project.model.will_call("list_dir", path=".")

    async with project.open() as conversation:
        await conversation.send("first")
        fork = await conversation.fork(
            ForkOptions(history="empty", tools=["list_dir"], model="gpt-4.1", max_turns=2)
        )
        outcome = await fork.send("look")

    assert outcome == MaxTurns(max=2)
    assert project.prompts_of_call(1) == ["look"]
    assert [tool.name for tool in project.model.seen[1].tools] == ["list_dir"]
    assert fork.settings.model == "fake/gpt-4.1"


async def test_why_uses_the_permission_engine_of_the_conversation(project: ScriptedProject) -> None:
    async with project.open() as conversation:
        before = conversation.settings.why("bash", "make").effect
        conversation.settings.add_grant("execute:make")
        after = conversation.settings.why("bash", "make").effect

    assert (before, after) == ("ask", "allow")
    assert project.user.asked == []


async def test_denial_comment_is_sent_to_the_model(project: ScriptedProject) -> None:
    project.user.answer = PermissionAnswer(effect="deny", comment="use make instead")
    project.model.will_call("bash", command="touch a").will_say("ok")

    async with project.open() as conversation:
        outcome = await conversation.send("touch")

    assert isinstance(outcome, Done)
    assert "use make instead" in str(project.model.seen[1].messages[-1])
