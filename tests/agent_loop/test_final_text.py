"""What a run says in the end."""

import pytest

from dirge_py.agent_loop.history import final_text
from dirge_py.types.messages import AssistantMessage, TextBlock, ToolCallBlock, user_text

NUDGE = user_text("Test it.", origin="harness")
PROMPT = user_text("go")
CALL = ToolCallBlock(id="c", name="read", arguments={})


def said(text, **more):
    return AssistantMessage(content=(TextBlock(text),), **more)


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([PROMPT], ""),
        ([PROMPT, said("a")], "a"),
        ([PROMPT, said("a"), PROMPT, said("b")], "b"),
        ([PROMPT, said("report"), NUDGE, said("tests pass")], "report\n\ntests pass"),
        ([PROMPT, said("report"), NUDGE, said("report")], "report"),
        ([PROMPT, said("report"), NUDGE, AssistantMessage(stop_reason="error")], "report"),
        ([PROMPT, said("half", stop_reason="length"), NUDGE, said(" and half")], "half and half"),
        ([PROMPT, said("wait", stop_reason="pause_turn"), said("done")], "done"),
        ([PROMPT, said("a"), NUDGE, said("Stopped.", origin="harness")], "a\n\nStopped."),
        ([PROMPT, said("a"), NUDGE, said("secret", withheld="x")], ""),
        ([PROMPT, AssistantMessage(content=(TextBlock("look"), CALL))], "look"),
    ],
)
def test_the_last_words_of_a_run(messages, words):
    assert final_text(messages) == words
