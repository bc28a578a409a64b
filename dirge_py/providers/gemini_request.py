"""A generateContent request: roles that alternate, signatures where they were, Gemini's schemas."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dirge_py.providers.adapter import Call
from dirge_py.providers.assets import Asset, assets_for
from dirge_py.providers.gemini_schema import parameters_schema, response_schema
from dirge_py.providers.gemini_signatures import SKIP, Seal, unsealed
from dirge_py.providers.gemini_thinking import Family, family_of, thinking_config
from dirge_py.providers.history import own, sendable
from dirge_py.providers.shown import Shown, result_texts, with_shown
from dirge_py.types.llm import NamedTool, ToolChoice, ToolSpec
from dirge_py.types.messages import (
    AssistantMessage,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)

MADE_UP = "unnamed_"
"""What the ids begin with that we gave to calls which came without one."""

_PICTURES = frozenset({"image/png", "image/jpeg", "image/webp"})
_LONGEST_REPLY = 65_536

Part = dict[str, Any]


def content_request(call: Call) -> dict[str, Any]:
    """The request's JSON. Equal prefixes of history give equal prefixes of JSON, for caches."""
    context, options = call.context, call.options
    body: dict[str, Any] = {}
    if context.system_prompt.strip():
        body["systemInstruction"] = {"parts": [{"text": context.system_prompt}]}
    if context.tools:
        body["tools"] = [
            {"functionDeclarations": [call.memory.of(tool, _declared) for tool in context.tools]}
        ]
        if options.tool_choice != "auto":
            body["toolConfig"] = {"functionCallingConfig": _calling(options.tool_choice)}
    body["contents"] = _Contents(call).written()
    generation = _generation(call)
    if generation:
        body["generationConfig"] = generation
    return body


def _declared(tool: ToolSpec) -> dict[str, Any]:
    declared: dict[str, Any] = {"name": tool.name, "description": tool.description}
    parameters = parameters_schema(tool.parameters)
    return declared if parameters is None else {**declared, "parameters": parameters}


def _calling(choice: ToolChoice) -> dict[str, Any]:
    if isinstance(choice, NamedTool):
        return {"mode": "ANY", "allowedFunctionNames": [choice.name]}
    return {"mode": {"none": "NONE", "required": "ANY"}.get(choice, "AUTO")}


def _generation(call: Call) -> dict[str, Any]:
    """How to answer. The limit covers thinking, too, so what thinking may take comes on top."""
    options, family = call.options, family_of(call.model)
    config, budget = thinking_config(
        call.model, call.card, options.thinking_level, options.thinking_budgets
    )
    generation: dict[str, Any] = {}
    if call.max_output_tokens is not None:
        most = call.card.max_output_tokens or _LONGEST_REPLY
        generation["maxOutputTokens"] = min(call.max_output_tokens + budget, most)
        if config.get("thinkingBudget", 0) > most // 2:
            config["thinkingBudget"] = most // 2
    if config:
        generation["thinkingConfig"] = config
    # Models before the third generation refuse a schema while tools are offered.
    takes_both = family is not None and family.has_levels
    if options.response_schema is not None and (takes_both or not call.context.tools):
        generation["responseMimeType"] = "application/json"
        generation["responseSchema"] = response_schema(options.response_schema.schema)
    return generation


class _Contents:
    """`contents` under construction."""

    def __init__(self, call: Call) -> None:
        self._history = sendable(own(call.context.messages, call.settings.alias))
        self._alias = call.settings.alias
        family = family_of(call.model)
        self._family: Family | str = family or call.model
        self._wants_signatures = family is not None and family.has_levels
        assets = assets_for(call.card, call.context.asset_dir)
        self._assets = assets if family is None else replace(assets, reads_documents=True)
        self._contents: list[dict[str, Any]] = []
        self._named: set[str] = set()
        """The ids of calls that the service gave: only these it wants back."""

    def written(self) -> list[dict[str, Any]]:
        """All of it. Results that follow each other, and what follows them, are one content.

        What results show stands behind the last of them: the service counts results to calls.
        """
        for entry in with_shown(self._history):
            match entry:
                case UserMessage():
                    self._append("user", self._said(entry))
                case ToolResultMessage():
                    self._append("user", [self._result(entry)])
                case Shown():
                    self._append("user", [self._shown(asset) for asset in entry.assets])
                case AssistantMessage():
                    self._append("model", self._answered(entry))
        if self._contents and self._contents[0]["role"] == "model":
            beginning = {"role": "user", "parts": [{"text": "[The beginning is left out.]"}]}
            self._contents.insert(0, beginning)
        return self._contents

    def _append(self, role: str, parts: Sequence[Part]) -> None:
        if not parts:
            return
        if self._contents and self._contents[-1]["role"] == role:
            self._contents[-1]["parts"] += parts
        else:
            self._contents.append({"role": role, "parts": list(parts)})

    def _said(self, message: UserMessage) -> list[Part]:
        return [
            {"text": block.text} if isinstance(block, TextBlock) else self._shown(block)
            for block in message.content
            if not isinstance(block, TextBlock) or block.text.strip()
        ]

    def _shown(self, asset: Asset) -> Part:
        if isinstance(asset, ImageBlock) and asset.media_type not in _PICTURES:
            return {"text": f"[A picture ({asset.media_type}) was here; you cannot read its kind.]"}
        encoded = self._assets.encoded(asset)
        if encoded is None:
            return {"text": self._assets.missing(asset)}
        return {"inlineData": {"mimeType": asset.media_type, "data": encoded}}

    def _result(self, message: ToolResultMessage) -> Part:
        words = "\n".join(result_texts(message))
        response: Part = {"name": message.tool_name}
        if message.tool_call_id in self._named:
            response["id"] = message.tool_call_id
        response["response"] = {"error" if message.is_error else "output": words}
        return {"functionResponse": response}

    def _answered(self, message: AssistantMessage) -> list[Part]:
        is_own = self._is_kin(message.model)
        answered = _Answered(is_own=is_own, wants_signatures=self._wants_signatures)
        for block in message.content:
            match block:
                case TextBlock():
                    answered.text(block.text)
                case ThinkingBlock():
                    answered.thinking(block)
                case ToolCallBlock():
                    is_named = is_own and not block.id.startswith(MADE_UP)
                    if is_named:
                        self._named.add(block.id)
                    answered.call(block, is_named=is_named)
                case _:
                    pass  # what another service folded
        return answered.parts

    def _is_kin(self, model: str) -> bool:
        """Whether `alias/id` is the model asked now, or one so close that both read the same."""
        whose, is_told, name = model.partition("/")
        if not is_told:
            return True
        return whose == self._alias and (family_of(name) or name) == self._family


class _Answered:
    """The parts of one answer as they came: each signature on the part it came on."""

    def __init__(self, *, is_own: bool, wants_signatures: bool) -> None:
        self.parts: list[Part] = []
        self._is_own = is_own
        self._wants_signatures = wants_signatures
        self._for_call = ""
        self._has_calls = False

    def text(self, text: str) -> None:
        self._for_call = ""
        self.parts.append({"text": text})

    def thinking(self, block: ThinkingBlock) -> None:
        """Put signatures back. Where what they were on was cut since, they mean nothing."""
        self._for_call = ""
        seal = unsealed(block.signature) if self._is_own else None
        if seal is None:
            return
        if seal.on == "call":
            self._for_call = seal.pieces[0].signature
        elif seal.on == "thought":
            if len(block.text) == seal.length:
                signed = [part for part in _split(block.text, seal) if "thoughtSignature" in part]
                self.parts += [{"thought": True, **part} for part in signed]
        elif seal.length == 0:
            self.parts += _split("", seal)
        elif self.parts and len(self.parts[-1].get("text", "")) == seal.length:
            self.parts[-1:] = _split(self.parts[-1]["text"], seal)

    def call(self, block: ToolCallBlock, *, is_named: bool) -> None:
        """Of calls made at once only the first is signed, and only that one has to be."""
        arguments = block.arguments
        if not isinstance(arguments, Mapping):
            # What did not parse is wrapped: only an object is accepted here.
            arguments = {"unparsed": arguments}
        named = {"id": block.id} if is_named else {}
        part: Part = {"functionCall": {**named, "name": block.name, "args": arguments}}
        signature = self._for_call
        if not (signature or self._has_calls) and self._wants_signatures:
            signature = SKIP
        if signature:
            part["thoughtSignature"] = signature
        self._for_call, self._has_calls = "", True
        self.parts.append(part)


def _split(text: str, seal: Seal) -> list[Part]:
    parts: list[Part] = []
    for piece in seal.all_pieces():
        part: Part = {"text": text[piece.start : piece.end]}
        if piece.signature:
            part["thoughtSignature"] = piece.signature
        parts.append(part)
    return parts
