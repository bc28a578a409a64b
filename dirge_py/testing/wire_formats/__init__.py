"""The wire formats of model services, one module each: `events(reply)` is a streamed answer."""

from types import ModuleType

from dirge_py.testing.wire_formats import anthropic, gemini, ollama, openai, responses

BASE_PATHS = {
    "openai": "/v1",
    "openai-responses": "/v1",
    "anthropic": "",
    "gemini": "",
    "ollama": "",
}
"""What the base URL of each provider type ends in."""

_PATHS = {
    "/v1/messages": anthropic,
    "/responses": responses,
    ":streamGenerateContent": gemini,
    "/api/chat": ollama,
    "/chat/completions": openai,
}
_TYPES = {
    "openai": openai,
    "openai-responses": responses,
    "anthropic": anthropic,
    "gemini": gemini,
    "ollama": ollama,
}


def wire_at(path: str) -> ModuleType:
    """Return the module of the format for requests to `path`."""
    return next((module for part, module in _PATHS.items() if part in path), openai)


def wire_of(kind: str) -> ModuleType:
    """Return the module of the format of a provider type."""
    return _TYPES[kind]
