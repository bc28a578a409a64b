"""The wire formats of model services, one module each: `events(reply)` is a streamed answer."""

import importlib
from types import ModuleType

BASE_PATHS = {
    "openai": "/v1",
    "openai-responses": "/v1",
    "anthropic": "",
    "gemini": "",
    "ollama": "",
}
"""What the base URL of each provider type ends in."""

_PATHS = {
    "/v1/messages": "anthropic",
    "/responses": "responses",
    ":streamGenerateContent": "gemini",
    "/api/chat": "ollama",
    "/chat/completions": "openai",
}


def wire_at(path: str) -> ModuleType:
    """Return the module of the format for requests to `path`."""
    name = next((name for part, name in _PATHS.items() if part in path), "openai")
    return _loaded(name)


def wire_of(kind: str) -> ModuleType:
    """Return the module of the format of a provider type."""
    return _loaded(kind.removeprefix("openai-"))


def _loaded(name: str) -> ModuleType:
    return importlib.import_module(f"dirge_py.testing.wire_formats.{name}")
