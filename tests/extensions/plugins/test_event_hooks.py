"""Event hooks of plugins don't delay a run, and their failures don't affect it."""

import asyncio
import logging
from typing import Any

import pytest

from dirge_py.extensions.plugins.hooks import MAX_QUEUED
from dirge_py.testing import ScriptedModel
from dirge_py.types.events import MessageUpdate
from dirge_py.types.outcomes import Done
from tests.support.plugins import SHORT_S, PluginFolder, run_with


async def test_case_a68_run_does_not_wait_for_event_hooks(
    plugin_folder: PluginFolder, caplog: pytest.LogCaptureFixture
):
    heard: list[str] = []

    def register(dirge: Any) -> None:
        @dirge.on("agent_end")
        def fine(event: Any) -> None:
            heard.append(event.type)

        @dirge.on("agent_end")
        def raises(event: Any) -> None:
            raise LookupError("nothing")

        @dirge.on("agent_end")
        async def hangs(event: Any) -> None:
            await asyncio.Event().wait()

    host = plugin_folder.add("watch", register).host(limit_s=SHORT_S)
    with caplog.at_level(logging.INFO, logger="dirge_py.extensions.plugins"):
        came = await run_with(host, ScriptedModel().will_say("done"))
        assert isinstance(came.outcome, Done)
        assert plugin_folder.notices == []
        await host.close()
    assert heard == ["agent_end"]
    [raised] = [told for told in plugin_folder.notices if "`raises`" in told]
    assert "LookupError: nothing" in raised
    failures = [record for record in caplog.records if "failed" in record.message]
    assert "LookupError" in str(failures[0].exc_info)
    assert (
        len(failures) + len([told for told in plugin_folder.notices if "took longer" in told]) >= 2
    )


async def test_event_hooks_get_events_in_order(plugin_folder: PluginFolder):
    heard: list[str] = []

    def register(dirge: Any) -> None:
        for event in ("agent_start", "turn_start", "turn_end", "tool_execution_end", "agent_end"):
            dirge.on(event, lambda event: heard.append(event.type))

        @dirge.on("turn_start")
        async def slow(event: Any) -> None:
            for _ in range(20):
                await asyncio.sleep(0)
            seen.append(event.turn)

    seen: list[int] = []
    host = plugin_folder.add("watch", register).host()
    await run_with(host, ScriptedModel().will_call("echo").will_call("echo").will_say("done"))
    await host.close()
    assert seen == [1, 2, 3]
    turn = ["turn_start", "tool_execution_end", "turn_end"]
    assert heard == ["agent_start", *turn, *turn, "turn_start", "turn_end", "agent_end"]


async def test_event_hook_cannot_stop_a_run(plugin_folder: PluginFolder):
    host = plugin_folder.add(
        "watch", lambda d: d.on("turn_start", lambda e: d.stop("enough"))
    ).host()
    came = await run_with(host, ScriptedModel().will_call("echo").will_say("done"))
    await host.close()
    assert isinstance(came.outcome, Done)
    assert "a run cannot be stopped from here" in plugin_folder.notices[0]


async def test_slow_event_hook_misses_only_message_deltas(plugin_folder: PluginFolder):
    """More deltas arrive than the queue holds; the end of the message still arrives."""
    may_go_on = asyncio.Event()
    heard: list[str] = []

    def register(dirge: Any) -> None:
        async def slow(event: Any) -> None:
            await may_go_on.wait()
            heard.append(event.type)

        dirge.on("message_update", slow)

    host = plugin_folder.add("watch", register).host()
    piece = MessageUpdate(phase="text_delta", delta="x", index=0)
    for _ in range(5 * MAX_QUEUED):
        host.on_event(piece)
    may_go_on.set()
    await host.close()
    assert len(heard) == MAX_QUEUED
