"""Estimates of input tokens, guessed high."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from dirge_py.lib.identity_cache import IdentityCache
from dirge_py.types.messages import (
    AssistantBlock,
    AssistantMessage,
    CompactionBlock,
    CustomMessage,
    DocumentBlock,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    UserBlock,
)
from dirge_py.types.tools import LoopTool

_MESSAGE_TOKENS = 4
_LEAST_FACTOR, _MOST_FACTOR = 0.5, 3.0

# English and code have about 4 bytes per token; 3.5 covers denser text. Counting bytes instead of
# characters keeps the estimate high for scripts whose characters are a token each.
_BYTES_PER_TOKEN = 3.5
# What a service with the usual 1568-pixel limit takes for a picture that reaches it; 300 is right
# for an icon only, and screenshots are what people attach.
_IMAGE_TOKENS = 1600
_DOCUMENT_TOKENS = 500


class TokenCounter:
    """Estimates tokens by size (`ratio` bytes of UTF-8 each), corrected by services' reports.

    By default the estimates are too high rather than too low.
    """

    def __init__(self, ratio: float = _BYTES_PER_TOKEN) -> None:
        self.ratio = ratio
        self.factor = 1.0
        """The correction of a count: the last reported size divided by its estimate."""
        self._messages: dict[int, tuple[Message, int]] = {}
        self.tool: IdentityCache[int] = IdentityCache(
            lambda tool: self.text(tool.name + tool.description + _as_json(tool.parameters))
        )
        """Returns the count of one tool's name, description and schema."""
        self._prompt = ("", 0)

    def calibrate(self, estimated: int, reported: int) -> None:
        """Learn from one request that `count` estimated; the factor stays between 0.5 and 3."""
        if estimated > 0 and reported > 0:
            self.factor = min(_MOST_FACTOR, max(_LEAST_FACTOR, reported / estimated))

    def corrected(self, tokens: int) -> int:
        """Return the count corrected by `factor`, as a service would report it."""
        return round(tokens * self.factor)

    def count(
        self,
        messages: Sequence[Message] = (),
        *,
        system_prompt: str = "",
        tools: Sequence[LoopTool] = (),
    ) -> int:
        """Return the tokens of one request by size alone, thinking and schemas included."""
        if self._prompt[0] is not system_prompt:
            self._prompt = (system_prompt, self.text(system_prompt))
        fixed = self._prompt[1] + sum(map(self.tool, tools))
        return fixed + sum(self.sizes(messages))

    def sizes(self, messages: Sequence[Message]) -> list[int]:
        """Return the count of each message."""
        known = self._messages
        if len(known) > 2 * len(messages) + 1000:
            known.clear()
        sizes = []
        for message in messages:
            entry = known.get(id(message))
            # The entry keeps its message alive, so that no other can get the same identity.
            if entry is None:
                entry = known[id(message)] = (message, self._message(message))
            sizes.append(entry[1])
        return sizes

    def text(self, text: str) -> int:
        """Return the count of a text: its bytes by `ratio`, rounded up."""
        size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        return -int(-size // self.ratio)

    def _message(self, message: Message) -> int:
        is_empty = isinstance(message, AssistantMessage) and not message.content
        if isinstance(message, CustomMessage) or is_empty:
            return 0
        return _MESSAGE_TOKENS + sum(map(self._block, message.content))

    def _block(self, block: UserBlock | AssistantBlock) -> int:
        match block:
            case TextBlock():
                return self.text(block.text)
            case ThinkingBlock():
                return self.text(block.text + (block.redacted or ""))
            case ToolCallBlock():
                return self.text(block.name + _as_json(block.arguments))
            case ImageBlock() if block.media_type.startswith("image/"):
                return _IMAGE_TOKENS
            case ImageBlock() | DocumentBlock():
                return _DOCUMENT_TOKENS
            case CompactionBlock():
                return self.text(_as_json(dict(block.data)))


def estimate_text(text: str) -> int:
    """Return the tokens of a text, 1 per 3.5 bytes of UTF-8, rounded up."""
    return TokenCounter().text(text)


def _as_json(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(
        value,
        ensure_ascii=False,
        default=lambda each: dict(each) if isinstance(each, Mapping) else repr(each),
        separators=(",", ":"),
    )
