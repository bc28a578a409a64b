"""A model service whose answers ask for work that a crash could damage.

A counter shared by all processes of a session decides what an answer asks for, so that no two
answers ask for the same work. The service checks every request as a strict service would.
"""

import itertools
from pathlib import Path
from typing import Any

from tests.security.sizes import size
from tests.support.fake_service import FakeService, ModelReply, ReceivedRequest
from tests.support.product import Service

TURNS = size(6, 30)
PATCHED = ("a.txt", "b.txt", "c.txt")
FILLER = "nothing changes here – é\n" * 2000
LINES = 4000
SUMMARY = ModelReply(text="## Active task\nWork in turn.\n## Goal\nA counter that goes up.")


class CrashService(Service):
    """Answers runs in a loop; `begin` marks the requests of a new process.

    `faults` are what a strict service would have refused, `split` the states in which a patch of
    three files was found at the beginning of a process.
    """

    def __init__(self, project: Path) -> None:
        super().__init__()
        self.project = project
        self.faults: list[str] = []
        self.split: list[set[str]] = []
        self.answers = itertools.count(1)
        self.turn = 0

    def prepare(self) -> None:
        for name in PATCHED:
            (self.project / name).write_text("version 0\n")
        (self.project / "notes.txt").write_text(f"state 0\n{FILLER}")
        (self.project / "big.txt").write_text("0\n" * LINES)

    def begin(self) -> None:
        self.turn = 0

    async def _answer(self, reply: Any, request: ReceivedRequest, *streams: Any) -> bool:
        with self._arrived:
            self._arrived.notify_all()
        return await FakeService._answer(self, self.say(request), request, *streams)

    def say(self, request: ReceivedRequest) -> ModelReply:
        asked = request.json
        self.faults += faults_on_the_wire(asked["messages"])
        if "tools" not in asked:
            return SUMMARY
        if self.turn == 0:
            states = {(self.project / name).read_text() for name in PATCHED}
            if len(states) != 1:
                self.split.append(states)
        self.turn += 1
        if self.turn > TURNS:
            return ModelReply(text="Done for now.", usage=(2000, 20, 0, 0))
        return self.work(next(self.answers))

    def work(self, number: int) -> ModelReply:
        notes = (self.project / "notes.txt").read_text()
        match number % 6:
            case 1:
                names = ["notes.txt", *PATCHED, "big.txt"]
                return ModelReply(
                    text=f"Look {number}.",
                    calls=[("read", {"path": name, "limit": 5}) for name in names],
                )
            case 2:
                old = notes.partition("\n")[0]
                edit = {"path": "notes.txt", "old_text": old, "new_text": f"state {number}"}
                return ModelReply(calls=[("edit", edit)])
            case 3:
                steps = [
                    {
                        "action": "update",
                        "path": name,
                        "old_text": (self.project / name).read_text().strip(),
                        "new_text": f"version {number}",
                    }
                    for name in PATCHED
                ]
                return ModelReply(calls=[("apply_patch", {"operations": steps})])
            case 4:
                return ModelReply(calls=[("bash", {"command": f"{count_up(number)}; seq 1 6000"})])
            case 5:
                return ModelReply(
                    calls=[
                        ("bash", {"command": count_up(f"{number}a")}),
                        ("read", {"path": "notes.txt", "limit": 1500}),
                        ("bash", {"command": count_up(f"{number}b")}),
                    ]
                )
            case _:
                content = f"{number}\n" * LINES
                return ModelReply(calls=[("write", {"path": "big.txt", "content": content})])


def count_up(token: object) -> str:
    return f"echo {token} >> counter.txt"


def faults_on_the_wire(messages: list[dict[str, Any]]) -> list[str]:
    """Why a strict Chat Completions service would reject these messages."""
    found = []
    awaited: list[str] = []
    for number, message in enumerate(messages):
        if message["role"] == "tool":
            if message["tool_call_id"] not in awaited:
                found.append(f"{number}: unexpected result {message['tool_call_id']}")
                continue
            awaited.remove(message["tool_call_id"])
            continue
        if awaited:
            found.append(f"{number}: no result for {awaited}")
        awaited = [call["id"] for call in message.get("tool_calls") or ()]
        if len(set(awaited)) != len(awaited):
            found.append(f"{number}: one id twice")
        if not message.get("content") and not awaited:
            found.append(f"{number}: empty")
    if awaited:
        found.append(f"open: {awaited}")
    if messages[-1]["role"] == "assistant":
        found.append("an answer comes last")
    return found
