"""The final text of a run."""

import pytest

from dirge_py.agent_loop.history import final_text
from dirge_py.types.messages import AssistantMessage, TextBlock, ToolCallBlock, user_text

NUDGE = user_text("Test it.", origin="harness")
PROMPT = user_text("go")
CALL = ToolCallBlock(id="c", name="read", arguments={})


def assistant_text(text, **more):
    return AssistantMessage(content=(TextBlock(text),), **more)


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([PROMPT], ""),
        ([PROMPT, assistant_text("a")], "a"),
        ([PROMPT, assistant_text("a"), PROMPT, assistant_text("b")], "b"),
        (
            [PROMPT, assistant_text("report"), NUDGE, assistant_text("tests pass")],
            "report\n\ntests pass",
        ),
        ([PROMPT, assistant_text("report"), NUDGE, assistant_text("report")], "report"),
        (
            [PROMPT, assistant_text("report"), NUDGE, AssistantMessage(stop_reason="error")],
            "report",
        ),
        (
            [
                PROMPT,
                assistant_text("half", stop_reason="length"),
                NUDGE,
                assistant_text(" and half"),
            ],
            "half and half",
        ),
        (
            [
                PROMPT,
                assistant_text("half", stop_reason="error"),
                NUDGE,
                assistant_text(" and half"),
            ],
            "half and half",
        ),
        (
            [
                PROMPT,
                assistant_text("half", stop_reason="length"),
                NUDGE,
                AssistantMessage(content=(TextBlock("look"), CALL)),
                assistant_text("report"),
            ],
            "half\n\nreport",
        ),
        (
            [PROMPT, assistant_text("wait", stop_reason="pause_turn"), assistant_text("done")],
            "done",
        ),
        (
            [PROMPT, assistant_text("a"), NUDGE, assistant_text("Stopped.", origin="harness")],
            "a\n\nStopped.",
        ),
        ([PROMPT, assistant_text("a"), NUDGE, assistant_text("secret", withheld="x")], ""),
        ([PROMPT, AssistantMessage(content=(TextBlock("look"), CALL))], "look"),
    ],
)
def test_final_text_joins_the_last_answers_of_a_run(messages, words):
    assert final_text(messages) == words
