"""A chat request as Ollama reads it: calls with whole arguments, pictures beside the text."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dirge_py.providers.adapter import Call
from dirge_py.providers.assets import Asset, Assets, assets_for
from dirge_py.providers.history import Sendable, own, sendable
from dirge_py.providers.shown import Shown, result_texts, with_shown
from dirge_py.providers.thinking import effort
from dirge_py.types.llm import NamedTool, StreamOptions, ThinkingLevel, ToolSpec
from dirge_py.types.messages import (
    AssistantMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
    joined_text,
)

_SECONDS = re.compile(r"-?\d+")


def chat_request(call: Call) -> dict[str, Any]:
    """The request's JSON.

    A prompt that does not fit is to be refused (`truncate`), and an answer that does not fit is to
    end (`shift`): unasked, the server drops what is oldest and tells nobody. Servers older than
    these two members read over them.
    """
    options = call.options
    assets = replace(assets_for(call.card, call.context.asset_dir), reads_documents=False)
    body: dict[str, Any] = {"model": call.model, "messages": _messages(call, assets)}
    tools = _offered(call.context.tools, options)
    if tools:
        body["tools"] = [_tool(tool) for tool in tools]
    body |= {"stream": True, "truncate": False, "shift": False}
    body |= _think(options.thinking_level, call.model)
    if options.response_schema is not None:
        body["format"] = dict(options.response_schema.schema)
    if call.settings.keep_alive is not None:
        body["keep_alive"] = _duration(call.settings.keep_alive)
    limits = _limits(call)
    if limits:
        body["options"] = limits
    return body


def _offered(tools: Sequence[ToolSpec], options: StreamOptions) -> Sequence[ToolSpec]:
    """The tools to send: this interface can force no call, but it can offer fewer tools."""
    match options.tool_choice:
        case "none":
            return ()
        case NamedTool(name):
            return [tool for tool in tools if tool.name == name]
        case _:
            return tools


def _think(level: ThinkingLevel, model: str) -> Mapping[str, Any]:
    """Whether to think. Unasked, a model that can think does; to be told not to hurts none.

    gpt-oss alone knows more than yes and no, and cannot leave it.
    """
    if "gpt-oss" in model.lower():
        return {} if level == "off" else {"think": effort(level)}
    return {"think": level != "off"}


def _limits(call: Call) -> Mapping[str, int]:
    """How much may go in and come out. The server serves a few thousand tokens where none says.

    A window that nobody told of is not made up: one too large would not fit into memory.
    """
    limits = {}
    if call.card.window_tokens is not None:
        limits["num_ctx"] = call.card.window_tokens
    if call.max_output_tokens is not None:
        limits["num_predict"] = call.max_output_tokens
    return limits


def _duration(keep_alive: str) -> str | int:
    """Seconds are a number to the server; in a string it wants a unit, except behind 0."""
    is_number = _SECONDS.fullmatch(keep_alive) and keep_alive != "0"
    return int(keep_alive) if is_number else keep_alive


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": dict(tool.parameters),
        },
    }


def _messages(call: Call, assets: Assets) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    if call.context.system_prompt.strip():
        messages.append({"role": "system", "content": call.context.system_prompt})
    history = own(call.context.messages, call.settings.alias)
    for entry in with_shown(sendable(history, unsigned=True)):
        match entry:
            case AssistantMessage() if not (entry.text or entry.calls):
                pass  # nothing but what another service folded
            case Shown():
                messages.append(_with_pictures([entry.title, *entry.assets], assets))
            case UserMessage() if not _is_text(entry):
                # Read anew: an asset's file may be gone by now, and is too large to keep.
                messages.append(_with_pictures(entry.content, assets))
            case _:
                messages.append(call.memory.of(entry, _message))
    return messages


def _is_text(message: UserMessage) -> bool:
    return all(isinstance(block, TextBlock) for block in message.content)


def _message(message: Sendable) -> dict[str, Any]:
    match message:
        case UserMessage():
            return {"role": "user", "content": message.text}
        case AssistantMessage():
            return _assistant(message)
        case ToolResultMessage():
            # Pictures come behind the turn's last result: not every model looks here.
            return {
                "role": "tool",
                "tool_name": message.tool_name,
                "tool_call_id": message.tool_call_id,
                "content": "\n".join(result_texts(message)),
            }


def _assistant(message: AssistantMessage) -> dict[str, Any]:
    written: dict[str, Any] = {"role": "assistant", "content": joined_text(message.content)}
    thinking = "".join(b.text for b in message.content if isinstance(b, ThinkingBlock))
    if thinking:
        written["thinking"] = thinking
    calls = [_call(call) for call in message.calls]
    if calls:
        written["tool_calls"] = calls
    return written


def _call(call: ToolCallBlock) -> dict[str, Any]:
    arguments = call.arguments if isinstance(call.arguments, dict) else {"unparsed": call.arguments}
    return {"id": call.id, "function": {"name": call.name, "arguments": arguments}}


def _with_pictures(blocks: Sequence[TextBlock | Asset], assets: Assets) -> dict[str, Any]:
    """A user's message: its text, and all pictures in their order."""
    texts, pictures = [], []
    for block in blocks:
        if isinstance(block, TextBlock):
            texts.append(block.text)
        elif (encoded := assets.encoded(block)) is not None:
            pictures.append(encoded)
        else:
            texts.append(assets.missing(block))
    written: dict[str, Any] = {"role": "user", "content": "\n".join(t for t in texts if t)}
    if pictures:
        written["images"] = pictures
    return written
