"""Every error dirge raises on purpose.

A *bug* in a tool or hook raises another exception; the loop turns it into an error result.
"""

import os
import shlex
from typing import Literal

ErrorKind = Literal[
    "auth",
    "usage_cap",
    "rate_limit",
    "server",
    "context_length",
    "proxy_page",
    "network",
    "invalid_request",
    "refused",
    "aborted",
    "other",
]

RETRYABLE_KINDS: frozenset[ErrorKind] = frozenset({"rate_limit", "server", "proxy_page", "network"})

OUT_OF_REACH_KINDS: frozenset[ErrorKind] = RETRYABLE_KINDS | {"auth", "usage_cap"}
"""Errors of a service, not of the request: another service may well answer."""


class DirgeError(Exception):
    """An error with a message for the user, and a hint what to do about it."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message

    def in_one_line(self) -> str:
        """Return the message and the hint, as a model reads them."""
        return f"{self.message} {self.hint}".strip()


class UsageError(DirgeError):
    """The command line is wrong (exit code 2)."""


class ConfigError(DirgeError):
    """A setting is wrong or missing (exit code 2)."""


class NoProvider(ConfigError):
    """No provider can be used: none is configured, or its key is missing."""


class SessionError(DirgeError):
    """A session's journal cannot be opened, read or written."""


class SessionBusy(SessionError):
    """Another process holds the writer's lock of the session `session_id`."""

    def __init__(self, message: str, *, session_id: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.session_id = session_id


class SessionElsewhere(SessionError):
    """The session `session_id` belongs to another project, in `folder`.

    `is_fork` tells whether a copy of it was asked for.
    """

    def __init__(self, session_id: str, folder: str) -> None:
        hint = f"Run `dirge -C {shlex.quote(folder)} -r {session_id}`."
        if not (has_folder := os.path.isdir(folder)):
            hint = "Create the folder again to continue it."
        gone = "" if has_folder else ", which no longer exists"
        text = f"Session {session_id} belongs to another project, in {folder}{gone}."
        super().__init__(text, hint=hint)
        self.session_id, self.folder, self.has_folder = session_id, folder, has_folder
        self.is_fork = False


class FileError(DirgeError):
    """A file cannot be read or written as asked; nothing was changed."""


class ProcessError(DirgeError):
    """A command cannot be started."""


class ProviderError(DirgeError):
    """A model service refused, or the connection broke.

    `status` is the HTTP status if there was one, `retry_after_s` how long the server asked us to
    wait, `raw` the service's response, shortened. `phase` says whether the answer had begun.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: ErrorKind = "other",
        status: int | None = None,
        retry_after_s: float | None = None,
        raw: str = "",
        hint: str = "",
        phase: Literal["establish", "stream"] = "establish",
    ) -> None:
        super().__init__(message, hint=hint)
        self.kind: ErrorKind = kind
        self.status = status
        self.retry_after_s = retry_after_s
        self.raw = raw
        self.phase = phase

    @property
    def is_retryable(self) -> bool:
        return self.kind in RETRYABLE_KINDS


class ActivityFailed(DirgeError):
    """A durable engine's activity took too long or failed too often; `kind` is the last one's."""

    def __init__(self, message: str, *, kind: str, attempts: int) -> None:
        super().__init__(message)
        self.kind = kind
        self.attempts = attempts


class LoopError(DirgeError):
    """A run that was awaited for its answer ended without one; `outcome` says how."""

    def __init__(self, message: str, *, outcome: object, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.outcome = outcome


class ToolFailed(DirgeError):
    """The tool failed. The message is for the model and names the next step.

    `outcome` becomes `details["outcome"]` of the result (see `tools.ToolOutcome`).
    """

    def __init__(
        self, message: str, *, outcome: str = "error", details: dict[str, object] | None = None
    ) -> None:
        super().__init__(message)
        self.outcome = outcome
        self.details = details or {}


class ModelRetry(DirgeError):
    """The arguments can't be used; the message tells the model what to change."""
