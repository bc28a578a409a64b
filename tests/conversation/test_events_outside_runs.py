"""Events from outside of runs: compactions, usage of judges, a replaced history."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
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
from tests.support.project import ScriptedProject

COMPACTED = ContextCompacted(
    tokens_before=1000, tokens_after=100, first_kept_index=2, kind="summary", summary="short"
)


def with_compactor(conversation: Conversation, answer: ContextCompacted | None) -> list[Any]:
    """Make the conversation compact; returns the list of its prompts."""
    asked: list[Any] = []
    relay = conversation._deps.relay

    async def compact(
        messages: Sequence[Message], focus: str, *, emit: Any
    ) -> ContextCompacted | None:
        asked.append((len(messages), focus))
        emit(CompactionStarted(tokens_before=1000))
        relay(UsageReported(usage=Usage(input=500, output=50), model="fake/gpt-4o"))
        await asyncio.sleep(0)
        return answer

    conversation._deps = replace(
        conversation._deps,
        session=replace(conversation.session, view=SimpleNamespace(compact=compact)),
    )
    return asked


async def test_manual_compaction_emits_events_and_counts_usage(project: ScriptedProject) -> None:
    project.model.will_say("one", usage=Usage(input=100, output=10))

    async with project.open() as conversation:
        recorder = EventRecorder()
        await conversation.send("first")
        conversation.subscribe(recorder)
        asked = with_compactor(conversation, COMPACTED)

        assert await conversation.compact("the API") == COMPACTED
        assert asked == [(2, "the API")]
        assert recorder.types == ["compaction_started", "usage", "context_compacted"]
        assert conversation.usage == Usage(input=600, output=60)
        assert conversation.cost_usd == pytest.approx((600 * 2.5 + 60 * 10) / 1e6)
        assert conversation.context_tokens == 110
    async with project.open("newest") as conversation:
        assert conversation.usage == Usage(input=600, output=60)


async def test_compaction_with_nothing_to_compact_emits_no_event(project: ScriptedProject) -> None:
    async with project.open() as conversation:
        recorder = EventRecorder()
        conversation.subscribe(recorder)
        with_compactor(conversation, None)

        assert await conversation.compact() is None
        assert "context_compacted" not in recorder.types


async def test_run_and_compaction_cannot_overlap(project: ScriptedProject) -> None:
    gate = asyncio.Event()
    project.model.will_say("one", hold=gate.wait)

    async with project.open() as conversation:
        with pytest.raises(DirgeError, match="cannot compact"):
            conversation._deps = replace(
                conversation._deps, session=replace(conversation.session, view=None)
            )
            await conversation.compact()
        with_compactor(conversation, COMPACTED)
        run = conversation.send("first")
        with pytest.raises(DirgeError, match="a run is active"):
            await conversation.compact()
        gate.set()
        await run
        compacting = asyncio.ensure_future(conversation.compact())
        await asyncio.sleep(0)
        with pytest.raises(DirgeError, match="being compacted"):
            conversation.send("second")
        assert await compacting == COMPACTED


async def test_judge_usage_during_a_run_counts_for_the_run(project: ScriptedProject) -> None:
    project.model.will_say("one", usage=Usage(input=100, output=10))

    async with project.open() as conversation:

        async def judge(info: TurnInfo) -> bool:
            conversation._deps.relay(UsageReported(usage=Usage(input=7), model="fake/gpt-4o"))
            return False

        run = conversation.send("x", bundles=[Hooks(name="judge", should_stop_after_turn=judge)])
        outcome = await run

        assert isinstance(outcome, Done) and outcome.result is not None
        assert outcome.result.usage == run.usage == Usage(input=107, output=10)
        assert conversation.context_tokens == 110


async def test_usage_reported_after_a_run_counts_for_the_conversation(
    project: ScriptedProject,
) -> None:
    project.model.will_say("one", usage=Usage(input=100, output=10))

    async with project.open() as conversation:
        run = conversation.send("x")
        await run
        conversation.report(UsageReported(usage=Usage(input=7), model="fake/unheard-of"))

        assert (run.usage, conversation.usage) == (
            Usage(input=100, output=10),
            Usage(input=107, output=10),
        )
        assert conversation.cost_usd is None


async def test_usage_relay_of_a_conversation_does_not_reach_its_fork(
    project: ScriptedProject,
) -> None:
    async with project.open() as conversation:
        fork = await conversation.fork(ForkOptions())
        conversation._deps.relay(UsageReported(usage=Usage(input=7), model="fake/gpt-4o"))

        assert (conversation.usage.input, fork.usage.input) == (7, 0)
        with pytest.raises(DirgeError, match="cannot compact"):
            await fork.compact()


async def test_history_replaced_by_a_hook_replaces_the_conversations_messages(
    project: ScriptedProject,
) -> None:
    project.model.will_call("list_dir", path=".").will_say("going on").will_say("and on")
    other = (user_text("begin here"),)

    def exchange(info: TurnInfo) -> TurnUpdate | None:
        if info.turn != 1:
            return None
        return TurnUpdate(context=Context(messages=other, tools=info.context.tools))

    async with project.open() as conversation:
        recorder = EventRecorder()
        conversation.subscribe(recorder)
        await conversation.send("look", bundles=[Hooks(name="x", prepare_next_turn=exchange)])

        assert recorder.of(ContextReplaced) == [ContextReplaced(messages=other)]
        assert [message.role for message in conversation.messages] == ["user", "assistant"]
        await conversation.send("more")

    assert project.prompts_of_call() == ["begin here", "more"]


async def test_withheld_answer_gives_an_empty_response(project: ScriptedProject) -> None:
    secret = AssistantMessage(content=(TextBlock("hunter2"),), withheld="secrets")
    project.model.will_stream(TextDelta("hunter2"), StreamDone(message=secret))

    async with project.open() as conversation:
        outcome = await conversation.send("x")

    assert isinstance(outcome, Done) and outcome.result is not None
    assert outcome.result.response == ""


async def test_a55_provider_crash_fails_the_run_and_conversation_stays_usable(
    project: ScriptedProject,
) -> None:
    def crash(context: Any) -> Any:
        raise KeyError("choices")

    project.model.will(crash).will_say("pong")

    async with project.open() as conversation:
        failed = await conversation.send("ping")
        assert isinstance(failed, Failed) and "KeyError" in failed.message
        assert isinstance(await conversation.send("again"), Done)
        assert not conversation.is_running


async def test_context_report_counts_the_messages(project: ScriptedProject) -> None:
    project.model.will_say("one")

    async with project.open() as conversation:
        await conversation.send("first")
        report = conversation.context_report()
        assert report is not None and report.messages == 2
        assert (await conversation.fork(ForkOptions())).context_report() is None
