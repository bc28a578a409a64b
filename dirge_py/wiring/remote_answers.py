"""Questions that may also be answered from another terminal, with `dirge signal`."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dirge_py.durable.base import DurableContext
from dirge_py.questions import Asker, PermissionAnswer, PermissionRequest

SIGNAL = "answer"
"""The name of the signal; its payload: {"call_id", "effect": "allow" | "deny", "comment"}."""

Note = Callable[[str, Mapping[str, Any]], None]


class RemotelyAnswered:
    """An asker beside which signals are heard, while something is asked and at no other time.

    Whoever answers first is heard: the person before the screen for all calls of a question, or
    signals for one after the other. A signal allows a call once, never for longer. `note` records
    what is asked, so that another terminal can tell what waits.
    """

    def __init__(self, asker: Asker, durable: DurableContext, note: Note) -> None:
        self._asker = asker
        self._durable = durable
        self._note = note

    async def permission(self, requests: Sequence[PermissionRequest]) -> Sequence[PermissionAnswer]:
        """One answer per request, in order."""
        await self._forget_early_answers()
        self._note("asked", {"calls": [_as_asked(request) for request in requests]})
        here = asyncio.ensure_future(self._asker.permission(requests))
        elsewhere = asyncio.ensure_future(self._from_elsewhere(requests))
        try:
            await asyncio.wait({here, elsewhere}, return_when=asyncio.FIRST_COMPLETED)
            answers = here.result() if here.done() else elsewhere.result()
        finally:
            for task in (here, elsewhere):
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(here, elsewhere, return_exceptions=True)
        self._note(
            "answered",
            {"calls": [request.call_id for request in requests], "remotely": not _won(here)},
        )
        return answers

    async def _forget_early_answers(self) -> None:
        """An answer sent before the question was asked is an answer to something else."""
        while await self._durable.wait_for_signal(SIGNAL, 0) is not None:
            pass

    async def _from_elsewhere(
        self, requests: Sequence[PermissionRequest]
    ) -> Sequence[PermissionAnswer]:
        answers: dict[str, PermissionAnswer] = {}
        wanted = [request.call_id for request in requests]
        while any(call_id not in answers for call_id in wanted):
            payload = await self._durable.wait_for_signal(SIGNAL)
            match payload:
                case {"call_id": str(call_id), "effect": "allow" | "deny" as effect, **rest}:
                    comment = rest.get("comment", "")
                    answers[call_id] = PermissionAnswer(
                        effect=effect, comment=comment if isinstance(comment, str) else ""
                    )
        return [answers[call_id] for call_id in wanted]


def _won(task: "asyncio.Future[Any]") -> bool:
    return task.done() and not task.cancelled()


def _as_asked(request: PermissionRequest) -> dict[str, Any]:
    return {
        "call_id": request.call_id,
        "tool": request.tool_name,
        "claims": [{"op": claim.op, "resource": claim.resource} for claim in request.claims],
    }
