"""Questions the program asks a person, and the Protocol of whoever answers."""

from collections.abc import Sequence
from typing import Literal, Protocol

from dirge_py.calls import Preview
from dirge_py.lib.lean_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedClaim:
    """One claim as a person reads it. `resource` is the whole command, path or host, never cut."""

    op: str
    resource: str
    effect: Literal["allow", "ask", "deny"]
    policy: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionRequest:
    """One tool call that may not run before somebody says so.

    `grant` are the rules (`op:pattern`) that "allow for this session" would store, exactly as
    stored; empty when this request cannot be granted for longer than once. `suggestion` is the
    `--allow` rule that would have allowed it, for those who cannot be asked.
    """

    call_id: str
    tool_name: str
    claims: tuple[AskedClaim, ...]
    grant: tuple[str, ...] = ()
    suggestion: str = ""
    preview: Preview | None = None
    cwd: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionAnswer:
    """`allow` once, or for the `session`; or `deny` with an optional comment for the model."""

    effect: Literal["allow", "deny", "defer", "abort"]
    remember: Literal["once", "session"] = "once"
    comment: str = ""


class Asker(Protocol):
    """Answers questions. A cancelled question must take its own dialog down."""

    async def permission(self, requests: Sequence[PermissionRequest]) -> Sequence[PermissionAnswer]:
        """One answer per request, in order."""
