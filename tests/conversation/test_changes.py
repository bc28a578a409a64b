"""What may change: the model in mid-run, the mode, grants; and forks."""

import json

import pytest

from dirge_py.conversation.deps import ForkOptions
from dirge_py.permission.rules import Mode
from dirge_py.testing import assert_balanced
from dirge_py.types.errors import ConfigError, UsageError
from dirge_py.types.events import ToolExecutionStart
from dirge_py.types.outcomes import Done, MaxTurns
from dirge_py.types.questions import PermissionAnswer
from tests.conversation.room import Room, when


async def test_a_model_switched_in_mid_run_answers_the_next_turn(room: Room) -> None:
    room.model.will_call("list_dir", path=".").will_say("Empty.")

    async with room.open() as talk:
        talk.subscribe(
            when(ToolExecutionStart, lambda: talk.settings.set_model("fake/gpt-4.1:high"))
        )
        await talk.send("look")

        assert (talk.settings.model, talk.settings.thinking) == ("fake/gpt-4.1", "high")
    options = room.model._script.options
    assert [(o.model, o.thinking_level) for o in options] == [
        ("fake/gpt-4o", "off"),
        ("fake/gpt-4.1", "high"),
    ]


async def test_an_unknown_model_changes_nothing(room: Room) -> None:
    async with room.open() as talk:
        with pytest.raises(ConfigError):
            talk.settings.set_model("fakee/gpt-4.1")

        assert talk.settings.model == "fake/gpt-4o"


async def test_every_configured_model_is_a_choice(room: Room) -> None:
    async with room.open() as talk:
        choices = talk.settings.models()

    assert [choice.spec for choice in choices] == ["fake/gpt-4o", "fake/gpt-4.1"]
    assert all(choice.window_tokens > 0 and choice.price for choice in choices)


async def test_a_mode_holds_from_the_next_call_on(room: Room) -> None:
    room.model.will_call("bash", command="touch a").will_call("bash", command="touch b")
    room.model.will_say("done")

    async with room.open() as talk:
        talk.subscribe(when(ToolExecutionStart, lambda: talk.settings.set_mode("yolo")))
        await talk.send("touch both")
        assert talk.settings.mode == "yolo"

    assert (room.project / "b").exists()


async def test_a_grant_for_the_session_is_asked_for_once_and_ends_with_it(room: Room) -> None:
    room.person.answer = PermissionAnswer(effect="allow", remember="session")
    room.model.will_call("bash", command="touch a").will_call("bash", command="touch a")
    room.model.will_say("done").will_call("bash", command="touch a").will_say("again")

    async with room.open() as talk:
        await talk.send("touch")
        granted = [str(grant) for grant in talk.settings.grants]
        assert len(granted) == len(room.person.asked) == 1
    async with room.open("newest") as talk:
        assert list(talk.settings.grants) == []
        assert list(talk.notices) == [
            f"1 rule you allowed for the session is not carried over: {granted[0]}."
        ]
        await talk.send("touch")

    assert len(room.person.asked) == 2


async def test_grants_that_are_not_carried_over_are_told_once(room: Room) -> None:
    room.model.will_say("ok")
    async with room.open() as talk:
        await talk.send("x")
        for rule in ("execute:make", "execute:make test", "execute:make check"):
            talk.settings.add_grant(rule)
        with pytest.raises(UsageError):
            talk.settings.remove_grant(5)
        talk.settings.remove_grant(0)
        left = ", ".join(str(grant) for grant in talk.settings.grants)

    told = []
    for _ in range(2):
        async with room.open("newest") as talk:
            told.append(list(talk.notices))

    assert told == [[f"2 rules you allowed for the session are not carried over: {left}."], []]


async def test_a_fork_goes_its_own_way_and_leaves_decisions_only(room: Room) -> None:
    room.model.will_say("one").will_call("bash", command="touch a").will_say("two")
    room.person.answer = PermissionAnswer(effect="allow")

    async with room.open() as talk:
        await talk.send("first")
        before = room.journal.read_bytes()
        fork = await talk.fork(ForkOptions())
        await fork.send("second")
        await fork.close()

        assert fork.session_id is None
        assert len(talk.messages) == 2
        assert len(fork.messages) == 6
        assert_balanced(fork.messages)
        # What it was allowed is for the person to look up in the session they see.
        added = room.journal.read_bytes().removeprefix(before).splitlines()
        assert [json.loads(line)["type"] for line in added] == ["decision"]
        assert (room.project / "a").exists()


MODES: tuple[Mode, ...] = ("plan", "standard")


async def test_what_a_session_allows_or_not_holds_in_its_forks_alone(room: Room) -> None:
    room.model.will_say("one")
    for _ in range(3):
        room.model.will_call("bash", command="touch a").will_say("done")

    async with room.open() as talk:
        talk.settings.add_grant("execute:touch a")
        await talk.send("first")
        for mode in MODES:
            talk.settings.set_mode(mode)
            fork = await talk.fork(ForkOptions())
            await fork.send("touch")
            await fork.close()
            assert (room.project / "a").exists() == (mode == "standard")
        assert room.person.asked == []
    async with room.open() as other:
        await other.send("touch")
    assert len(room.person.asked) == 1


async def test_a_fork_may_be_given_less(room: Room) -> None:
    room.model.will_say("one")
    for _ in range(3):
        room.model.will_call("list_dir", path=".")

    async with room.open() as talk:
        await talk.send("first")
        fork = await talk.fork(
            ForkOptions(history="empty", tools=["list_dir"], model="gpt-4.1", max_turns=2)
        )
        outcome = await fork.send("look")

    assert outcome == MaxTurns(max=2)
    assert room.heard(1) == ["look"]
    assert [tool.name for tool in room.model.seen[1].tools] == ["list_dir"]
    assert fork.settings.model == "fake/gpt-4.1"


async def test_why_asks_the_engine_of_this_conversation(room: Room) -> None:
    async with room.open() as talk:
        before = talk.settings.why("bash", "make").effect
        talk.settings.add_grant("execute:make")
        after = talk.settings.why("bash", "make").effect

    assert (before, after) == ("ask", "allow")
    assert room.person.asked == []


async def test_a_comment_with_a_denial_reaches_the_model(room: Room) -> None:
    room.person.answer = PermissionAnswer(effect="deny", comment="use make instead")
    room.model.will_call("bash", command="touch a").will_say("ok")

    async with room.open() as talk:
        outcome = await talk.send("touch")

    assert isinstance(outcome, Done)
    assert "use make instead" in str(room.model.seen[1].messages[-1])
