"""`/context` and `/compact`, as typed."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from dirge_py import slash
from dirge_py.context.view import ContextRequest, ContextView
from dirge_py.frontend.print.print_mode import PrintFront
from dirge_py.slash.registry import Registry, discover
from dirge_py.types.errors import UsageError
from dirge_py.types.events import ContextCompacted
from tests.support.histories import single_prompt_run

COMMANDS = Registry(discover(slash))


async def run_line(line: str, **conversation: Any) -> PrintFront:
    front = PrintFront(COMMANDS)
    typed = COMMANDS.read(line)
    assert typed is not None
    fake_conversation: Any = SimpleNamespace(
        is_running=False, is_compacting=False, exclusive_owner=None, **conversation
    )
    await COMMANDS.run(typed, fake_conversation, front)
    return front


def done(kind: Any, after: int) -> ContextCompacted:
    return ContextCompacted(tokens_before=20_000, tokens_after=after, first_kept_index=4, kind=kind)


async def test_context_shows_size_sections_and_compactions():
    report = ContextView().report(
        ContextRequest(messages=single_prompt_run(10), system_prompt="p" * 350)
    )

    front = await run_line("/context", context_report=lambda: report)

    text = front.shown[0]
    assert f"about {report.tokens:,} of 128,000 tokens" in text
    assert "system prompt" in text
    assert "tool results" in text
    assert "Compaction at 75%" in text
    assert "Messages: 21, of which 0 are summarized; compactions so far: 0" in text


async def test_compact_passes_focus_and_shows_savings():
    asked = []

    async def compact(focus: str) -> ContextCompacted:
        asked.append(focus)
        return done("summary", 4_000)

    front = await run_line("/compact the parser", compact=compact)

    assert asked == ["the parser"]
    assert "20,000 → 4,000 tokens" in front.shown[0]
    assert not front.failed


async def test_prompt_sections_use_calibrated_token_estimate():
    view = ContextView()
    view.counter.factor = 0.5

    assert view.report(ContextRequest(messages=()), [("tools", 300)]).sections == (("tools", 150),)


@pytest.mark.parametrize(
    "words", ["undo", "--unod", "show 1", "restore", "restore one", f"restore {'9' * 5000}"]
)
async def test_mistyped_compact_argument_does_not_compact(words: str):
    with pytest.raises(UsageError, match="doesn't take"):
        await run_line(f"/compact {words}")


async def test_compact_reports_nothing_to_do_and_failure():
    async def nothing(focus: str) -> None:
        return None

    async def failed(focus: str) -> ContextCompacted:
        return replace(done("failed_summary", 20_000), problem="the service is down")

    assert "Nothing to compact" in (await run_line("/compact", compact=nothing)).shown[0]
    front = await run_line("/compress", compact=failed)
    assert "dirge couldn't make a summary: the service is down. The context" in front.shown[0]
    assert front.failed


async def test_context_without_context_tracking_is_refused():
    with pytest.raises(UsageError, match="doesn't track its context"):
        await run_line("/context", context_report=lambda: None)


def test_context_and_compact_work_in_print_mode():
    for name in ("context", "compact"):
        command = COMMANDS.find(name)
        assert command is not None
        assert command.headless
