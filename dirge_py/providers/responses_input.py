"""The `input` of a Responses request: history as a list of items."""

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.providers.assets import Asset, Assets
from dirge_py.providers.history import Sendable, own, sendable
from dirge_py.providers.memory import Memory
from dirge_py.providers.responses_seal import sealed, sendable_reasoning, unsealed
from dirge_py.types.llm import LlmContext
from dirge_py.types.messages import (
    AssistantMessage,
    CompactionBlock,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
    joined_text,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputItems:
    """Writes history for the service `alias`. `unreadable` are seals that it refused before.

    Without `with_thoughts` what models thought stays away: one that does not think refuses it.
    """

    alias: str
    assets: Assets
    memory: Memory
    unreadable: Collection[str] = ()
    with_thoughts: bool = True

    def written(self, context: LlmContext) -> list[dict[str, Any]]:
        """What `memory` knows of the last request are the very objects they were then."""
        items: list[dict[str, Any]] = []
        history = own(context.messages, self.alias)
        if self.unreadable or not self.with_thoughts:
            history = [self._readable(message) for message in history]
        for message in sendable(history):
            if isinstance(message, AssistantMessage) or _is_text(message.content):
                items += self.memory.of(message, self._items)
            else:
                # Read anew: an asset's file may be gone by now, and is too large to keep.
                items += self._items(message)
        return items

    def _readable(self, message: Message) -> Message:
        if not isinstance(message, AssistantMessage):
            return message
        content = tuple(
            block
            for block in message.content
            if _seal(block) not in self.unreadable
            and (self.with_thoughts or not isinstance(block, ThinkingBlock))
        )
        return message if content == message.content else replace(message, content=content)

    def _items(self, message: Sendable) -> list[dict[str, Any]]:
        match message:
            case UserMessage():
                return [{"role": "user", "content": self._content(message.content)}]
            case ToolResultMessage():
                output = self._content(message.content) or "(no output)"
                return [
                    {
                        "type": "function_call_output",
                        "call_id": message.tool_call_id,
                        "output": output,
                    }
                ]
            case AssistantMessage():
                return list(_answer(message))

    def _content(self, blocks: Sequence[TextBlock | Asset]) -> str | list[dict[str, Any]]:
        if _is_text(blocks):
            return joined_text(tuple(blocks))
        return [self._part(b) for b in blocks if not isinstance(b, TextBlock) or b.text]

    def _part(self, block: TextBlock | Asset) -> dict[str, Any]:
        if isinstance(block, TextBlock):
            return {"type": "input_text", "text": block.text}
        encoded = self.assets.encoded(block)
        if encoded is None:
            return {"type": "input_text", "text": self.assets.missing(block)}
        url = f"data:{block.media_type};base64,{encoded}"
        if isinstance(block, ImageBlock):
            return {"type": "input_image", "detail": "auto", "image_url": url}
        return {
            "type": "input_file",
            "filename": block.name or "document.pdf",
            "file_data": url,
        }


def seals_of(messages: Sequence[Message], alias: str) -> Iterator[str]:
    """Every seal that a request with `messages` carries to the service `alias`."""
    for message in own(messages, alias):
        if isinstance(message, AssistantMessage):
            yield from filter(None, map(_seal, message.content))


def _seal(block: object) -> str | None:
    if isinstance(block, CompactionBlock):
        return sealed(block.data)
    return block.signature if isinstance(block, ThinkingBlock) else None


def _answer(message: AssistantMessage) -> Iterator[dict[str, Any]]:
    """The items of one answer. What was thought goes only before what it led to."""
    thoughts: list[dict[str, Any]] = []
    for block, behind in zip(message.content, (*message.content[1:], None), strict=True):
        match block:
            case ThinkingBlock():
                item = unsealed(block.signature)
                thought = sendable_reasoning(item) if item else None
                if item and thought and item["type"] == "reasoning":
                    thoughts.append(thought)
                continue
            case TextBlock():
                written = {"role": "assistant", "content": block.text, **_phase(behind)}
            case ToolCallBlock():
                written = _call(block)
            case CompactionBlock():
                if not block.data.get("encrypted_content") or "content" in block.data:
                    continue  # folded by a service that speaks another format
                written = dict(block.data)
        yield from thoughts
        thoughts = []
        yield written


def _phase(behind: object) -> dict[str, Any]:
    item = unsealed(behind.signature) if isinstance(behind, ThinkingBlock) else None
    return {"phase": item["phase"]} if item and item.get("phase") else {}


def _call(call: ToolCallBlock) -> dict[str, Any]:
    # What did not parse is wrapped: only an object is accepted here.
    arguments = call.arguments if isinstance(call.arguments, dict) else {"unparsed": call.arguments}
    return {
        "type": "function_call",
        "call_id": call.id,
        "name": call.name,
        "arguments": json.dumps(arguments, ensure_ascii=False),
    }


def _is_text(blocks: Sequence[TextBlock | Asset]) -> bool:
    return all(isinstance(block, TextBlock) for block in blocks)
