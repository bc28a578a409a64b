"""What is sent to a target."""

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from dirge_py.lib.lean_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A request besides its URL. Headers may hold a key, so they are in no repr."""

    method: Literal["GET", "POST"] = "GET"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)
