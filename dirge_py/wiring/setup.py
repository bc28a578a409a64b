"""Setting up a first provider: what can be chosen, one test request, and storing it."""

import os
from collections.abc import Sequence
from pathlib import Path

from dirge_py.abort import AbortSignal
from dirge_py.config.edit import save_provider
from dirge_py.config.services import SERVICE_OF, SERVICES, wire_of
from dirge_py.errors import ConfigError
from dirge_py.messages import user_text
from dirge_py.providers.base import ProviderSettings, Timeouts, check_base_url
from dirge_py.providers.client import HttpClient
from dirge_py.providers.registry import provider
from dirge_py.streams import LlmContext, StreamDone, StreamError, StreamOptions
from dirge_py.wiring.offers import Draft, Offer

_PATIENCE = Timeouts(establish_s=30.0, chunk_s=30.0, tool_call_gap_s=30.0, connect_s=10.0)


class ProviderSetup:
    """Writes the first provider into the settings. `file` is `--config`, else the usual one."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file

    def offers(self) -> Sequence[Offer]:
        """What can be set up, the likeliest first: those whose key is there already."""
        offers = [
            Offer(
                type=service.type,
                label=service.label,
                base_url=_usual_url(service.type),
                key_env=service.key_env,
                needs_key=not service.local,
                model=service.default_model or "",
            )
            for service in SERVICES
        ]
        return sorted(offers, key=lambda offer: not any(map(os.environ.get, offer.key_env)))

    async def try_out(self, draft: Draft) -> str:
        """Make one small request; returns what to tell the person.

        Raises:
            ConfigError: the address is not acceptable, or the key is not there.
            ProviderError: the service could not be reached or refused.
        """
        client = HttpClient()
        try:
            stream_fn = provider(wire_of(draft.type)).make(_settings(draft), client)
            context = LlmContext(system_prompt="", messages=[user_text("Answer with one word: ok")])
            options = StreamOptions(model=f"{draft.type}/{draft.model}", max_output_tokens=64)
            async for event in stream_fn(context, options, AbortSignal()):
                if isinstance(event, StreamError):
                    raise event.error
                if isinstance(event, StreamDone):
                    return f"{draft.model} answered."
        finally:
            await client.aclose()
        return f"{draft.model} said nothing, but the service accepted the request."

    def save(self, draft: Draft) -> str:
        """Store it as the default provider; returns where. Raises ConfigError, FileError."""
        usual = _usual_url(draft.type)
        written = save_provider(
            draft.type,
            kind=draft.type,
            model=draft.model,
            base_url=draft.base_url if draft.base_url != usual else None,
            api_key_env=draft.key_env or None,
            key=draft.key or None,
            file=self._file,
        )
        return str(written)


def _usual_url(provider_type: str) -> str:
    return SERVICE_OF[provider_type].base_url or provider(wire_of(provider_type)).default_base_url


def _settings(draft: Draft) -> ProviderSettings:
    if draft.base_url:
        check_base_url(draft.base_url)
    key = draft.key or os.environ.get(draft.key_env, "")
    if draft.key_env and not key:
        raise ConfigError(f"{draft.key_env} is not set.", hint=f"export {draft.key_env}=…")
    return ProviderSettings(
        alias=draft.type,
        type=draft.type,
        base_url=draft.base_url or _usual_url(draft.type),
        api_key=key or None,
        timeouts=_PATIENCE,
    )
