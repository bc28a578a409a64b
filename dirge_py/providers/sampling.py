"""Adds the configured sampling to requests, without the parts that a model refuses.

Known to refuse: OpenAI's reasoning models any temperature, top_p and stop (openai.com reference of
Chat Completions, BerriAI/litellm #15244), the Responses interface stop sequences, Claude models
from 4.7 on temperature and top_p (BerriAI/litellm #26444), earlier ones while they think
("Extended thinking" in Anthropic's docs). Other refusals are learned from the service's error.
"""

import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dirge_py.config.services import service_of
from dirge_py.providers.adapter import retry_without, with_options
from dirge_py.providers.openai import is_openai
from dirge_py.providers.settings import ProviderSettings, model_id
from dirge_py.types.errors import ProviderError
from dirge_py.types.llm import LlmContext, StreamFn, StreamOptions
from dirge_py.types.sampling import Sampling

_LEAST_TOP_P_OF_THINKING = 0.95
_NAMES = {
    "temperature": re.compile(r"\btemperature\b", re.IGNORECASE),
    "top_p": re.compile(r"\btop_?p\b", re.IGNORECASE),
    "stop_sequences": re.compile(r"\bstop(?:[_ ]?sequences)?\b", re.IGNORECASE),
}
_REFUSES = re.compile(
    r"unsupported|not supported|n[o']t support|deprecated|not permitted|only the default"
    r"|unknown (?:parameter|name|field)|unrecognized|extra inputs",
    re.IGNORECASE,
)
_NOT_BOTH = re.compile(r"cannot both be specified", re.IGNORECASE)


class SamplingFilter:
    """The sampling of the models of one service."""

    def __init__(
        self,
        settings: ProviderSettings,
        *,
        wire: str,
        configured: Callable[[str], Sampling],
        notify: Callable[[str], None],
    ) -> None:
        """`configured` returns the sampling of a model (`alias/id`) in the settings.

        `notify` is told once about each part that a model doesn't get.
        """
        self._settings = settings
        self._wire = wire
        self._configured = configured
        self._notify = notify
        self._refused: dict[str, set[str]] = defaultdict(set)
        self._told: dict[str, set[str]] = defaultdict(set)

    def around(self, inner: StreamFn) -> StreamFn:
        """`inner` with the sampling of each call's model."""
        return retry_without(with_options(inner, self._fitted), self._learn)

    def _wanted(self, options: StreamOptions) -> Sampling:
        return options.sampling.over(self._configured(options.model))

    def _fitted(self, options: StreamOptions) -> StreamOptions:
        model, wanted = options.model, self._wanted(options)
        refused = self._known_refusals(options, wanted) | self._refused[model]
        without: dict[str, Any] = {name: getattr(Sampling(), name) for name in refused}
        for name in sorted(_set(wanted) & refused - self._told[model]):
            self._notify(f"`{name}` is left out of requests to {model}, which doesn't accept it.")
        self._told[model] |= _set(wanted) & refused
        return replace(options, sampling=replace(wanted, **without))

    def _known_refusals(self, options: StreamOptions, wanted: Sampling) -> set[str]:
        profile = self._settings.profile(model_id(options.model))
        base_url = self._settings.base_url or service_of(self._wire).base_url
        match self._wire:
            case "openai" | "openai-responses" if profile.thinking and is_openai(base_url):
                return {"temperature", "top_p", "stop_sequences"}
            case "openai-responses":
                return {"stop_sequences"}
            case "anthropic" if profile.adaptive_thinking:
                return {"temperature", "top_p"}
            case "anthropic" if profile.thinking and options.thinking_level != "off":
                is_high = (wanted.top_p or 0) >= _LEAST_TOP_P_OF_THINKING
                return {"temperature"} if is_high else {"temperature", "top_p"}
        return set()

    def _learn(self, error: ProviderError, context: LlmContext, options: StreamOptions) -> bool:
        if error.kind != "invalid_request":
            return False
        said = error.raw or error.message
        wanted = _set(self._wanted(options)) - self._refused[options.model]
        named = {name for name in wanted if _NAMES[name].search(said)}
        if _NOT_BOTH.search(said):
            named &= {"top_p"}
        elif not _REFUSES.search(said):
            return False
        self._refused[options.model] |= named
        return bool(named)


def _set(sampling: Sampling) -> set[str]:
    """The parts that have a value, without `extra`."""
    return {name for name in _NAMES if getattr(sampling, name) not in (None, ())}
