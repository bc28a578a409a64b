"""What is told from outside of runs: compactions, tokens of judges, another history."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from dirge_py.conversation.conversation import Conversation
from dirge_py.conversation.deps import ForkOptions
from dirge_py.testing import EventRecorder
from dirge_py.types.errors import DirgeError
from dirge_py.types.events import (
    CompactionStarted,
    ContextCompacted,
    ContextReplaced,
    UsageReported,
)
from dirge_py.types.hooks import Context, Hooks, TurnInfo, TurnUpdate
from dirge_py.types.llm import StreamDone, TextDelta
from dirge_py.types.messages import AssistantMessage, Message, TextBlock, Usage, user_text
from dirge_py.types.outcomes import Done, Failed
from tests.conversation.room import Room

COMPACTED = ContextCompacted(
    tokens_before=1000, tokens_after=100, first_kept_index=2, kind="summary", summary="short"
)


def with_compactor(talk: Conversation, answer: ContextCompacted | None) -> list[Any]:
    """Let the conversation compact; returns where it notes what it was asked."""
    asked: list[Any] = []
    relay = talk._deps.relay

    async def compact(messages: Sequence[Message], focus: str) -> ContextCompacted | None:
        asked.append((len(messages), focus))
        relay(CompactionStarted(tokens_before=1000))
        relay(UsageReported(usage=Usage(input=500, output=50), model="fake/gpt-4o"))
        await asyncio.sleep(0)
        return answer

    talk._deps = replace(talk._deps, session=replace(talk.session, compact=compact))
    return asked


async def test_a_compaction_on_demand_is_told_and_paid_for(room: Room) -> None:
    room.model.will_say("one", usage=Usage(input=100, output=10))

    async with room.open() as talk:
        recorder = EventRecorder()
        await talk.send("first")
        talk.subscribe(recorder)
        asked = with_compactor(talk, COMPACTED)

        assert await talk.compact("the API") == COMPACTED
        assert asked == [(2, "the API")]
        assert recorder.types == ["compaction_started", "usage", "context_compacted"]
        assert talk.usage == Usage(input=600, output=60)
        assert talk.cost_usd == pytest.approx((600 * 2.5 + 60 * 10) / 1e6)
        assert talk.context_tokens == 110
    async with room.open("newest") as talk:
        assert talk.usage == Usage(input=600, output=60)


async def test_nothing_to_compact_is_no_event(room: Room) -> None:
    async with room.open() as talk:
        recorder = EventRecorder()
        talk.subscribe(recorder)
        with_compactor(talk, None)

        assert await talk.compact() is None
        assert "context_compacted" not in recorder.types


async def test_only_one_thing_happens_at_a_time(room: Room) -> None:
    gate = asyncio.Event()
    room.model.will_say("one", hold=gate.wait)

    async with room.open() as talk:
        with pytest.raises(DirgeError, match="cannot compact"):
            talk._deps = replace(talk._deps, session=replace(talk.session, compact=None))
            await talk.compact()
        with_compactor(talk, COMPACTED)
        run = talk.send("first")
        with pytest.raises(DirgeError, match="a run is going on"):
            await talk.compact()
        gate.set()
        await run
        compacting = asyncio.ensure_future(talk.compact())
        await asyncio.sleep(0)
        with pytest.raises(DirgeError, match="being compacted"):
            talk.send("second")
        assert await compacting == COMPACTED


async def test_tokens_of_a_judge_during_a_run_belong_to_it(room: Room) -> None:
    room.model.will_say("one", usage=Usage(input=100, output=10))

    async with room.open() as talk:

        async def judge(info: TurnInfo) -> bool:
            talk._deps.relay(UsageReported(usage=Usage(input=7), model="fake/gpt-4o"))
            return False

        run = talk.send("x", bundles=[Hooks(name="judge", should_stop_after_turn=judge)])
        outcome = await run

        assert isinstance(outcome, Done) and outcome.result is not None
        assert outcome.result.usage == run.usage == Usage(input=107, output=10)
        assert talk.context_tokens == 110


async def test_tokens_told_after_the_run_count_for_the_conversation(room: Room) -> None:
    room.model.will_say("one", usage=Usage(input=100, output=10))

    async with room.open() as talk:
        run = talk.send("x")
        await run
        talk.report(UsageReported(usage=Usage(input=7), model="fake/unheard-of"))

        assert (run.usage, talk.usage) == (
            Usage(input=100, output=10),
            Usage(input=107, output=10),
        )
        assert talk.cost_usd is None


async def test_a_fork_is_told_of_by_its_own_services_only(room: Room) -> None:
    async with room.open() as talk:
        fork = await talk.fork(ForkOptions())
        talk._deps.relay(UsageReported(usage=Usage(input=7), model="fake/gpt-4o"))

        assert (talk.usage.input, fork.usage.input) == (7, 0)
        with pytest.raises(DirgeError, match="cannot compact"):
            await fork.compact()


async def test_a_history_that_a_hook_puts_in_place_is_the_conversations(room: Room) -> None:
    room.model.will_call("list_dir", path=".").will_say("going on").will_say("and on")
    other = (user_text("begin here"),)

    def exchange(info: TurnInfo) -> TurnUpdate | None:
        if info.turn != 1:
            return None
        return TurnUpdate(context=Context(messages=other, tools=info.context.tools))

    async with room.open() as talk:
        recorder = EventRecorder()
        talk.subscribe(recorder)
        await talk.send("look", bundles=[Hooks(name="x", prepare_next_turn=exchange)])

        assert recorder.of(ContextReplaced) == [ContextReplaced(messages=other)]
        assert [message.role for message in talk.messages] == ["user", "assistant"]
        await talk.send("more")

    assert room.heard() == ["begin here", "more"]


async def test_words_that_were_withheld_are_no_answer(room: Room) -> None:
    secret = AssistantMessage(content=(TextBlock("hunter2"),), withheld="secrets")
    room.model.will_stream(TextDelta("hunter2"), StreamDone(message=secret))

    async with room.open() as talk:
        outcome = await talk.send("x")

    assert isinstance(outcome, Done) and outcome.result is not None
    assert outcome.result.response == ""


async def test_a55_a_crash_in_a_provider_fails_the_run_and_not_the_conversation(room: Room) -> None:
    def crash(context: Any) -> Any:
        raise KeyError("choices")

    room.model.will(crash).will_say("pong")

    async with room.open() as talk:
        failed = await talk.send("ping")
        assert isinstance(failed, Failed) and "KeyError" in failed.message
        assert isinstance(await talk.send("again"), Done)
        assert not talk.is_running


async def test_what_is_sent_can_be_asked_for(room: Room) -> None:
    room.model.will_say("one")

    async with room.open() as talk:
        await talk.send("first")
        report = talk.context_report()
        assert report is not None and report.messages == 2
        assert (await talk.fork(ForkOptions())).context_report() is None
