"""One module per wire format: `events(reply)` returns a streamed answer in pieces."""

import importlib
from types import ModuleType

BASE_PATHS = {
    "openai": "/v1",
    "openai-responses": "/v1",
    "anthropic": "",
    "gemini": "",
    "ollama": "",
}
"""By provider type: what its base URL ends in."""

_PATHS = {
    "/v1/messages": "anthropic",
    "/responses": "responses",
    ":streamGenerateContent": "gemini",
    "/api/chat": "ollama",
    "/chat/completions": "openai",
}


def wire_at(path: str) -> ModuleType:
    """The wire format for requests to `path`."""
    name = next((name for part, name in _PATHS.items() if part in path), "openai")
    return _loaded(name)


def wire_of(kind: str) -> ModuleType:
    """The format of a provider type."""
    return _loaded(kind.removeprefix("openai-"))


def _loaded(name: str) -> ModuleType:
    return importlib.import_module(f"tests.providers.wires.{name}")
