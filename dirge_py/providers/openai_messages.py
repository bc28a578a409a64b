"""The messages of a Chat Completions request."""

import json
from collections.abc import Sequence
from typing import Any

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.providers.assets import Asset, Assets
from dirge_py.providers.dialect import Dialect
from dirge_py.providers.history import Sendable, own, sendable
from dirge_py.providers.memory import Memory
from dirge_py.providers.openai_reasoning import details_of
from dirge_py.providers.shown import Shown, result_texts, with_shown
from dirge_py.types.llm import LlmContext
from dirge_py.types.messages import (
    AssistantMessage,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
    joined_text,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessages:
    """Writes history for `model` of the service `alias`, which speaks `dialect`."""

    alias: str
    model: str
    dialect: Dialect
    assets: Assets
    memory: Memory

    def written(self, context: LlmContext, system_role: str) -> list[dict[str, Any]]:
        """What `memory` knows of the last request is the very object it was then."""
        messages: list[dict[str, Any]] = []
        if context.system_prompt.strip():
            messages.append({"role": system_role, "content": context.system_prompt})
        for entry in with_shown(self._history(context)):
            match entry:
                case AssistantMessage() if not (entry.text or entry.calls):
                    pass  # nothing but what another service folded
                case Shown():
                    messages.append(self._seen([entry.title, *entry.assets]))
                case UserMessage() if not _is_text(entry):
                    # Read anew: an asset's file may be gone by now, and is too large to keep.
                    messages.append(self._seen(entry.content))
                case _:
                    messages.append(self.memory.of(entry, self._message))
        return messages

    def _seen(self, blocks: Sequence[TextBlock | Asset]) -> dict[str, Any]:
        parts = [_part(b, self.assets) for b in blocks if not isinstance(b, TextBlock) or b.text]
        return {"role": "user", "content": parts}

    def _history(self, context: LlmContext) -> list[Sendable]:
        back = self.dialect.thinking_back
        # Details are sealed by whoever made the model.
        model = self.model if back == "reasoning_details" else ""
        return sendable(
            own(context.messages, self.alias, model) if back else context.messages,
            unsigned=back in {"reasoning_content", "reasoning"},
            call_id_chars=self.dialect.call_id_chars,
        )

    def _message(self, message: Sendable) -> dict[str, Any]:
        match message:
            case UserMessage():
                return {"role": "user", "content": message.text}
            case AssistantMessage():
                return self._assistant(message)
            case ToolResultMessage():
                return {
                    "role": "tool",
                    "tool_call_id": message.tool_call_id,
                    "content": "\n".join(result_texts(message)),
                }

    def _assistant(self, message: AssistantMessage) -> dict[str, Any]:
        text = joined_text(message.content) or None
        written: dict[str, Any] = {"role": "assistant", "content": text}
        thoughts = [block for block in message.content if isinstance(block, ThinkingBlock)]
        match self.dialect.thinking_back:
            case "reasoning_content" | "reasoning" as name:
                thinking = "".join(thought.text for thought in thoughts)
                # DeepSeek asks for it in every message, also where it is empty.
                if thinking or name == "reasoning_content":
                    written[name] = thinking
            case "reasoning_details" as name:
                details = [one for thought in thoughts for one in details_of(thought.signature)]
                if details:
                    written[name] = details
        calls = [_call(call) for call in message.calls]
        if calls:
            written["tool_calls"] = calls
        return written


def _is_text(message: UserMessage) -> bool:
    return all(isinstance(block, TextBlock) for block in message.content)


def _call(call: ToolCallBlock) -> dict[str, Any]:
    arguments = call.arguments
    if not isinstance(arguments, dict):
        # Servers that render prompts from templates parse this; what did not parse is wrapped.
        arguments = {"unparsed": arguments}
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": json.dumps(arguments, ensure_ascii=False)},
    }


def _part(block: TextBlock | Asset, assets: Assets) -> dict[str, Any]:
    if isinstance(block, TextBlock):
        return {"type": "text", "text": block.text}
    encoded = assets.encoded(block)
    if encoded is None:
        return {"type": "text", "text": assets.missing(block)}
    url = f"data:{block.media_type};base64,{encoded}"
    if isinstance(block, ImageBlock):
        return {"type": "image_url", "image_url": {"url": url}}
    file = {"filename": block.name or "document.pdf", "file_data": url}
    return {"type": "file", "file": file}
