"""Messages that a view left out: listing, restoring, and undoing a compaction."""

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dirge_py.context.shape import shape_of
from dirge_py.context.view import ContextRequest, ContextView
from dirge_py.testing import assert_balanced
from dirge_py.types.messages import Message
from tests.support.histories import GOOD, Summaries, chat, single_prompt_run, view


def request(messages: Sequence[Message]) -> ContextRequest:
    return ContextRequest(messages=messages, window_tokens=10_000)


STANDING = "[~] write the parser\n[ ] test it"


async def compacted_view(steps: int = 40) -> tuple[ContextView, Mapping[str, Any]]:
    one = view(Summaries([GOOD]), standing=lambda: STANDING)
    compaction = await one.compact(request(single_prompt_run(steps)))
    assert compaction is not None
    assert compaction.record is not None
    return one, compaction.record


async def test_dropped_lists_every_message_not_sent_unchanged() -> None:
    one, _ = await compacted_view()
    history = single_prompt_run(40)

    left_out = one.dropped(history)

    sent = {id(message) for message in one.shown(history)}
    assert {item.number for item in left_out} == {
        number for number, message in enumerate(history, 1) if id(message) not in sent
    }
    assert left_out[0].beginning == "Make the tests pass, please."
    assert {item.how for item in left_out} >= {"folded"}


async def test_restored_message_is_sent_complete_and_removed_from_dropped_list() -> None:
    one, _ = await compacted_view()
    history = single_prompt_run(40)
    result = history[4]

    change = one.show_again(request(history), 5)

    assert change is not None
    assert change.event.kind == "shown_again"
    assert change.event.tokens_after > 0
    assert any(result.text in message.text for message in one.shown(history))  # type: ignore[union-attr]
    assert 5 not in {item.number for item in one.dropped(history)}
    assert one.show_again(request(history), 5) is None
    assert_balanced(one.shown(history))


async def test_undoing_compactions_restores_original_history() -> None:
    one, _ = await compacted_view()
    history = single_prompt_run(40)
    one.show_again(request(history), 5)

    assert one.undo(request(history)) is not None
    assert 5 in {item.number for item in one.dropped(history)}
    assert one.undo(request(history)) is not None

    assert one.shown(history) == history
    assert one.undo(request(history)) is None


@given(st.lists(st.sampled_from(["fold", "again", "undo"]), max_size=6))
async def test_view_rebuilt_from_records_shows_same_messages(steps: list[str]) -> None:
    one = view(Summaries())
    records = []
    history = chat(12)
    for step in steps:
        left_out = one.dropped(history)
        if step == "fold":
            change = await one.compact(request(history))
        elif step == "again" and left_out:
            change = one.show_again(request(history), left_out[-1].number)
        else:
            change = one.undo(request(history))
        if change is not None and change.record is not None:
            records.append(change.record)

    again = view(Summaries(), records=records)

    assert again.shown(history) == one.shown(history)
    assert (again.undo(request(history)) is None) == (one.undo(request(history)) is None)
    assert again.shown(history) == one.shown(history)


async def test_todo_list_is_sent_once_after_compaction_summary() -> None:
    one, record = await compacted_view()

    texts = [getattr(message, "text", "") for message in one.shown(single_prompt_run(40))]

    assert sum(STANDING in text for text in texts) == 1
    assert shape_of(record).standing == STANDING
