"""Google's Gemini through `generateContent`, the interface of its API keys: requests and answers.

In a request the roles alternate, tools have Gemini's kind of schema (`gemini_schema.py`), and each
family of models has its own thinking levels. An answer comes in chunks of parts: text, thought and
calls. Gemini signs its thinking with a `thoughtSignature` on a part, and wants it back on the same
part. History stores it, with a marker, in the `signature` of a `ThinkingBlock`: directly before its
call, directly behind its text, or in the thought itself.
"""

import json
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NamedTuple, get_args
from urllib.parse import quote

from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.providers.adapter import (
    ApiFormat,
    Asset,
    AssetEncoder,
    ModelCall,
    ToolMedia,
    asset_encoder,
    call_arguments,
    make_stream_fn,
    own_blocks,
    result_texts,
    with_tool_media,
)
from dirge_py.providers.catalog import thinking_budget
from dirge_py.providers.errors import ASK_DIFFERENTLY, Phase, declined_error
from dirge_py.providers.gemini_schema import parameters_schema, response_schema
from dirge_py.providers.registry import Provider
from dirge_py.providers.request_cache import SendableMessage
from dirge_py.providers.stream_parser import (
    ServiceError,
    StreamParser,
    as_count,
    as_object,
    as_objects,
    as_text,
)
from dirge_py.types.errors import ErrorKind, ProviderError
from dirge_py.types.llm import NamedTool, ThinkingEnd, ToolSpec
from dirge_py.types.messages import (
    AssistantMessage,
    CompactionBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    Usage,
    UserMessage,
)

_PICTURES = frozenset({"image/png", "image/jpeg", "image/webp"})
_LONGEST_REPLY = 65_536
Part = dict[str, Any]
Run = Literal["text", "thought"]
MADE_UP_ID = "unnamed_"
"""What the made-up ids of calls without an id begin with."""
SKIP_VALIDATION = "skip_thought_signature_validator"
"""Google's documented value for calls of another model, which have no signature."""
_MARK = "gemini:"
On = Literal["call", "text", "thought"]


class SignedPiece(NamedTuple):
    """A signed part of a run of text."""

    start: int
    """Its first character."""
    end: int
    """The character behind its last one."""
    signature: str
    """Its signature."""


@dataclass(frozen=True, slots=True)
class Signatures:
    """The signatures of one call, or of one run of text or thought."""

    on: On
    """What is signed."""
    length: int
    """The characters of the run."""
    pieces: tuple[SignedPiece, ...]
    """The signed pieces, in order."""

    def split(self, text: str) -> list[dict[str, Any]]:
        """The parts of a run: the signed pieces, and the unsigned text between them."""
        parts: list[dict[str, Any]] = []
        at = 0
        for start, end, signature in self.pieces:
            if start > at:
                parts.append({"text": text[at:start]})
            parts.append({"text": text[start:end], "thoughtSignature": signature})
            at = end
        return [*parts, {"text": text[at:]}] if at < self.length else parts


def pack_signatures(on: On, length: int, pieces: Sequence[SignedPiece]) -> str | None:
    """The `ThinkingBlock.signature` that holds `pieces`; None without pieces."""
    return _MARK + json.dumps([on, length, pieces], separators=(",", ":")) if pieces else None


def unpack_signatures(signature: str | None) -> Signatures | None:
    """What `pack_signatures` packed; None for the signature of another service."""
    if signature is None or not signature.startswith(_MARK):
        return None
    try:
        on, length, packed = json.loads(signature.removeprefix(_MARK))
        pieces = tuple(SignedPiece(start, end, text) for start, end, text in packed)
        numbers = [0, *(at for piece in pieces for at in piece[:2]), length]
        is_sound = numbers == sorted(map(operator.index, numbers)) and on in get_args(On)
    except (ValueError, TypeError, RecursionError):
        return None
    is_text = all(isinstance(piece.signature, str) for piece in pieces)
    return Signatures(on, length, pieces) if pieces and is_sound and is_text else None


def content_request(call: ModelCall) -> dict[str, Any]:
    """The request's JSON. Equal prefixes of history give equal prefixes of JSON, for caches."""
    context, options = call.context, call.options
    body: dict[str, Any] = {}
    if context.system_prompt.strip():
        body["systemInstruction"] = {"parts": [{"text": context.system_prompt}]}
    if context.tools:
        body["tools"] = call.tools(_declarations)
        choice = options.tool_choice
        if choice != "auto":
            mode = "NONE" if choice == "none" else "ANY"
            only = {"allowedFunctionNames": [choice.name]} if isinstance(choice, NamedTool) else {}
            body["toolConfig"] = {"functionCallingConfig": {"mode": mode, **only}}
    body["contents"] = _contents(call)
    generation = _generation(call)
    if generation:
        body["generationConfig"] = generation
    return body


def _declarations(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    return [{"functionDeclarations": [*map(_declaration, tools)]}]


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


def _contents(call: ModelCall) -> list[dict[str, Any]]:
    """The history as the `contents` of a request."""
    alias, assets = call.settings.alias, asset_encoder(call.profile, call.context.asset_dir)
    if family_of(call.model) is not None:
        assets = replace(assets, reads_documents=True)
    contents = call.encoded(
        call.sendable(own_blocks(alias)),
        lambda turn: _TurnContents(alias, call.model, assets).written(turn),
        key=(call.model, assets),
    )
    if contents and contents[0]["role"] == "model":
        beginning = {"role": "user", "parts": [{"text": "[The beginning is left out.]"}]}
        contents.insert(0, beginning)
    return contents


class _TurnContents:
    """Encodes one turn of the history."""

    def __init__(self, alias: str, model: str, assets: AssetEncoder) -> None:
        self._alias = alias
        family = family_of(model)
        self._family: GeminiFamily | str = family or model
        self._wants_signatures = family is not None and family.has_levels
        self._assets = assets
        self._contents: list[dict[str, Any]] = []
        self._named: set[str] = set()
        """Call ids that the service itself gave: it accepts only these."""

    def written(self, turn: Iterable[SendableMessage]) -> list[dict[str, Any]]:
        """The contents. Results and their assets are one, as the service demands."""
        for entry in with_tool_media(turn):
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
            return {"text": f"[An image ({asset.media_type}) was here; you cannot read its kind.]"}
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


_ID = late_pattern(r"gemini-(?:(?P<major>\d+)(?:\.(?P<minor>\d+))?-)?(?P<tier>flash-lite|[a-z]+)")
_NO_THINKER = late_pattern(r"-(?:image|tts|audio|live|embedding)\b|native-audio")
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


_TOO_LONG = frozenset({"MAX_TOKENS", "CONTINUATION"})
_COUNTS = (
    "promptTokenCount",
    "toolUsePromptTokenCount",
    "candidatesTokenCount",
    "thoughtsTokenCount",
    "cachedContentTokenCount",
)


class GeminiParser(StreamParser):
    """Parses an answer. It ends with the stream: chunks may follow the one with the reason."""

    id_prefix = MADE_UP_ID

    def __init__(self, taken: frozenset[str] = frozenset(), new_id: str = "") -> None:
        super().__init__(taken, new_id)
        self._stop_words = ""
        self._blocked = ""
        self._counts: dict[str, int] = {}
        self._calls = 0
        self._run: Run | Literal[""] = ""
        self._length = 0
        self._signed: list[SignedPiece] = []

    @property
    def is_settled(self) -> bool:
        return bool(self._stop or self._blocked)

    def _read(self, name: str, payload: Mapping[str, Any]) -> None:
        if payload.get("error") or name == "error":
            raise ServiceError(payload)
        self._start(payload.get("modelVersion"))
        counted = as_object(payload.get("usageMetadata"))
        self._counts |= {name: as_count(counted[name]) for name in _COUNTS if name in counted}
        feedback = as_object(payload.get("promptFeedback"))
        if as_text(feedback.get("blockReason")):
            self._blocked = as_text(feedback.get("blockReason"))
            self._stop_words = as_text(feedback.get("blockReasonMessage"))
        for candidate in as_objects(payload.get("candidates"))[:1]:
            for part in as_objects(as_object(candidate.get("content")).get("parts")):
                self._part(part)
            self._stop = as_text(candidate.get("finishReason")) or self._stop
            self._stop_words = as_text(candidate.get("finishMessage")) or self._stop_words

    def _read_whole(self, payload: Mapping[str, Any]) -> None:
        is_answer = as_objects(payload.get("candidates")) or payload.get("promptFeedback")
        # The last of several chunks, when they came as one list, may only count.
        if not is_answer and not (self._is_started and "usageMetadata" in payload):
            raise ServiceError(payload)
        self._read("", payload)
        self._stop = self._stop or "STOP"

    def _end(self) -> None:
        self._end_run()
        phase: Phase = "stream" if self.has_content else "establish"
        if self._blocked:
            self._fail(prompt_blocked_error(self._blocked, self._stop_words))
        elif error := finish_reason_error(self._stop, self._stop_words, phase):
            self._fail(error)
        else:
            prompt, of_tools, text, thought, cached = (self._counts.get(n, 0) for n in _COUNTS)
            usage = Usage(
                input=prompt + of_tools,
                output=text + thought,
                cache_read=cached,
                reasoning=thought,
            )
            self._usage = usage if self._counts else None
            self._done("length" if self._stop in _TOO_LONG else "stop")

    def _part(self, part: Mapping[str, Any]) -> None:
        signature = as_text(part.get("thoughtSignature"))
        if isinstance(part.get("functionCall"), dict):
            self._whole_call(part["functionCall"], signature)
        elif isinstance(part.get("text"), str):
            kind: Run = "thought" if part.get("thought") is True else "text"
            self._words(kind, part["text"], signature)
        elif signature:
            self._words(self._run or "text", "", signature)

    def _words(self, kind: Run, text: str, signature: str) -> None:
        if not (text or signature):
            return
        if kind != self._run:
            self._end_run()
            self._run = kind
        start, self._length = self._length, self._length + len(text)
        if kind == "text":
            self._text(text)
        else:
            self._think(text)
        if signature:
            self._signed.append(SignedPiece(start, self._length, signature))

    def _end_run(self) -> None:
        """Close a run of text or thought, and emit its signatures; earlier they would split it."""
        if self._run:
            signature = pack_signatures(self._run, self._length, self._signed)
            if self._run == "thought" or signature:
                self._events.append(ThinkingEnd(signature=signature))
        self._run, self._length, self._signed = "", 0, []

    def _whole_call(self, raw: Mapping[str, Any], signature: str) -> None:
        name = as_text(raw.get("name"))
        if not name:
            return
        self._end_run()
        if signature:
            packed = pack_signatures("call", 0, [SignedPiece(0, 0, signature)])
            self._events.append(ThinkingEnd(signature=packed))
        key, call_id = str(self._calls), self._free_id(as_text(raw.get("id")))
        self._calls += 1
        arguments = dict(as_object(raw.get("args")))
        self._call(key, call_id, name, json.dumps(arguments, ensure_ascii=False))
        self._end_call(key, call_id, arguments)


_MAX_WORDS = 500
_REFUSED: Mapping[str, str] = {
    "SAFETY": "its safety filter stopped it",
    "RECITATION": "it would have repeated a source too closely",
    "LANGUAGE": "the language is not supported",
    "BLOCKLIST": "it holds a term that is blocked",
    "PROHIBITED_CONTENT": "the content may be prohibited",
    "SPII": "it may hold personal data",
    "IMAGE_SAFETY": "the safety filter stopped an image",
    "IMAGE_PROHIBITED_CONTENT": "an image may be prohibited",
    "IMAGE_RECITATION": "an image would have repeated a source too closely",
    "ESCALATION": "a rule of the service stopped it",
    "PUP_LIMITED_DISABLED": "the account is limited for how it was used",
    "MODEL_ARMOR": "Model Armor stopped it",
    "JAILBREAK": "it looks like an attempt to get around the rules",
}
_BROKEN: Mapping[str, tuple[ErrorKind, str]] = {
    "MALFORMED_FUNCTION_CALL": ("server", "The model wrote a tool call that cannot be read"),
    "MALFORMED_RESPONSE": ("server", "The model wrote an answer that cannot be read"),
    "UNEXPECTED_TOOL_CALL": ("server", "The model called a tool that it was not offered"),
    "TOO_MANY_TOOL_CALLS": ("server", "The model called too many tools at once"),
    "OTHER": ("server", "The model stopped without giving a reason"),
    "MISSING_THOUGHT_SIGNATURE": (
        "invalid_request",
        "A thought signature that the model needs is missing from the history",
    ),
}


def prompt_blocked_error(reason: str, words: str) -> ProviderError:
    """The error for a prompt that the service blocked."""
    why = _REFUSED.get(reason, f"it gives the reason {reason[:40]}")
    return ProviderError(
        f"The service did not let the prompt through to the model: {_reason(why, words)}.",
        kind="refused",
        hint=ASK_DIFFERENTLY,
        phase="establish",
    )


def finish_reason_error(reason: str, words: str, phase: Phase) -> ProviderError | None:
    """The error for a `finishReason`; None if the reason isn't an error."""
    if reason in _REFUSED:
        return declined_error(f"{_reason(_REFUSED[reason], words)}.")
    if reason not in _BROKEN:
        return None
    kind, what = _BROKEN[reason]
    return ProviderError(
        f"{what} ({reason}).",
        kind=kind,
        raw=words[:_MAX_WORDS],
        hint="" if kind == "server" else "`/compact` makes a history that needs none.",
        phase=phase,
    )


def _reason(why: str, words: str) -> str:
    said = " ".join(words.split())[:_MAX_WORDS].rstrip(".")
    return f"{why} ({said})" if said else why


_FORMAT = ApiFormat(
    name="gemini",
    path=_path,
    headers=lambda call: {"x-goog-api-key": call.key} if call.key else {},
    body=content_request,
    sampling=("temperature", "topP", "stopSequences"),
    sampling_in="generationConfig",
    parser=GeminiParser,
)
PROVIDER = Provider(name="gemini", make=partial(make_stream_fn, _FORMAT))
