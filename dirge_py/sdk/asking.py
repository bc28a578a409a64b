"""Who answers when a call may not simply run: code of the embedder's, or one word."""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, TypeAlias

from dirge_py.types.questions import Asker, PermissionAnswer, PermissionRequest

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
