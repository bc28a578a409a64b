"""Questions that may also be answered from another terminal, with `dirge signal`."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dirge_py.conversation.durable.base import DurableContext
from dirge_py.types.questions import Asker, PermissionAnswer, PermissionRequest

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
        sent: dict[str, PermissionAnswer] = {}
        here = asyncio.ensure_future(self._asker.permission(requests))
        elsewhere = asyncio.ensure_future(self._from_elsewhere(requests, sent))
        try:
            await asyncio.wait({here, elsewhere}, return_when=asyncio.FIRST_COMPLETED)
            given = here.result() if here.done() else [sent[one.call_id] for one in requests]
            # A no that came for one of several calls counts, whoever answers the others.
            answers = [
                _refused(sent.get(request.call_id)) or answer
                for request, answer in zip(requests, given, strict=True)
            ]
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
        self, requests: Sequence[PermissionRequest], sent: dict[str, PermissionAnswer]
    ) -> None:
        """Take answers until each call has one."""
        wanted = {request.call_id for request in requests}
        while not wanted <= sent.keys():
            payload = await self._durable.wait_for_signal(SIGNAL)
            match payload:
                case {"call_id": str(call_id), "effect": "allow" | "deny" as effect, **rest}:
                    comment = rest.get("comment", "")
                    sent[call_id] = PermissionAnswer(
                        effect=effect, comment=comment if isinstance(comment, str) else ""
                    )


def _refused(answer: PermissionAnswer | None) -> PermissionAnswer | None:
    return answer if answer is not None and answer.effect == "deny" else None


def _won(task: "asyncio.Future[Any]") -> bool:
    return task.done() and not task.cancelled()


def _as_asked(request: PermissionRequest) -> dict[str, Any]:
    return {
        "call_id": request.call_id,
        "tool": request.tool_name,
        "claims": [{"op": claim.op, "resource": claim.resource} for claim in request.claims],
    }
