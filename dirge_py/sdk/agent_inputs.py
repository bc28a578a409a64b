"""What an agent can be given.

Who answers when a call may not simply run: code of the embedder's, or one word.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.messages import UserBlock, UserMessage, user_text
from dirge_py.types.questions import Asker, PermissionAnswer, PermissionRequest


@dataclass(frozen=True, slots=True)
class Text:
    """A prompt of plain text."""

    text: str


@dataclass(frozen=True, slots=True)
class Blocks:
    """A prompt of several blocks: text, and images of the thread."""

    blocks: tuple[UserBlock, ...]


@dataclass(frozen=True, slots=True)
class Continue:
    """Go on from where the thread stands, after `NeedsMoreTurns` or a run that was stopped."""


@dataclass(frozen=True, slots=True)
class Resume:
    """Go on after `AwaitingConfirmation`, with what was decided about the call that waits.

    `continuation` is the one of that outcome. Without `confirmed` the model is told `reason`.
    """

    continuation: Mapping[str, Any]
    tool_call_id: str
    confirmed: bool
    reason: str | None = None


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
"""`deny` says no, `defer` ends the run with a continuation, `abort` ends it; a function is asked
about one call at a time and says True, False or more; an `Asker` is asked as a front end is."""


def as_asker(asking: Asking) -> Asker:
    if isinstance(asking, str):
        return _Always(PermissionAnswer(effect=asking))
    if callable(asking):
        return _Asked(asking)
    return asking


class _Always:
    def __init__(self, answer: PermissionAnswer) -> None:
        self._answer = answer

    async def permission(self, requests: Sequence[PermissionRequest]) -> Sequence[PermissionAnswer]:
        return [self._answer for _ in requests]


class _Asked:
    def __init__(self, function: AskFunction) -> None:
        self._function = function

    async def permission(self, requests: Sequence[PermissionRequest]) -> Sequence[PermissionAnswer]:
        return [await self._answer(request) for request in requests]

    async def _answer(self, request: PermissionRequest) -> PermissionAnswer:
        said = self._function(request)
        answer = await said if inspect.isawaitable(said) else said
        if isinstance(answer, PermissionAnswer):
            return answer
        # Nothing but a plain True is a yes: a forgotten `return` must not let a call run.
        return PermissionAnswer(effect="allow" if answer is True else "deny")
