"""The budget for the results of one batch of calls."""

from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.context.hooks import ResultBudget, relay_to
from dirge_py.processes.output import OutputStore
from dirge_py.types.messages import (
    AssistantMessage,
    ImageBlock,
    Message,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    user_text,
)
from tests.security.sizes import size
from tests.support.histories import assistant_text


def batch(*sizes: int, letter: str = "x") -> list[Message]:
    calls = [ToolCallBlock(id=f"c{n}", name="read", arguments={}) for n in range(len(sizes))]
    asked = AssistantMessage(content=tuple(calls))
    return [asked, *(result(c.id, letter * s) for c, s in zip(calls, sizes, strict=True))]


def result(call_id: str, text: str) -> ToolResultMessage:
    return ToolResultMessage(tool_call_id=call_id, tool_name="read", content=(TextBlock(text),))


def kept_chars(message: Message) -> int:
    return sum(block.text.count("x") for block in message.content if isinstance(block, TextBlock))  # type: ignore[union-attr]


def test_a23_three_large_results_share_budget_and_state_their_full_length():
    messages = (user_text("go"), *batch(90_000, 90_000, 90_000))

    sent = ResultBudget().apply(messages)[2:]

    assert sorted(map(kept_chars, sent)) == [26_666, 26_667, 26_667]
    assert all("[truncated — 90000 chars total" in m.text for m in sent)  # type: ignore[union-attr]


def test_e16_large_result_gets_budget_unused_by_small_results():
    sent = ResultBudget().apply((user_text("go"), *batch(500, 300, 200_000)))[2:]
    assert [kept_chars(message) for message in sent] == [500, 300, 79_200]


def test_results_within_budget_return_same_object():
    messages = (user_text("go"), *batch(30_000, 50_000), assistant_text("x"), *batch(80_000))
    assert ResultBudget().apply(messages) is messages


def test_e17_tool_can_limit_size_of_its_own_results():
    asked, limited, other = batch(50_000, 20_000)
    limited = replace(limited, details={"max_result_chars": 10_000})  # type: ignore[type-var]

    sent = ResultBudget().apply((user_text("go"), asked, limited, other))[2:]

    assert [kept_chars(message) for message in sent] == [10_000, 20_000]
    assert "[truncated — 50000 chars total" in sent[0].text  # type: ignore[union-attr]


def test_truncated_result_is_spilled_to_file_named_in_marker(tmp_path: Path):
    relay = relay_to(OutputStore(tmp_path / "output"))
    messages = (user_text("go"), *batch(500), assistant_text("y"), *batch(100_000))

    first = ResultBudget(relay=relay).apply(messages)[-1].text  # type: ignore[union-attr]
    again = ResultBudget(relay=relay).apply(messages)[-1].text  # type: ignore[union-attr]

    (file,) = (tmp_path / "output").iterdir()
    assert file.read_text() == "x" * 100_000
    assert f"all of it is in {file}: `read` it with offset and limit" in first
    assert again == first


def test_result_is_truncated_when_spilling_fails():
    def full(call_id: str, text: str) -> str:
        raise OSError("no space")

    sent = ResultBudget(100, relay=full).apply((user_text("go"), *batch(1_000)))
    assert "could not be kept" in sent[-1].text  # type: ignore[union-attr]


def test_images_in_truncated_result_are_kept():
    image = ImageBlock(asset_id="i", media_type="image/png")
    large = ToolResultMessage(
        tool_call_id="c0", tool_name="read", content=(image, TextBlock("x" * 900))
    )
    sent = ResultBudget(100).apply((*batch(1)[:1], large))
    assert sent[1].content[0] is image  # type: ignore[union-attr]
    assert kept_chars(sent[1]) == 100


@settings(max_examples=size(25, 60))
@given(st.lists(st.lists(st.integers(0, 400), max_size=4), max_size=6), st.data())
def test_truncated_results_stay_the_same_as_history_grows(
    sizes: list[list[int]], data: st.DataObject
):
    messages: tuple[Message, ...] = (user_text("go"),)
    for each in sizes:
        messages += tuple(batch(*each))
    budget = ResultBudget(300)
    ends = sorted(data.draw(st.lists(st.integers(0, len(messages)), max_size=4)))
    # A batch is truncated only when all its results are there.
    ends = [end for end in ends if end == len(messages) or messages[end].role == "assistant"]
    earlier = [tuple(budget.apply(messages[:end])) for end in ends]

    final = tuple(budget.apply(messages))

    assert len(final) == len(messages)
    assert all(final[: len(sent)] == sent for sent in earlier)
    assert final == tuple(ResultBudget(300).apply(messages))
    other = (user_text("other"), *messages[1:])
    assert tuple(budget.apply(other))[1:] == final[1:]
