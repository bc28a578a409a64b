"""How a service departs from the wire format it speaks: switches, and data for them."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal

from dirge_py.lib.lean_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The rows of known services hold these; None and empty: as the format's own service does.

    `thinking` gives members of the request's body by thinking level, `off` among them; a level that
    is missing adds nothing. `body_of` are members of requests to models whose id begins as it says.
    `thinking_back`: the name under which the model's thinking is sent back to it with its calls,
    where the service wants it.
    `call_id_chars`: the length that ids of calls must have, made of letters and digits.
    `structured`: how an answer after a schema is asked for; "none": in words only.
    `thinks_when_forced`: False where a model cannot think in a turn in which it must call a tool.
    `cache_key`: requests say which of them begin alike, as they do to OpenAI itself (cache_key.py).
    `tells_cost`: its usage has a `cost` in US dollars.
    """

    system_role: Literal["system", "developer", "user"] | None = None
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] | None = None
    stream_usage: bool = True
    thinking: Mapping[str, Mapping[str, Any]] | None = None
    body_of: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    thinking_back: Literal["", "reasoning_content", "reasoning", "reasoning_details"] = ""
    call_id_chars: int | None = None
    structured: Literal["json_schema", "json_object", "none"] | None = None
    thinks_when_forced: bool = True
    cache_key: bool = False
    tells_cost: bool = False


def merged(body: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """`body` with the members of `more`; tables that both have are merged, `more` wins else."""
    both = dict(body)
    for name, value in more.items():
        here = both.get(name)
        if isinstance(here, Mapping) and isinstance(value, Mapping):
            value = merged(here, value)
        both[name] = value
    return both
