"""What a history already holds of an answer after a schema: values, and how often one was missing.

All of it is read from the messages, so that it holds for a run that is taken turn by turn.
"""

from collections.abc import Sequence

from dirge_py.agent_loop.answer_schema import TOOL, AnswerSchema, Found
from dirge_py.agent_loop.argument_errors import cut_json
from dirge_py.types.messages import AssistantMessage, Message, ToolResultMessage, UserMessage

ASKED = "The result is not there yet. "
"""Begins every message that asks for it, which are counted by this."""

_LONGEST = 2000
_NOT_TAKEN = ("it was not taken, or more was asked afterwards",)


class GivenAnswers:
    """Looks through histories for answers after one schema."""

    def __init__(self, schema: AnswerSchema) -> None:
        self._schema = schema

    def found(self, messages: Sequence[Message]) -> Found | None:
        """The last value that fits, of those since anybody said something to the model."""
        for message in reversed(messages):
            if isinstance(message, UserMessage):
                return None
            if isinstance(message, ToolResultMessage):
                found = self._submitted(message)
            elif isinstance(message, AssistantMessage) and _is_answer(message):
                found = self._schema.of_text(message.text)
            else:
                continue
            if found is not None and not found.problems:
                return found
        return None

    def failures(self, messages: Sequence[Message]) -> int:
        """How often the model has been told since the prompt that its result will not do.

        Several calls of one answer were told together.
        """
        failures, is_new = 0, True
        for message in _since_prompt(messages):
            if isinstance(message, AssistantMessage):
                is_new = True
            elif isinstance(message, UserMessage):
                failures += _is_ask(message)
            elif isinstance(message, ToolResultMessage) and is_failed(message):
                failures += is_new
                is_new = False
        return failures

    def last(self, messages: Sequence[Message]) -> tuple[str, Sequence[str]]:
        """What was said last in place of a result, and what is wrong with it; "" for nothing."""
        for message in reversed(_since_prompt(messages)):
            if not isinstance(message, AssistantMessage) or message.origin != "model":
                continue
            calls = [call for call in message.calls if call.name == TOOL]
            if calls:
                arguments = calls[-1].arguments
                text = arguments if isinstance(arguments, str) else cut_json(arguments, _LONGEST)
                return text, self._schema.of_arguments(arguments).problems or _NOT_TAKEN
            if message.text.strip() and not message.withheld:
                return message.text, self._schema.of_text(message.text).problems or _NOT_TAKEN
        return "", ()

    def _submitted(self, message: ToolResultMessage) -> Found | None:
        if message.tool_name != TOOL or message.is_error or "submitted" not in message.details:
            return None
        return self._schema.look_at(message.details["submitted"])


def _since_prompt(messages: Sequence[Message]) -> Sequence[Message]:
    """What came after a person's last words, oldest first."""
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        if isinstance(message, UserMessage) and message.origin not in ("harness", "plugin"):
            return messages[at + 1 :]
    return messages


def _is_answer(message: AssistantMessage) -> bool:
    is_whole = message.stop_reason not in ("error", "aborted") and not message.withheld
    return is_whole and message.origin == "model" and not message.calls


def last_text(messages: Sequence[Message]) -> str:
    """The last answer in words, "" if there is none."""
    answers = (each for each in reversed(messages) if isinstance(each, AssistantMessage))
    return next((each.text for each in answers if _is_answer(each)), "")


def _is_ask(message: UserMessage) -> bool:
    return message.origin == "harness" and message.text.startswith(ASKED)


def is_failed(message: ToolResultMessage) -> bool:
    """Whether it says that a submitted value will not do."""
    return message.tool_name == TOOL and message.is_error
