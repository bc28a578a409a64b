"""Google's Gemini through `generateContent`, the interface of its API keys: provider and requests.

In a request the roles alternate, thought signatures return to their place, tools have Gemini's kind
of schema (`gemini_schema.py`), and each family of models has its own thinking levels.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import quote

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.providers.adapter import (
    ApiFormat,
    ModelCall,
    call_arguments,
    make_stream_fn,
    sendable_history,
)
from dirge_py.providers.catalog import thinking_budget
from dirge_py.providers.gemini_schema import parameters_schema, response_schema
from dirge_py.providers.gemini_stream import (
    MADE_UP_ID,
    SKIP_VALIDATION,
    GeminiParser,
    Signatures,
    unpack_signatures,
)
from dirge_py.providers.media import Asset, ToolMedia, asset_encoder, result_texts, with_tool_media
from dirge_py.providers.registry import Provider
from dirge_py.types.llm import NamedTool, ToolSpec
from dirge_py.types.messages import (
    AssistantMessage,
    CompactionBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)

_PICTURES = frozenset({"image/png", "image/jpeg", "image/webp"})
_LONGEST_REPLY = 65_536
Part = dict[str, Any]


def content_request(call: ModelCall) -> dict[str, Any]:
    """The request's JSON. Equal prefixes of history give equal prefixes of JSON, for caches."""
    context, options = call.context, call.options
    body: dict[str, Any] = {}
    if context.system_prompt.strip():
        body["systemInstruction"] = {"parts": [{"text": context.system_prompt}]}
    if context.tools:
        declarations = [call.json_cache.of(tool, _declaration) for tool in context.tools]
        body["tools"] = [{"functionDeclarations": declarations}]
        choice = options.tool_choice
        if isinstance(choice, NamedTool):
            calling = {"mode": "ANY", "allowedFunctionNames": [choice.name]}
            body["toolConfig"] = {"functionCallingConfig": calling}
        elif choice != "auto":
            mode = "NONE" if choice == "none" else "ANY"
            body["toolConfig"] = {"functionCallingConfig": {"mode": mode}}
    body["contents"] = _Contents(call).written()
    generation = _generation(call)
    if generation:
        body["generationConfig"] = generation
    return body


def _declaration(tool: ToolSpec) -> dict[str, Any]:
    declared: dict[str, Any] = {"name": tool.name, "description": tool.description}
    parameters = parameters_schema(tool.parameters)
    return declared if parameters is None else {**declared, "parameters": parameters}


def _generation(call: ModelCall) -> dict[str, Any]:
    """How to answer. The limit covers thinking as well, so the thinking budget is added."""
    options, family = call.options, family_of(call.model)
    config, budget = _thinking_config(call)
    generation: dict[str, Any] = {}
    if call.max_output_tokens is not None:
        most = call.profile.max_output_tokens or _LONGEST_REPLY
        generation["maxOutputTokens"] = min(call.max_output_tokens + budget, most)
        if config.get("thinkingBudget", 0) > most // 2:
            config["thinkingBudget"] = most // 2
    if config:
        generation["thinkingConfig"] = config
    # Models before the third generation refuse a schema together with tools.
    takes_both = family is not None and family.has_levels
    if options.response_schema is not None and (takes_both or not call.context.tools):
        generation["responseMimeType"] = "application/json"
        generation["responseSchema"] = response_schema(options.response_schema.schema)
    return generation


class _Contents:
    """Encodes history as the `contents` of a request."""

    def __init__(self, call: ModelCall) -> None:
        self._history = sendable_history(call.own_messages())
        self._alias = call.settings.alias
        family = family_of(call.model)
        self._family: GeminiFamily | str = family or call.model
        self._wants_signatures = family is not None and family.has_levels
        assets = asset_encoder(call.profile, call.context.asset_dir)
        self._assets = assets if family is None else replace(assets, reads_documents=True)
        self._contents: list[dict[str, Any]] = []
        self._named: set[str] = set()
        """Call ids that the service itself gave: it accepts only these."""

    def written(self) -> list[dict[str, Any]]:
        """All contents. The results of a turn and their assets are one, as the service demands."""
        for entry in with_tool_media(self._history):
            match entry:
                case UserMessage():
                    parts = [self._part(block) for block in entry.content]
                    self._append("user", [part for part in parts if part != {"text": ""}])
                case ToolResultMessage():
                    response: Part = {"name": entry.tool_name}
                    if entry.tool_call_id in self._named:
                        response["id"] = entry.tool_call_id
                    text = "\n".join(result_texts(entry))
                    response["response"] = {"error" if entry.is_error else "output": text}
                    self._append("user", [{"functionResponse": response}])
                case ToolMedia():
                    self._append("user", [self._part(asset) for asset in entry.assets])
                case AssistantMessage():
                    self._append("model", self._answer(entry))
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

    def _part(self, asset: TextBlock | Asset) -> Part:
        if isinstance(asset, TextBlock):
            return {"text": asset.text if asset.text.strip() else ""}
        if isinstance(asset, ImageBlock) and asset.media_type not in _PICTURES:
            return {"text": f"[A picture ({asset.media_type}) was here; you cannot read its kind.]"}
        encoded = self._assets.encoded(asset)
        if encoded is None:
            return {"text": self._assets.missing(asset)}
        return {"inlineData": {"mimeType": asset.media_type, "data": encoded}}

    def _answer(self, message: AssistantMessage) -> list[Part]:
        """The parts of one answer, each signature on the part it came on."""
        made_by, has_alias, name = message.model.partition("/")
        is_family = made_by == self._alias and (family_of(name) or name) == self._family
        is_own = not has_alias or is_family
        parts: list[Part] = []
        # Of parallel calls only the first is signed, and needs to be.
        unsigned_call = SKIP_VALIDATION if self._wants_signatures else ""
        call_signature = ""
        for block in message.content:
            match block:
                case TextBlock():
                    parts.append({"text": block.text})
                case ThinkingBlock() if is_own and (seal := unpack_signatures(block.signature)):
                    _put_back(seal, block.text, parts)
                    if seal.on == "call":
                        call_signature = seal.pieces[0].signature
                        continue
                case ToolCallBlock():
                    named: Part = {}
                    if is_own and not block.id.startswith(MADE_UP_ID):
                        self._named.add(block.id)
                        named = {"id": block.id}
                    call = {**named, "name": block.name, "args": call_arguments(block)}
                    part: Part = {"functionCall": call}
                    if signature := call_signature or unsigned_call:
                        part["thoughtSignature"] = signature
                    unsigned_call = ""
                    parts.append(part)
                case CompactionBlock():
                    continue  # compacted by another service
            call_signature = ""
        return parts


def _put_back(seal: Signatures, thought: str, parts: list[Part]) -> None:
    """Add the signatures of text or thinking, unless the signed text was cut since."""
    if seal.on == "thought" and len(thought) == seal.length:
        signed = [part for part in seal.split(thought) if "thoughtSignature" in part]
        parts += [{"thought": True, **part} for part in signed]
    elif seal.on == "text" and seal.length == 0:
        parts += seal.split("")
    elif seal.on == "text" and parts and len(parts[-1].get("text", "")) == seal.length:
        parts[-1:] = seal.split(parts[-1]["text"])


_COLLECTIONS = ("models", "tunedModels")
_VERSIONS = ("/v1beta", "/v1", "/v1alpha")


def _path(call: ModelCall) -> str:
    # A base URL may hold the version, or not.
    version = "" if call.base_url.endswith(_VERSIONS) else "/v1beta"
    collection, _, name = call.model.partition("/")
    if collection not in _COLLECTIONS or not name:
        collection, name = "models", call.model
    return f"{version}/{collection}/{quote(name, safe='')}:streamGenerateContent?alt=sse"


_ID = re.compile(r"gemini-(?:(?P<major>\d+)(?:\.(?P<minor>\d+))?-)?(?P<tier>flash-lite|[a-z]+)")
_NO_THINKER = re.compile(r"-(?:image|tts|audio|live|embedding)\b|native-audio")
_LATEST = (3, 99)
"""The version of an id without one (`gemini-flash-latest`): newer than all known ones."""
_FIRST_WITH_LEVELS = (3, 0)
_LAST_FLASH_WITH_MINIMAL = (3, 6)
_BUDGETS = {"pro": (128, 32_768), "flash": (1, 24_576), "flash-lite": (512, 24_576)}
_USUAL_BUDGETS = (128, 24_576)
_ALWAYS_THINKS = "pro"


@dataclass(frozen=True, slots=True)
class GeminiFamily:
    """Models that accept each other's signatures, as `gemini-2.5-flash` and its previews."""

    generation: tuple[int, int]
    """The major and minor version."""
    tier: str
    """The size: `pro`, `flash`, `flash-lite`."""

    @property
    def has_levels(self) -> bool:
        """Whether thinking has levels, can't be turned off, and needs its signatures back."""
        return self.generation >= _FIRST_WITH_LEVELS

    @property
    def words(self) -> tuple[str, ...]:
        """The thinking levels the family knows, lowest first."""
        if self.tier == "pro" and self.generation == _FIRST_WITH_LEVELS:
            return ("low", "high")
        if self.tier != "pro" and self.generation <= _LAST_FLASH_WITH_MINIMAL:
            return ("minimal", "low", "medium", "high")
        return ("low", "medium", "high")


def family_of(model: str) -> GeminiFamily | None:
    """The family of a model by its id; None for one that is no Gemini by name."""
    match = _ID.match(model.rpartition("/")[2].lower())
    if match is None:
        return None
    if match["major"] is None:
        return GeminiFamily(_LATEST, match["tier"]) if match["tier"] in _BUDGETS else None
    return GeminiFamily((int(match["major"]), int(match["minor"] or 0)), match["tier"])


def _thinking_config(call: ModelCall) -> tuple[dict[str, Any], int]:
    """The `thinkingConfig`, empty where none should be sent, and the thinking tokens it allows.

    These models think by default, so `off` asks for none, or for as few tokens as the model allows.
    """
    family, level = family_of(call.model), call.options.thinking_level
    if not call.profile.thinking or _NO_THINKER.search(call.model.lower()):
        return {}, 0
    budget = thinking_budget(level, call.options.thinking_budgets)
    if family is not None and family.has_levels:
        least, most = family.words[0], family.words[-1]
        if level == "off":
            minimal = thinking_budget("minimal", call.options.thinking_budgets)
            return {"thinkingLevel": least.upper()}, minimal
        # A level that is missing counts as the highest.
        fallback = least if level == "minimal" else most
        word = level if level in family.words else fallback
        return {"includeThoughts": True, "thinkingLevel": word.upper()}, budget
    tier = family.tier if family is not None else ""
    fewest, limit = _BUDGETS.get(tier, _USUAL_BUDGETS)
    if level == "off":
        tokens = fewest if tier == _ALWAYS_THINKS else 0
        return ({"thinkingBudget": tokens} if tier in _BUDGETS else {}), tokens
    tokens = max(fewest, min(limit, budget))
    return {"includeThoughts": True, "thinkingBudget": tokens}, tokens


_FORMAT = ApiFormat(
    name="gemini",
    path=_path,
    history="contents",
    headers=lambda call: {"x-goog-api-key": call.key} if call.key else {},
    body=content_request,
    sampling=("temperature", "topP", "stopSequences"),
    sampling_in="generationConfig",
    parser=GeminiParser,
)
PROVIDER = Provider(name="gemini", make=partial(make_stream_fn, _FORMAT))
