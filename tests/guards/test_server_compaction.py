"""The event when a service compacts history."""

import pytest

from dirge_py.agent_loop import LoopConfig, compose
from dirge_py.guards.recovery import announce_server_compaction
from dirge_py.providers.scripted import Reply
from dirge_py.testing import ScriptedModel
from dirge_py.types.events import ContextCompacted
from dirge_py.types.llm import CompactionDone, StreamDone, TextDelta
from dirge_py.types.messages import Usage
from tests.support.loop_runs import run_loop


@pytest.mark.parametrize("usage", [Usage(input=150_000, output=900), None])
async def test_a37_compaction_by_the_service_is_emitted_once(usage: Usage | None) -> None:
    fold = CompactionDone(data={"type": "compaction", "content": "So far."}, text="So far.")
    model = ScriptedModel().will(
        Reply(events=(fold, StreamDone(stop_reason="compaction", usage=usage)))
    )
    config = compose(announce_server_compaction(), config=LoopConfig(model="work/m"))

    run = await run_loop(model.will_say("done"), "go", config=config)

    used = usage or Usage()
    assert run.recorder.of(ContextCompacted) == [
        ContextCompacted(
            tokens_before=used.input,
            tokens_after=used.output,
            first_kept_index=1,
            kind="server",
            summary="So far.",
            summary_model="work/m",
        )
    ]


async def test_failed_compaction_by_the_service_is_not_emitted() -> None:
    fold = CompactionDone(data={"type": "compaction", "content": None})
    model = ScriptedModel().will_stream(fold, TextDelta("x"), StreamDone())
    run = await run_loop(model, "go", config=compose(announce_server_compaction()))
    assert run.recorder.of(ContextCompacted) == []
