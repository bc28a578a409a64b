"""The inputs of an agent, and who answers its permission questions."""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypeVar

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.messages import UserBlock, UserMessage, user_text
from dirge_py.types.questions import Asker, PermissionAnswer, PermissionRequest


@dataclass(frozen=True, slots=True)
class Text:
    """A prompt of plain text."""

    text: str
    """The text."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """A prompt of several blocks: text, and images of the thread."""

    blocks: tuple[UserBlock, ...]
    """The blocks, in order."""


@dataclass(frozen=True, slots=True)
class Continue:
    """Continue the thread after `NeedsMoreTurns` or a run that was stopped."""


@dataclass(frozen=True, slots=True)
class Resume:
    """Continue after `AwaitingConfirmation`, with the decision about the waiting call."""

    continuation: Mapping[str, Any]
    """The continuation of that outcome."""
    tool_call_id: str
    """The call that is decided."""
    confirmed: bool
    """Whether it may run."""
    reason: str | None = None
    """Why not; the model reads it."""


Prompt: TypeAlias = str | Text | Blocks
AgentInput: TypeAlias = Text | Blocks | Continue | Resume


def as_message(prompt: Prompt) -> UserMessage:
    if isinstance(prompt, Blocks):
        return UserMessage(content=tuple(prompt.blocks))
    return user_text(prompt if isinstance(prompt, str) else prompt.text)


Policy: TypeAlias = Literal["deny", "defer", "abort"]
AskFunction: TypeAlias = Callable[
    [PermissionRequest], bool | PermissionAnswer | Awaitable[bool | PermissionAnswer]
]
Asking: TypeAlias = Policy | AskFunction | Asker
"""`deny` denies, `defer` ends the run with a continuation, `abort` ends it; a function is asked
about one call at a time and returns True, False or an answer; an `Asker` is asked as a front end
is."""

T = TypeVar("T")


async def awaited(answer: T | Awaitable[T]) -> T:
    """Return the result of a function that may be async."""
    return await answer if inspect.isawaitable(answer) else answer


def as_asker(asking: Asking) -> Asker:
    if isinstance(asking, str):
        return _FunctionAsker(lambda _request: PermissionAnswer(effect=asking))
    if callable(asking):
        return _FunctionAsker(asking)
    return asking


class _FunctionAsker:
    def __init__(self, function: AskFunction) -> None:
        self._function = function

    async def permission(self, requests: Sequence[PermissionRequest]) -> Sequence[PermissionAnswer]:
        return [await self._answer(request) for request in requests]

    async def _answer(self, request: PermissionRequest) -> PermissionAnswer:
        answer = await awaited(self._function(request))
        if isinstance(answer, PermissionAnswer):
            return answer
        # Only True allows: a forgotten `return` must not let a call run.
        return PermissionAnswer(effect="allow" if answer is True else "deny")
