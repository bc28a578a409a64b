"""Who is being asked: what errors need to name, and what they must not."""

import re
from dataclasses import field
from urllib.parse import urlsplit

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.providers.base import ProviderSettings, Redact

RAW_CHARS = 2000
_SECRETS_SHORTER_THAN_THIS_ARE_WORDS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One request's address. `key_hint` says how to give a key; `api_key` is in no repr."""

    alias: str
    url: str
    model: str
    key_hint: str
    api_key: str = field(default="", repr=False)
    redact: Redact = field(repr=False)

    @property
    def host(self) -> str:
        return urlsplit(self.url).netloc

    def told(self, text: str) -> str:
        """A service's words as they may be kept and shown: without the key, at most 2 kB."""
        if len(self.api_key) >= _SECRETS_SHORTER_THAN_THIS_ARE_WORDS:
            text = text.replace(self.api_key, "[key]")
        text = self.redact(text)
        return text if len(text) <= RAW_CHARS else text[: RAW_CHARS - 2] + " …"

    def in_a_line(self, text: str, limit: int = 300) -> str:
        """`told`, on one line and short enough for a sentence."""
        line = re.sub(r"\s+", " ", self.told(text)).strip().rstrip(".")
        return line if len(line) <= limit else line[: limit - 2] + " …"


def endpoint(
    settings: ProviderSettings, *, url: str, model: str, key: str | None, key_env: tuple[str, ...]
) -> Endpoint:
    """The address of one request made with `settings`."""
    variable = key_env[0] if key_env else f"{settings.alias.upper().replace('-', '_')}_API_KEY"
    return Endpoint(
        alias=settings.alias,
        url=url,
        model=model,
        key_hint=f"Check {settings.key_place}."
        if settings.key_place
        else f"Set {variable}, or `api_key_env` of `[providers.{settings.alias}]`.",
        api_key=key or "",
        redact=settings.redact,
    )
