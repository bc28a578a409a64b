"""History as a model sees it, unless a `convert_to_llm` hook says otherwise."""

from collections.abc import Sequence
from dataclasses import replace

from dirge_py.types.messages import AssistantMessage, CustomMessage, Message, TextBlock, UserMessage

GUIDANCE = "[Guidance for the current task, not a new task. Take it into account and go on.]\n"


def default_convert_to_llm(messages: Sequence[Message]) -> list[Message]:
    """Drop what no model reads, and mark steering as guidance.

    The mark is added here and not stored, so history keeps the words that were typed. An assistant
    message without content (aborted before its first word) is left out: services reject it. So is
    one that a guardrail withheld.
    """
    return [_as_guidance(message) for message in messages if _is_for_models(message)]


class Converter:
    """`default_convert_to_llm` for a history that grows: what was converted before stays so."""

    def __init__(self) -> None:
        self._given: tuple[Message, ...] = ()
        self._converted: list[Message] = []

    def convert(self, messages: Sequence[Message]) -> Sequence[Message]:
        given = tuple(messages)
        known = len(self._given)
        if given[:known] != self._given:
            known, self._converted = 0, []
        self._converted += default_convert_to_llm(given[known:])
        self._given = given
        return tuple(self._converted)


def _is_for_models(message: Message) -> bool:
    if isinstance(message, AssistantMessage):
        return bool(message.content) and not message.withheld
    return not isinstance(message, CustomMessage)


def _as_guidance(message: Message) -> Message:
    if not isinstance(message, UserMessage) or message.origin != "steering":
        return message
    first, *rest = message.content or (TextBlock(""),)
    if isinstance(first, TextBlock):
        return replace(message, content=(TextBlock(GUIDANCE + first.text), *rest))
    return replace(message, content=(TextBlock(GUIDANCE), first, *rest))
