"""Sets up a first provider: the choices, one test request, and storing it."""

import os
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

from dirge_py.config.edit import has_provider, is_writable, save_provider
from dirge_py.config.paths import config_file
from dirge_py.config.services import (
    SERVICE_OF,
    SERVICES,
    Service,
    base_url_problem,
    check_base_url,
    wire_of,
)
from dirge_py.config.sources import LocalServer, ProviderDraft
from dirge_py.providers.client import HttpClient
from dirge_py.providers.discovery import find_local_servers, list_models
from dirge_py.providers.registry import find_provider
from dirge_py.providers.settings import ProviderChoice, ProviderSettings, Quirks, StreamTimeouts
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import ConfigError
from dirge_py.types.llm import LlmContext, StreamDone, StreamError, StreamOptions
from dirge_py.types.messages import user_text

_OWN_TYPE = "openai"
_OWN = "Your own or your company's server"
"""The choice for other servers; OpenAI itself is the choice `openai-responses`."""

_BEST_KNOWN = ("anthropic", "openai-responses", "gemini", "openrouter")
"""The services that are offered first."""

_LISTING_S = 5.0
_LOADING_S = 180.0
"""The server may have to read the model from disk first."""


class ProviderSetup:
    """Sets up a provider in the settings file: `file`, or by default the usual one."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file

    async def offers(self) -> Sequence[ProviderChoice]:
        """The providers to choose from: those on this machine, those with a key, the best-known
        services, all others, and last a server of one's own."""
        async with aclosing(HttpClient()) as client:
            servers = await find_local_servers(os.environ, client)
        offers = [_choice_of_server(server) for server in servers]
        # A server that only speaks the wire format of a service is a choice besides that service.
        found_types = {offer.type for offer in offers if SERVICE_OF[offer.type].local}
        known = [_choice_of_service(row) for row in SERVICES if row.type not in found_types]
        known.sort(key=_position)
        return [*offers, *known]

    async def models(self, draft: ProviderDraft) -> Sequence[str]:
        """The models that the service lists. Raises ConfigError, ProviderError."""
        async with aclosing(HttpClient()) as client:
            return await list_models(_settings(draft), client, limit_s=_LISTING_S)

    async def try_out(self, draft: ProviderDraft) -> str:
        """Make one small request; returns a message. Raises ConfigError, ProviderError."""
        async with aclosing(HttpClient()) as client:
            stream_fn = find_provider(wire_of(draft.type)).make(_settings(draft), client)
            context = LlmContext(system_prompt="", messages=[user_text("Answer with one word: ok")])
            options = StreamOptions(model=f"{draft.alias}/{draft.model}", max_output_tokens=64)
            async for event in stream_fn(context, options, AbortSignal()):
                if isinstance(event, StreamError):
                    raise event.error
                if isinstance(event, StreamDone):
                    return f"{draft.model} answered."
        return f"{draft.model} gave an empty answer, but the service accepted the request."

    def storage_problem(self) -> str:
        """Why nothing can be stored in the settings file, as text; "" if it can."""
        if is_writable(self._file):
            return ""
        folder = (self._file or config_file()).parent
        return (
            f"dirge cannot store a provider: the folder {folder} is not writable. Make it "
            "writable, or set DIRGE_CONFIG_DIR to another folder. Or export a key, such as "
            "OPENAI_API_KEY."
        )

    def replaces(self, draft: ProviderDraft) -> bool:
        """Whether the settings have a provider of that name. Raises ConfigError."""
        return has_provider(draft.alias, file=self._file)

    def save(self, draft: ProviderDraft) -> str:
        """Make it the default; returns the settings file. Raises ConfigError, FileError."""
        is_usual = draft.base_url == SERVICE_OF[draft.type].base_url
        draft = replace(draft, base_url="") if is_usual else draft
        return str(save_provider(draft, self._file))


def _position(offer: ProviderChoice) -> tuple[bool, bool, int]:
    at = _BEST_KNOWN.index(offer.type) if offer.type in _BEST_KNOWN else len(_BEST_KNOWN)
    return offer.standing != "key", offer.is_own, at


def _choice_of_server(server: LocalServer) -> ProviderChoice:
    service = SERVICE_OF[server.type]
    return ProviderChoice(
        type=server.type,
        label=service.label if service.local else "An OpenAI-compatible server",
        is_own=not service.local,
        standing="found",
        base_url=server.base_url,
        needs_key=False,
        model=server.models[0] if server.models else "",
        models=server.models,
    )


def _choice_of_service(service: Service) -> ProviderChoice:
    is_own = service.type == _OWN_TYPE
    named, _ = service.named_url(os.environ)
    named = "" if base_url_problem(named) else named
    has_key = any(os.environ.get(name) for name in service.key_env)
    return ProviderChoice(
        type=service.type,
        label=_OWN if is_own else service.label,
        standing="key" if has_key and (named or not is_own) else "known",
        base_url=named or ("" if is_own else service.base_url),
        key_env=service.key_env,
        needs_key=not service.local,
        model="" if is_own else service.default_model or "",
        is_own=is_own,
    )


def _settings(draft: ProviderDraft) -> ProviderSettings:
    if draft.base_url:
        check_base_url(draft.base_url, draft.allow_insecure)
    key = draft.key or os.environ.get(draft.key_env, "")
    if draft.key_env and not key:
        raise ConfigError(f"{draft.key_env} is not set.", hint=f"export {draft.key_env}=…")
    return ProviderSettings(
        alias=draft.alias,
        type=draft.type,
        base_url=draft.base_url or SERVICE_OF[draft.type].base_url,
        allow_insecure=draft.allow_insecure,
        api_key=key or None,
        key_place=draft.key_env or ("the key that you typed" if key else ""),
        quirks=Quirks(**SERVICE_OF[draft.type].dialect),
        timeouts=StreamTimeouts(
            establish_s=_LOADING_S if SERVICE_OF[draft.type].local else 30.0,
            chunk_s=30.0,
            tool_call_gap_s=30.0,
            connect_s=10.0,
        ),
    )
