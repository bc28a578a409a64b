"""`Sampling`: how a model chooses its words, and further members of its requests."""

import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from dirge_py.lib.lean_dataclass import dataclass

WRITTEN_BY_DIRGE = frozenset(
    {
        *("model", "messages", "input", "contents", "prompt", "conversation"),
        *("system", "instructions", "systemInstruction", "system_instruction"),
        *("tools", "tool_choice", "toolConfig", "tool_config", "functions", "function_call"),
        *("stream", "stream_options", "include", "background", "previous_response_id", "n"),
        *("response_format", "format", "truncate", "shift"),
    }
)
"""Members of requests that the conversation depends on, in all wire formats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How a model chooses its words; what is None or empty is left to the service."""

    temperature: float | None = None
    """How much chance decides, from 0 to 2; Anthropic's models accept at most 1."""
    top_p: float | None = None
    """Choose among the most probable tokens up to this total probability, above 0, at most 1."""
    stop_sequences: tuple[str, ...] = ()
    """Texts at which the answer ends; they aren't part of it."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further members of the request's JSON, merged last; objects on both sides are merged."""

    def over(self, base: "Sampling") -> "Sampling":
        """This sampling with the values of `base` where it has none; `extra` has both."""
        return Sampling(
            temperature=base.temperature if self.temperature is None else self.temperature,
            top_p=base.top_p if self.top_p is None else self.top_p,
            stop_sequences=self.stop_sequences or base.stop_sequences,
            extra={**base.extra, **self.extra} if base.extra else self.extra,
        )

    def problem(self) -> str | None:
        """Why no request can have these values; None if one can."""
        if self.temperature is not None and not 0 <= self.temperature <= 2:
            return f"`temperature` must be between 0 and 2, not {self.temperature:g}"
        if self.top_p is not None and not 0 < self.top_p <= 1:
            return f"`top_p` must be above 0 and at most 1, not {self.top_p:g}"
        if not all(self.stop_sequences):
            return "`stop_sequences` must not hold an empty text"
        return extra_problem(self.extra)


def extra_problem(extra: Mapping[str, Any]) -> str | None:
    """Why these members can't be added to a request; None if they can."""
    if reserved := sorted(extra.keys() & WRITTEN_BY_DIRGE):
        named = ", ".join(f"`{name}`" for name in reserved)
        return f"dirge itself writes {named} of each request, so it cannot be replaced: remove it"
    for name, value in extra.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            return f"`{name}` has a value that JSON cannot hold, such as a date or `nan`"
    return None
