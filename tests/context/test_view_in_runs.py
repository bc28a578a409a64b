"""The context view in runs, between runs, and after a restart."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dirge_py.agent_loop.merge import compose
from dirge_py.config.schema import ContextTable, ReminderTable, config_from
from dirge_py.context.hooks import (
    ContextHooks,
    context_parts,
    file_reader,
    for_fork,
    summarise_with,
)
from dirge_py.context.view import ContextParts
from dirge_py.files.workspace import Workspace
from dirge_py.guards.recovery import shrink_on_overflow
from dirge_py.providers.scripted import Reply
from dirge_py.session.recorder import Recorder
from dirge_py.session.store import Store
from dirge_py.testing import EventRecorder, ScriptedModel
from dirge_py.types.errors import FileError, ProviderError
from dirge_py.types.events import CompactionStarted, ContextCompacted, ContextReplaced
from dirge_py.types.hooks import Context, LoopConfig
from dirge_py.types.messages import Message, SystemMessage, Usage, user_text
from dirge_py.types.outcomes import Done, Failed
from dirge_py.types.tools import text_result
from tests.support.histories import Summaries, chat, single_prompt_run
from tests.support.loop_runs import LoopRun, Tool, run_loop

WINDOW = 10_000


class SavedRecords(list[Mapping[str, Any]]):
    """Records as loaded from a file."""

    def save(self, record: Mapping[str, Any]) -> None:
        self.append(json.loads(json.dumps(record)))


def hooks(**more: Any) -> ContextHooks:
    more.setdefault("window_of", lambda model: WINDOW)
    more.setdefault("settings", ContextTable(strategies=["summarize", "window"]))
    return ContextHooks(ContextParts(**more), model="test/model")


def calling(share: float, *, text: str = "") -> Reply:
    usage = Usage(input=int(WINDOW * share), output=10)
    return Reply(text=text, calls=[("echo", {})], usage=usage)


async def run(
    model: ScriptedModel, hooks: ContextHooks, *bundles: Any, history: Sequence[Message] = ()
) -> LoopRun:
    recorder = EventRecorder()

    def emit(event: Any) -> None:
        recorder(event)
        hooks.sink(event)

    return await run_loop(
        model,
        "the newest prompt",
        tools=[Tool()],
        config=compose(hooks.bundle("test/model"), *bundles, config=LoopConfig(model="test/model")),
        context=Context(system_prompt="You help.", messages=history, tools=[Tool()]),
        recorder=recorder,
    )


async def test_compaction_between_turns_keeps_history_of_run():
    kept, forgotten = SavedRecords(), []
    model = ScriptedModel().will(calling(0.79)).will_say("done")
    one = hooks(
        summarise=Summaries(),
        summary_model="test/small",
        save=kept.save,
        on_compacted=lambda: forgotten.append(True),
    )
    history = chat(10)[:-1]

    result = await run(model, one, history=history)

    assert isinstance(result.outcome, Done)
    events = [e for e in result.events if isinstance(e, CompactionStarted | ContextCompacted)]
    assert [event.type for event in events] == ["compaction_started", "context_compacted"]
    compacted = events[1]
    assert isinstance(compacted, ContextCompacted)
    assert compacted.kind == "summary"
    assert compacted.summary_model == "test/small"
    assert 0 < compacted.first_kept_index < len(history)
    assert compacted.tokens_after < compacted.tokens_before
    assert len(model.seen[0].messages) == len(history) + 1
    assert len(model.seen[1].messages) < len(history)
    assert isinstance(model.seen[1].messages[0], SystemMessage)
    assert result.roles == ["user", "assistant", "toolResult", "assistant"]
    assert [record["model"] for record in kept] == ["test/small"]
    assert forgotten == [True]


async def test_forced_compaction_that_does_not_help_ends_run():
    model = ScriptedModel().will(calling(0.9)).will(calling(0.9)).will_say("never asked")

    result = await run(model, hooks(summarise=Summaries()), history=chat(10)[:-1])

    assert isinstance(result.outcome, Failed)
    assert result.outcome.kind == "context_length"
    assert "/compact" in result.outcome.hint
    assert len(model.seen) == 2
    assert len([e for e in result.events if isinstance(e, ContextCompacted)]) == 1


async def test_a03_request_that_is_too_long_is_retried_with_smaller_context():
    model = ScriptedModel()
    model.will(Reply(error=ProviderError("prompt is too long", kind="context_length")))
    model.will_say("it fits")
    one = hooks(summarise=Summaries(), window_of=lambda model: 200_000)
    history = single_prompt_run(60)

    result = await run(model, one, shrink_on_overflow(one.shrink), history=history)

    assert isinstance(result.outcome, Done)
    assert len([e for e in result.events if isinstance(e, ContextCompacted)]) == 1
    sizes = [len(json.dumps(repr(seen.messages))) for seen in model.seen]
    assert sizes[1] <= 0.9 * sizes[0]


async def test_a03_request_that_cannot_shrink_ends_run():
    model = ScriptedModel()
    model.will(Reply(error=ProviderError("prompt is too long", kind="context_length")))
    one = hooks()

    result = await run(model, one, shrink_on_overflow(one.shrink))

    assert isinstance(result.outcome, Failed)
    assert result.outcome.kind == "context_length"


async def test_a35_reminders_are_sent_but_not_stored_or_added_to_system_prompt():
    rules = [ReminderTable(text="mind the gap", every_turns=2)]
    model = ScriptedModel().will_call("echo").will_call("echo").will_say("done")

    result = await run(model, hooks(reminders=rules))

    reminded = ["mind the gap" in seen.messages[-1].text for seen in model.seen]  # type: ignore[union-attr]
    assert reminded == [False, True, False]
    assert {seen.system_prompt for seen in model.seen} == {"You help."}
    assert "mind the gap" not in repr(result.new)


async def test_results_of_batch_share_budget_when_sent_and_are_stored_complete():
    async def long(*_: Any) -> Any:
        return text_result("x" * 3_000)

    tool = Tool(body=long)
    one = hooks(result_budget_chars=2_000, window_of=lambda model: 100_000)
    model = ScriptedModel().will_call_all(("echo", {}), ("echo", {})).will_say("done")
    result = await run_loop(
        model,
        "go",
        tools=[tool],
        config=compose(one.bundle("test/model")),
        context=Context(tools=[tool]),
    )

    sent = [m for m in model.seen[1].messages if m.role == "toolResult"]
    assert [m.text.count("x") for m in sent] == [1_000, 1_000]  # type: ignore[union-attr]
    assert [len(m.text) for m in result.results] == [3_000, 3_000]


async def test_all_messages_are_sent_when_compaction_is_off():
    model = ScriptedModel().will(calling(0.9)).will_say("done")
    history = chat(10)[:-1]

    settings = ContextTable(compact=False, strategies=["summarize", "window"])
    one = hooks(settings=settings, summarise=Summaries())
    result = await run(model, one, history=history)

    assert isinstance(result.outcome, Done)
    assert len(model.seen[1].messages) == len(history) + 3


async def test_a66_resumed_session_sends_compacted_view_and_journal_keeps_all_messages(
    tmp_path: Path,
):
    store = Store(tmp_path, tmp_path, app_version="0")
    recorder = Recorder(store.create())
    history = chat(10)
    for message in history:
        recorder.add_message(message)
    one = hooks(summarise=Summaries(), save=recorder.note_compaction)
    compacted = await one.compact(history)
    assert compacted is not None
    before = one.report(history)
    recorder.close()

    again = Recorder(store.open(recorder.session_id))
    loaded = again.load()
    again.close()
    resumed = hooks(records=loaded.compactions)
    model = ScriptedModel().will_say("hello again")
    await run(model, resumed, history=loaded.messages)

    assert loaded.messages == history
    assert compacted.summary in model.seen[0].messages[0].text  # type: ignore[union-attr]
    assert resumed.report(history).folded_messages == before.folded_messages
    assert resumed.report(history).compactions == 1


async def test_replaced_history_is_sent_completely():
    one = hooks(summarise=Summaries())
    await one.compact(chat(10))
    other = chat(20)
    assert one.report(other).folded_messages > 0

    one.sink(ContextReplaced(messages=other))

    assert one.report(other).folded_messages == 0


async def test_fork_has_its_own_context_view_and_saves_no_records():
    kept = SavedRecords()
    parts = ContextParts(
        summarise=Summaries(), save=kept.save, window_of=lambda m: WINDOW, records=[{"last": 4}]
    )
    fork = ContextHooks(for_fork(parts), model="test/model")

    assert fork.report(chat(5)).folded_messages == 0
    assert await fork.compact(chat(10)) is not None
    assert kept == []


async def test_context_report_names_sent_parts_and_adds_up():
    one = hooks(summarise=Summaries())
    await one.compact(single_prompt_run(40))

    prompt: Any = SimpleNamespace(text=lambda names: "p" * 700, parts=lambda names: ())
    report = one.report(single_prompt_run(40), prompt, [Tool()])

    assert [part.name for part in report.parts] == [
        "system prompt",
        "tools",
        "summaries",
        "answers",
        "tool results",
    ]
    assert report.parts[0].tokens == 200
    assert report.tokens == sum(part.tokens for part in report.parts)
    assert (report.window, report.compactions) == (WINDOW, 1)
    assert dict(report.marks)["at"] == 0.75


async def test_summarizer_uses_summarize_role_and_times_out():
    asked = []

    async def ask(role: str, system: str, prompt: str) -> str:
        asked.append((role, prompt))
        return "fine"

    assert await summarise_with(ask)("the prompt", 2_000) == "fine"
    assert asked == [("summarize", "the prompt")]

    async def hang(role: str, system: str, prompt: str) -> str:
        await asyncio.Event().wait()
        return ""

    with pytest.raises(TimeoutError):
        await summarise_with(hang, timeout_s=0.01)("x", 1)


def test_context_parts_use_settings_from_config():
    table = {
        "context": {"fold_at": 0.5, "strategies": ["window"], "keep_messages": 7, "compact": False},
        "tools": {"result_budget_chars": 5_000},
        "reminder": [{"every_turns": 3, "text": "t"}],
    }
    parts = context_parts(config_from(table), summary_model="m")

    assert parts.settings.fold_at == 0.5
    assert parts.settings.strategies == ["window"]
    assert parts.settings.keep_messages == 7
    assert not parts.checkpoints
    assert not parts.settings.compact
    assert parts.result_budget_chars == 5_000
    assert parts.reminders == (ReminderTable(text="t", every_turns=3),)
    assert parts.summary_model == "m"


async def test_file_reader_reads_only_text_files_inside_workspace(tmp_path: Path):
    inside, outside = tmp_path / "in", tmp_path / "out.txt"
    inside.mkdir()
    outside.write_text("no")
    (inside / "a.txt").write_text("yes")
    (inside / "b.bin").write_bytes(b"\0\1")
    (inside / "secret.txt").write_text("hidden")
    (inside / "large.txt").write_bytes(b"x" * (2 * 1024 * 1024 + 1))
    workspace = Workspace([inside], inside)
    workspace.withheld = lambda real: real.endswith("secret.txt")
    read = file_reader(workspace)

    assert await read(str(inside / "a.txt")) == "yes"
    for name in ("b.bin", "secret.txt", "large.txt"):
        assert await read(str(inside / name)) is None
    with pytest.raises(FileError):
        await read(str(outside))
    workspace.close()


async def test_large_batch_uses_less_than_half_of_small_window():
    one = hooks(window_of=lambda model: 8_000)
    history = (user_text("go"), *single_prompt_run(1, chars=60_000)[1:])
    assert one.report(history).tokens < 0.5 * 8_000
