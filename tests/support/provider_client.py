"""Model calls to a fake service over a real socket."""

from contextlib import aclosing
from typing import Any

from dirge_py.providers.adapter import ModelCall
from dirge_py.providers.catalog import ModelProfile
from dirge_py.providers.client import HttpClient
from dirge_py.providers.registry import find_provider
from dirge_py.providers.request_cache import RequestCache
from dirge_py.providers.settings import ProviderSettings, Quirks, StreamTimeouts
from dirge_py.providers.stream_parser import join_deltas
from dirge_py.types.abort import AbortSignal
from dirge_py.types.llm import (
    LlmContext,
    StreamDone,
    StreamEvent,
    StreamOptions,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolSpec,
)
from dirge_py.types.messages import Message, user_text
from tests.support.fake_service import FakeService

KEY = "sk-very-secret-key"
KINDS = ("openai", "anthropic", "ollama", "gemini", "openai-responses")
"""The provider types that every fault is tried with."""
WHOLE_CALLS = frozenset({"gemini", "ollama"})
"""Those that send a tool call in one piece."""
JSON_LINES = frozenset({"ollama"})
"""Those that send a JSON object a line; the others send server-sent events."""
READ = ToolSpec(name="read", description="Read.", parameters={"type": "object", "properties": {}})


def model_call(
    context: LlmContext,
    *,
    model: str = "m",
    kind: str = "openai",
    profile: ModelProfile | None = None,
    base_url: str = "https://service.example/v1",
    quirks: Quirks | None = None,
    cache_ttl: str | None = None,
    cache: RequestCache | None = None,
    **options: Any,
) -> ModelCall:
    """A call of the model `work/MODEL`, as its provider gets it."""
    return ModelCall(
        context=context,
        options=StreamOptions(**options),
        settings=ProviderSettings(
            alias="work",
            type=kind,
            quirks=quirks or Quirks(),
            cache_ttl=cache_ttl,
            profile_of=(lambda _: profile) if profile else None,
        ),
        base_url=base_url,
        model=model,
        cache=cache or RequestCache(),
    )


class Client:
    """Calls a fake service in one wire format; `ask` returns all events of the answer."""

    def __init__(self, http: HttpClient, kind: str, service: FakeService) -> None:
        self.http = http
        self.kind = kind
        self.service = service

    @property
    def url(self) -> str:
        return self.service.url(self.kind)

    def stream(self, *, signal: AbortSignal | None = None, **changes: Any) -> Any:
        messages: tuple[Message, ...] = changes.pop("messages", (user_text("hello"),))
        context = LlmContext(
            system_prompt=changes.pop("system", "Be brief."),
            messages=messages,
            tools=changes.pop("tools", ()),
            asset_dir=changes.pop("asset_dir", None),
        )
        model = changes.pop("model", "work/m")
        names = StreamOptions.__dataclass_fields__
        options = {name: changes.pop(name) for name in list(changes) if name in names}
        if "option_headers" in changes:
            options["headers"] = changes.pop("option_headers")
        settings = {"base_url": self.url, "api_key": changes.pop("key", KEY), **changes}
        made = find_provider(self.kind).make(
            ProviderSettings(alias="work", type=self.kind, **settings), self.http
        )
        return made(context, StreamOptions(model=model, **options), signal or AbortSignal())

    async def ask(self, **changes: Any) -> list[StreamEvent]:
        # Which deltas arrive together depends on the speed of the reader.
        async with aclosing(self.stream(**changes)) as events:
            return join_deltas([event async for event in events])

    async def error(self, **changes: Any) -> Any:
        events = await self.ask(**changes)
        return events[-1].error  # type: ignore[union-attr]

    async def sent(self, **changes: Any) -> Any:
        """The JSON that a call sends."""
        await self.ask(**changes)
        return self.service.requests[-1].json


def short(**changes: float) -> StreamTimeouts:
    return StreamTimeouts(**{"establish_s": 5, "chunk_s": 5, "tool_call_gap_s": 5, **changes})


def text_of(events: list[StreamEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def thinking_of(events: list[StreamEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, ThinkingDelta))


def calls_of(events: list[StreamEvent]) -> list[tuple[str, str, str]]:
    """(id, name, arguments) of each call, in order of their start."""
    calls: dict[str, list[str]] = {}
    for event in events:
        if isinstance(event, ToolCallDelta):
            call = calls.setdefault(event.key, ["", "", ""])
            call[0] = call[0] or event.id
            call[1] = call[1] or event.name
            call[2] += event.arguments
    return [(call[0], call[1], call[2]) for call in calls.values()]


def done_of(events: list[StreamEvent]) -> StreamDone:
    done = events[-1]
    assert isinstance(done, StreamDone), done
    return done
