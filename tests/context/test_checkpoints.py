"""Summaries written ahead."""

import asyncio

import pytest

from dirge_py.context.summary import Checkpoints, checkpoint_marks
from dirge_py.context.view import ContextView
from dirge_py.types.messages import Message
from tests.context.kit import GOOD, Summaries, at, single_prompt_run, step, view

WINDOW = 30_000


def ahead(summaries: Summaries) -> ContextView:
    return view(summaries, set={"checkpoints": True, "strategies": ["summarize"]})


async def shares(one: ContextView, messages: tuple[Message, ...], *given: float) -> None:
    for share in given:
        await at(one, messages, share, window_tokens=WINDOW)
        await one.settled()


@pytest.mark.parametrize(
    ("window", "marks"), [(8_000, 0), (128_000, 4), (200_000, 4), (400_000, 9), (1_000_000, 18)]
)
def test_case_117_the_schedule_by_window(window: int, marks: int):
    assert len(checkpoint_marks(window)) == marks
    assert all(0 < mark <= 0.9 for mark in checkpoint_marks(window))


def test_case_117_each_mark_counts_once_and_several_at_once_as_one():
    marks = Checkpoints()
    passed = [marks.is_due(int(share * 128_000), 128_000) for share in (0.1, 0.2, 0.3, 0.65, 0.7)]
    assert passed == [False, True, False, True, False]
    marks.reset()
    assert marks.is_due(64_000, 128_000)


async def test_case_116_a_fresh_checkpoint_is_used_without_asking_again():
    summaries = Summaries(answers=[GOOD.format(n="the checkpoint")])
    one = ahead(summaries)
    messages = single_prompt_run(80)
    await shares(one, messages, 0.65)
    assert len(summaries.prompts) == 1

    prepared = await at(one, (*messages, *step(500)), 0.76, window_tokens=WINDOW)

    assert prepared.compaction.kind == "summary"
    assert "the checkpoint" in prepared.messages[0].text
    assert len(summaries.prompts) == 1


async def test_case_116_a_checkpoint_from_before_a_fold_is_not_used():
    summaries = Summaries()
    one = ahead(summaries)
    messages = single_prompt_run(80)
    await shares(one, messages, 0.65, 0.76)
    assert one.compactions == 1

    more = (*messages, *(m for n in range(80) for m in step(1_000 + n)))
    prepared = await at(one, more, 0.76, window_tokens=WINDOW)

    assert prepared.compaction.kind == "summary"
    assert "Go on with 2." in prepared.messages[0].text


async def test_a_checkpoint_that_fails_leaves_no_trace():
    summaries = Summaries(answers=["bad"])
    one = ahead(summaries)
    await shares(one, single_prompt_run(80), 0.65, 0.76)
    assert one.compactions == 1
    assert len(summaries.prompts) == 2


async def test_case_116_a_checkpoint_that_hangs_holds_up_nothing_and_ends_with_the_view():
    stopped = asyncio.Event()

    async def hang(prompt: str, budget_tokens: int) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return ""

    one = view(hang, set={"checkpoints": True})  # type: ignore[arg-type]
    prepared = await at(one, single_prompt_run(80), 0.65, window_tokens=WINDOW)
    assert prepared.compaction is None
    await asyncio.sleep(0)

    await one.close()
    assert stopped.is_set()
