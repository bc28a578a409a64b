"""A plan that is stopped, wherever it is: nothing stays busy or open, and nothing is lost."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dirge_py.conversation.conversation import Conversation
from dirge_py.plan.approval import PlanAnswer, Revise
from dirge_py.plan.budget import PlanBudget
from dirge_py.plan.document import PlanDocument
from dirge_py.plan.runner import resume_plan, start_plan
from dirge_py.plan.state import PlanTerms
from dirge_py.providers.scripted import Gate, Reply
from dirge_py.types.errors import DirgeError
from dirge_py.types.events import PlanPhase
from dirge_py.types.messages import Usage, UserMessage
from dirge_py.types.outcomes import Cancelled, Done, HookTerminated, LimitExceeded
from dirge_py.types.questions import PermissionAnswer
from tests.plan.workroom import PLAN, REQUEST, Workroom, kept, verdict

Stop = Callable[[], Awaitable[None]]
PLACES = ("attach", "hash", "explore", "plan", "question", "implement", "copy", "review")


@pytest.fixture(autouse=True)
def _allowed(room: Workroom, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room.person.answer = PermissionAnswer(effect="allow")
    copies = tmp_path / "copies"
    copies.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(copies))


class Stopped:
    """A plan that is stopped at a place."""

    def __init__(self, room: Workroom, talk: Conversation, place: str, how: str) -> None:
        self._room = room
        self._talk = talk
        self._how = how
        self._is_over = False
        self._script(place)
        self.task = asyncio.get_running_loop().create_task(room.plan(talk))
        self._closing: asyncio.Task[None] | None = None

    def _script(self, place: str) -> None:
        room = self._room

        def at(name: str) -> Gate | None:
            return self._stop if name == place else None

        room.model.will_say("Findings.", hold=at("explore"))
        room.model.will_say(PLAN, hold=at("plan"))
        room.model.will_say("Written.", hold=at("implement"))
        room.model.will_say("I am at it.", hold=at("review"))
        if place == "question":
            room.desk = self  # type: ignore[assignment]
        names = {"attach": "attach", "hash": "read_tree", "copy": "fork"}
        if place in names:
            self._stop_in(names[place], only_copies=place == "copy")

    def _stop_in(self, name: str, *, only_copies: bool) -> None:
        environment = self._talk.environment
        real = getattr(environment if name == "read_tree" else self._talk, name)

        async def stopping(*given: Any) -> Any:
            if not only_copies or given[0].workspace == "copy":
                await self._stop()
            return await real(*given)

        if name == "read_tree":
            held = replace(environment, read_tree=stopping)
            self._talk._deps = replace(self._talk._deps, environment=held)
        else:
            setattr(self._talk, name, stopping)

    async def decide(self, _plan: PlanDocument, _grants: object) -> PlanAnswer:
        await self._stop()
        await asyncio.Event().wait()
        raise AssertionError

    async def _stop(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._talk.steer("typed meanwhile")
        assert self._talk.exclusive_owner is not None
        if self._how == "interrupt":
            self._talk.exclusive_owner.interrupt()
        elif self._how == "cancel":
            self.task.cancel()
        else:
            self._closing = asyncio.get_running_loop().create_task(self._talk.close())

    async def to_its_end(self) -> object:
        try:
            return (await self.task).outcome
        except asyncio.CancelledError:
            return None
        finally:
            if self._closing is not None:
                await self._closing
            if self._talk.run is not None:
                await self._talk.run


@pytest.mark.parametrize(
    ("how", "place"),
    [
        *(("interrupt", place) for place in PLACES),
        *(("cancel", place) for place in ("explore", "question", "implement", "copy", "review")),
        *(("close", place) for place in ("plan", "question", "implement", "review")),
    ],
)
async def test_nothing_of_a_plan_goes_on_after_it_was_stopped(
    room: Workroom, tmp_path: Path, how: str, place: str
) -> None:
    async with room.open() as talk:
        outcome = await Stopped(room, talk, place, how).to_its_end()

        assert (
            outcome
            == {
                "interrupt": Cancelled(reason="user"),
                "cancel": None,
                "close": Cancelled(reason="closed"),
            }[how]
        )
        assert (talk.exclusive_owner, talk.run) == (None, None)
        assert kept(talk).status == ("waiting" if place == "question" else "stopped")
        assert list((tmp_path / "copies").iterdir()) == []
        told = [e.state for e in room.events if isinstance(e, PlanPhase)]
        assert told == ["started", "ended"] * (len(told) // 2)
        delivered = "typed meanwhile" in [
            m.text for m in talk.messages if isinstance(m, UserMessage)
        ]
        assert delivered != bool(talk.queued())


async def test_a_plan_is_alone_in_its_conversation(room: Workroom) -> None:
    refused: list[str] = []

    async def intrude() -> None:
        for other in (
            start_plan("Another.", talk, room.desk),
            resume_plan(talk, room.desk),
            talk.compact(),
        ):
            with pytest.raises(DirgeError) as caught:
                await other
            refused.append(caught.value.message)
        with pytest.raises(DirgeError):
            await talk.timeline.undo()

    async with room.open() as talk:
        room.model.will_say("Hello.", hold=lambda: _refused(talk, room))
        await talk.send("Hello?")
        room.model.will_say("Findings.", hold=intrude).will_say("")
        await room.plan(talk)

        assert kept(talk).request == REQUEST
    assert refused == ["the plan's exploration is running."] * 3


async def _refused(talk: Conversation, room: Workroom) -> None:
    with pytest.raises(DirgeError, match="a run is going on"):
        await room.plan(talk)
    assert talk.exclusive_owner is None


async def test_a_comment_outlives_the_planning_that_it_led_to(room: Workroom) -> None:
    async with room.open() as talk:

        async def interrupt() -> None:
            assert talk.exclusive_owner is not None
            talk.exclusive_owner.interrupt()

        room.will_look()
        room.model.will_say("Planning…", hold=interrupt)
        room.desk.answers = [Revise("shorter, please")]
        await room.plan(talk)

    room.model.will_say(PLAN)
    room.will_write("yes")
    room.will_review(verdict())
    async with room.open("newest") as talk:
        assert (await resume_plan(talk, room.desk)).outcome == Done()

    again = " ".join(room.heard(3))
    assert "shorter, please" in again
    assert "Answer yes" in again, "the earlier plan"


HOLDS_BACK = """\
from pathlib import Path

def register(dirge):
    @dirge.on('before_prompt')
    async def check(message):
        if 'Implement all of it now' in message.text and not Path('open').exists():
            return dirge.refuse('Not before lunch.')
"""


async def test_a_prompt_that_was_held_back_has_begun_nothing(room: Workroom) -> None:
    room.plugin(HOLDS_BACK)
    room.will_look()

    async with room.open() as talk:
        result = await room.plan(talk)

        assert isinstance(result.outcome, HookTerminated)
        assert "Not before lunch." in result.outcome.reason
        assert (list(talk.messages), kept(talk).cycle.has_begun) == ([], False)

        (room.project / "open").touch()
        room.will_write("yes")
        room.will_review(verdict())
        assert (await resume_plan(talk, room.desk)).outcome == Done()
        assert REQUEST in str(talk.messages[0])


async def test_the_limits_hold_for_all_runs_together_and_within_forks(room: Workroom) -> None:
    room.configure("[limits]\ntokens = 100\n")
    half = Usage(input=50, output=10)
    room.model.will_say("Findings.", usage=half)
    room.model.will(Reply(calls=[("read", {"path": "check.sh"})], usage=half))

    async with room.open() as talk:
        result = await room.plan(talk)

    assert result.outcome == LimitExceeded(name="tokens", used=120, max=100)
    assert room.model.is_spent


async def test_a_person_who_thinks_about_a_plan_uses_up_none_of_its_time() -> None:
    ended = asyncio.Event()
    allowance = PlanBudget(PlanTerms(time_s=0.01), stop=ended.set)

    allowance.begin()
    with allowance.paused():
        later = asyncio.Event()
        asyncio.get_running_loop().call_later(0.03, later.set)
        await later.wait()
        assert (ended.is_set(), allowance.exceeded()) == (False, None)
    await asyncio.wait_for(ended.wait(), 10)

    assert allowance.exceeded() == LimitExceeded(name="time", used=0.01, max=0.01)
