"""What all HTTP providers share; `make_stream_fn` makes a `StreamFn` of a wire format.

The images and documents of tool results come behind the last result, because many services accept
only text in results, and nothing else between two of them.
"""

import base64
import json
import secrets
from collections.abc import (
    AsyncIterator,
    Callable,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from dirge_py.config.services import SERVICE_OF, check_base_url
from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.providers import errors
from dirge_py.providers.catalog import ModelProfile
from dirge_py.providers.client import (
    HttpClient,
    HttpRequest,
    StreamRequest,
    TransportError,
    request_headers,
    stream_response,
)
from dirge_py.providers.errors import Endpoint
from dirge_py.providers.request_cache import (
    EncodedHistory,
    EncodedObject,
    EncodeTurn,
    KeepBlock,
    RequestCache,
    SendableHistory,
    SendableMessage,
    request_json,
)
from dirge_py.providers.settings import ProviderSettings, merge_bodies, model_id
from dirge_py.providers.stream_parser import NdjsonDecoder, SseDecoder, StreamParser
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import DirgeError, ProviderError
from dirge_py.types.history import GrowingHistory, WireFormat
from dirge_py.types.llm import (
    LlmContext,
    StreamError,
    StreamEvent,
    StreamFn,
    StreamOptions,
    ToolSpec,
    closing,
)
from dirge_py.types.messages import (
    AssistantBlock,
    AssistantMessage,
    CompactionBlock,
    CustomMessage,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from dirge_py.types.sampling import Sampling


def own_blocks(alias: str, model: str = "") -> KeepBlock:
    """Refuses the sealed blocks of other services, for which a service refuses the request.

    With `model` the blocks of the service's other models are refused as well, as behind a router.
    """

    def is_own(message: AssistantMessage, block: AssistantBlock) -> bool:
        made_by, has_alias, made_with = message.model.partition("/")
        is_foreign = has_alias and (made_by != alias or model not in ("", made_with))
        return not (is_foreign and isinstance(block, ThinkingBlock | CompactionBlock))

    return is_own


def call_arguments(call: ToolCallBlock) -> Mapping[str, Any]:
    """The arguments of a call as an object; text that could not be parsed is wrapped in one."""
    return call.arguments if isinstance(call.arguments, dict) else {"unparsed": call.arguments}


def is_openai(base_url: str) -> bool:
    """Whether this is OpenAI itself, which is stricter and newer than compatible services."""
    return urlsplit(base_url).hostname == "api.openai.com"


def function_tools(tools: Sequence[ToolSpec]) -> Iterator[dict[str, Any]]:
    """Tools as Chat Completions describes them."""
    for tool in tools:
        function = {"name": tool.name, "description": tool.description}
        function["parameters"] = dict(tool.parameters)  # type: ignore[assignment]
        yield {"type": "function", "function": function}


_ASSET_ID = late_pattern(r"[A-Za-z0-9_-]{1,128}")
_PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_DOCUMENTS = frozenset({"application/pdf"})
MAX_BYTES = 20 * 1024 * 1024
Asset: TypeAlias = ImageBlock | DocumentBlock


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetEncoder:
    """Encodes assets for a model. One that sees no pictures refuses a request that holds one."""

    folder: str | None
    """The folder with the assets; None for none."""
    sees_pictures: bool
    """Whether the model accepts images."""
    reads_documents: bool
    """Whether the model accepts documents."""

    def encoded(self, asset: Asset) -> str | None:
        """The bytes in base64; None if they can't be read or sent (`missing` says so)."""
        # The id comes from a stored transcript, which may be wrong.
        is_id = _ASSET_ID.fullmatch(asset.asset_id)
        if self.folder is None or not is_id or not self._is_sendable(asset):
            return None
        try:
            path = Path(self.folder, asset.asset_id)
            if path.stat().st_size > MAX_BYTES:
                return None
            return base64.b64encode(path.read_bytes()).decode()
        except OSError:
            return None

    def missing(self, asset: Asset) -> str:
        """The text that a model reads in place of an asset that can't be sent."""
        if isinstance(asset, ImageBlock):
            why = "it can no longer be read" if self.sees_pictures else "you cannot see images"
            return f"[An image ({asset.media_type}) was here; {why}.]"
        named = f"{asset.name}, {asset.media_type}" if asset.name else asset.media_type
        if self._is_sendable(asset):
            return f"[A document ({named}) was here; it can no longer be read.]"
        return f"[A document ({named}) was here; you cannot read it. A command can take its text.]"

    def _is_sendable(self, asset: Asset) -> bool:
        if isinstance(asset, ImageBlock):
            return self.sees_pictures and asset.media_type in _PICTURES
        return self.reads_documents and asset.media_type in _DOCUMENTS


def asset_encoder(profile: ModelProfile, folder: str | None) -> AssetEncoder:
    """The encoder for a model with this profile; one that sees pictures reads documents as well."""
    return AssetEncoder(
        folder=folder,
        # An unknown model gets the picture, and may refuse it.
        sees_pictures=profile.sees_pictures is not False,
        reads_documents=bool(profile.images),
    )


def is_text(blocks: Sequence[TextBlock | Asset]) -> bool:
    """Whether `blocks` hold no assets."""
    return all(isinstance(block, TextBlock) for block in blocks)


def _kind(asset: Asset) -> str:
    return "image" if isinstance(asset, ImageBlock) else "document"


@dataclass(frozen=True, slots=True)
class ToolMedia:
    """The assets of the tool results in front of it, in their order."""

    assets: tuple[Asset, ...]
    """The images and documents."""

    @property
    def title(self) -> TextBlock:
        """The text before the assets, where they are a message of their own."""
        kinds = " and ".join(f"{kind}s" for kind in dict.fromkeys(map(_kind, self.assets)))
        return TextBlock(f"The {kinds} of the tool results above:")


HistoryEntry: TypeAlias = SendableMessage | ToolMedia


def with_tool_media(history: Iterable[SendableMessage]) -> Iterator[HistoryEntry]:
    """`history`, with the assets of each run of tool results behind it."""
    later: list[Asset] = []
    for message in history:
        if isinstance(message, ToolResultMessage):
            later += [block for block in message.content if not isinstance(block, TextBlock)]
        elif later:
            yield ToolMedia(tuple(later))
            later = []
        yield message
    if later:
        yield ToolMedia(tuple(later))


def encode_messages(
    turn: Iterable[SendableMessage],
    encode: Callable[[SendableMessage], dict[str, Any]],
    encode_user: Callable[[Sequence[TextBlock | Asset]], dict[str, Any]],
) -> Iterator[dict[str, Any]]:
    """Encode the messages of a chat one by one; `encode_user` makes those with assets."""
    for entry in with_tool_media(turn):
        match entry:
            case AssistantMessage() if not (entry.text or entry.calls):
                pass  # it holds nothing but what another service compacted
            case ToolMedia():
                yield encode_user([entry.title, *entry.assets])
            case UserMessage() if not is_text(entry.content):
                yield encode_user(entry.content)
            case _:
                yield encode(entry)


def result_texts(result: ToolResultMessage) -> list[str]:
    """The texts of a result, at least one; a note stands in for each asset."""
    blocks, note = result.content, "[The {} follows the results.]"
    texts = [b.text if isinstance(b, TextBlock) else note.format(_kind(b)) for b in blocks]
    return [text for text in texts if text.strip()] or ["(no output)"]


_DEFAULT_HEADERS: Mapping[str, str] = {
    "content-type": "application/json",
    "accept": "text/event-stream",
    # Compression would hold events back until a block is full.
    "accept-encoding": "identity",
}


_PLAIN = WireFormat()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """The data of one model call that a wire format encodes."""

    context: LlmContext
    """The system prompt, the messages and the tools."""
    options: StreamOptions
    """How the call is made: limits, thinking, headers."""
    settings: ProviderSettings
    """The settings of the provider."""
    base_url: str
    """The address of the service, without a slash at its end."""
    model: str
    """The service's own id of the model."""
    cache: RequestCache
    """What was made for the provider's earlier requests."""

    @property
    def profile(self) -> ModelProfile:
        """The capabilities and limits of the model."""
        return self.settings.profile(self.model)

    @property
    def key(self) -> str | None:
        """The key of this call, else the provider's key."""
        return (self.options.api_key or self.settings.api_key or "").strip() or None

    @property
    def max_output_tokens(self) -> int | None:
        """The limit of this call, else the limit of the settings."""
        return self.options.max_output_tokens or self.settings.max_output_tokens

    def sendable(
        self,
        keep: KeepBlock = lambda message, block: True,
        *,
        key: Hashable = None,
        wire: WireFormat = _PLAIN,
    ) -> Sequence[SendableMessage]:
        """The messages as the service accepts them, without blocks that `keep` refuses.

        Calls with the same `key` and `wire` have equal `keep`s.
        """
        messages = self.context.messages
        make = partial(SendableHistory, keep, wire)
        first = next(iter(messages), None)
        return self.cache.part(first, ("sendable", key, wire), make).of(messages)

    def encoded(
        self, history: Sequence[SendableMessage], encode: EncodeTurn, *, key: Hashable
    ) -> list[dict[str, Any]]:
        """The encoded messages; `key` holds everything that `encode` depends on."""
        if not history:
            return []
        part = self.cache.part(history[0], ("encoded", key), partial(EncodedHistory, encode))
        return part.of(history)

    def tools(
        self, encode: Callable[[Sequence[ToolSpec]], Iterable[dict[str, Any]]]
    ) -> list[dict[str, Any]]:
        """The encoded tools; equal for the same function and tools."""
        tools = self.context.tools
        if not isinstance(tools, tuple):
            return [*encode(tools)]
        made = self.cache.part(tools, encode, lambda: [*map(EncodedObject, encode(tools))])
        return list[dict[str, Any]](made)

    def call_ids(self) -> frozenset[str]:
        """The ids of all calls in the history."""
        messages = self.context.messages
        known = self.cache.part(messages[0], "call ids", GrowingHistory[str])
        new = known.new(messages)
        answers = (message for message in new if isinstance(message, AssistantMessage))
        known.add(new, (call.id for answer in answers for call in answer.calls))
        return frozenset(known.made)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiFormat:
    """A wire format: addresses, headers, requests and answers."""

    name: str
    """Its name, which is also that of its own service in config/services.toml."""
    path: Callable[[ModelCall], str]
    """The path behind the base URL."""
    decoder: type[NdjsonDecoder] = SseDecoder
    """Server-sent events, or one JSON object per line."""
    headers: Callable[[ModelCall], Mapping[str, str]]
    """The headers of a request, with the key if there is one."""
    body: Callable[[ModelCall], Mapping[str, Any]]
    """The JSON of a request."""
    sampling: tuple[str, str, str] = ("temperature", "top_p", "stop")
    """The members for temperature, top_p and stop sequences; empty: there is none."""
    sampling_in: str = ""
    """The object that holds these members; empty: the request itself."""
    parser: Callable[[frozenset[str], str], StreamParser]
    """Makes a parser of the ids of the calls in history and the start of new ids."""


def make_stream_fn(api_format: ApiFormat, settings: ProviderSettings, http: HttpClient) -> StreamFn:
    """The stream function of a configured service. Raises ConfigError: its address is wrong."""
    base_url = (settings.base_url or SERVICE_OF[api_format.name].base_url).rstrip("/")
    check_base_url(base_url, settings.allow_insecure)
    cache = RequestCache()

    async def stream(
        context: LlmContext, options: StreamOptions, signal: AbortSignal
    ) -> AsyncIterator[StreamEvent]:
        call = ModelCall(
            context=context,
            options=options,
            settings=settings,
            base_url=base_url,
            model=model_id(options.model),
            cache=cache,
        )
        try:
            request = _stream_request(api_format, call)
            parser = api_format.parser(call.call_ids(), secrets.token_hex(6))
        except DirgeError as error:
            if not isinstance(error, ProviderError):
                error = ProviderError(error.message, kind="invalid_request", hint=error.hint)
            yield StreamError(error)
            return
        except Exception as error:
            # A stream never raises: what cannot be encoded ends the turn, not the program.
            message = f"The request to {settings.alias} cannot be built: {error!r}."
            yield StreamError(ProviderError(message, kind="invalid_request"))
            return
        async for event in stream_response(http, request, parser, signal):
            yield event

    return stream


def _stream_request(api_format: ApiFormat, call: ModelCall) -> StreamRequest:
    settings, options, service = call.settings, call.options, SERVICE_OF[api_format.name]
    if all(isinstance(message, CustomMessage) for message in call.context.messages):
        raise ProviderError("There is no message to send.", kind="invalid_request")
    url = call.base_url + api_format.path(call)
    endpoint = Endpoint(settings=settings, url=url, model=call.model, key=call.key)
    if call.key is None and call.base_url == service.base_url and not service.local:
        message = f"There is no API key for {endpoint.alias}."
        raise ProviderError(message, kind="auth", hint=endpoint.key_hint)
    timeouts = settings.timeouts
    if options.chunk_timeout_s is not None:
        timeouts = replace(timeouts, chunk_s=options.chunk_timeout_s)
    body = merge_bodies(api_format.body(call), _sampling(api_format, options.sampling))
    own_headers = api_format.headers(call)
    headers = request_headers(_DEFAULT_HEADERS, own_headers, settings.headers, options.headers)
    return StreamRequest(
        endpoint=endpoint,
        http=HttpRequest("POST", url, headers, request_json(body)),
        decoder=api_format.decoder,
        timeouts=timeouts,
        total_s=options.request_timeout_s,
    )


def _sampling(api_format: ApiFormat, sampling: Sampling) -> dict[str, Any]:
    """What `sampling` adds to a request."""
    values = (sampling.temperature, sampling.top_p, list(sampling.stop_sequences) or None)
    named = zip(api_format.sampling, values, strict=True)
    members: dict[str, Any] = {name: v for name, v in named if name and v is not None}
    if members and api_format.sampling_in:
        members = {api_format.sampling_in: members}
    return merge_bodies(members, sampling.extra)


async def fetch_json(
    http: HttpClient,
    endpoint: Endpoint,
    key_header: Mapping[str, str],
    body: Mapping[str, Any] | None = None,
    *,
    timeout_s: float,
    max_bytes: int,
    awaited: str = "answer",
) -> Any:
    """The JSON of the answer to a GET, or a POST of `body`. Errors call it `awaited`.

    Raises ProviderError.
    """
    content = None if body is None else json.dumps(body).encode()
    kind = {"accept" if body is None else "content-type": "application/json"}
    headers = request_headers(kind, key_header, endpoint.settings.headers)
    request = HttpRequest("GET" if body is None else "POST", endpoint.url, headers, content)
    try:
        response = await http.fetch(request, timeout_s=timeout_s, max_bytes=max_bytes)
    except TimeoutError:
        why = f"no {awaited} within {timeout_s:g} s"
        raise errors.timeout_error(endpoint, why, "establish") from None
    except TransportError as error:
        raise errors.connection_error(endpoint, error.kind, str(error)) from error
    text = response.body.decode("utf-8-sig", errors="replace")
    if response.status != 200:
        raise errors.status_error(endpoint, response.status, response.headers, text)
    if text.lstrip().startswith("<"):
        raise errors.web_page_error(endpoint, text)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        why = "it is not JSON"
        raise errors.unreadable_error(endpoint, why, text[:500], "establish") from error


def with_options(inner: StreamFn, change: Callable[[StreamOptions], StreamOptions]) -> StreamFn:
    """`inner`, which gets what `change` makes of the options of a call."""
    return lambda context, options, signal: inner(context, change(options), signal)


LearnFromError: TypeAlias = Callable[[ProviderError, LlmContext, StreamOptions], bool]
"""Whether an error names an optional part of the request, which is left out from now on."""

_MAX_RETRIES = 2


def retry_without(inner: StreamFn, learn: LearnFromError) -> StreamFn:
    """`inner`, called again after each error from which `learn` learns, at most twice."""

    async def stream(
        context: LlmContext, options: StreamOptions, signal: AbortSignal
    ) -> AsyncIterator[StreamEvent]:
        for retries_left in reversed(range(_MAX_RETRIES + 1)):
            async with closing(inner(context, options, signal)) as events:
                async for event in events:
                    match event:
                        case StreamError(error) if retries_left and learn(error, context, options):
                            break
                    yield event
                else:
                    return

    return stream
