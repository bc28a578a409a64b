"""Runs killed repeatedly, after any record: each call gets one result, and none runs twice.

Each process runs a real conversation with a scripted model. A kill is simulated by truncating the
journal; tools record the length of the journal when they ran, so that lost work is detected.
"""

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dirge_py.conversation.conversation import Conversation
from dirge_py.providers.scripted import Reply
from dirge_py.sdk.assembly import Blueprint, assemble, bare_config
from dirge_py.session.codec import decode_message
from dirge_py.session.journal import read_journal
from dirge_py.session.recovery import decide_calls
from dirge_py.session.store import Store
from dirge_py.session.transcript import CallChoice, InterruptedRun
from dirge_py.testing import ScriptedModel, assert_balanced
from dirge_py.types.history import normalize_history
from dirge_py.types.llm import LlmContext
from dirge_py.types.messages import AssistantMessage, ToolCallBlock, ToolResultMessage
from dirge_py.types.outcomes import Done
from dirge_py.types.tools import Claim, text_result
from tests.security.sizes import size
from tests.support.loop_runs import Tool

KINDS = {"look": "read", "press": "other"}


@dataclass(frozen=True)
class Wanted:
    """A tool call the model makes: its tool, and how long it takes."""

    tool: str
    breaths: int


@dataclass
class Acting(Tool):
    """Records each call in `acts`, with what was on disk when it ran."""

    life: Any = None

    def claims(self, arguments: Any) -> Sequence[Claim]:
        return [Claim(KINDS[self.name], "x")]  # type: ignore[arg-type]

    async def execute(self, call_id: str, arguments: Any, signal: Any, on_update: Any) -> Any:
        self.life.acts.append((call_id, self.life.length))
        for _ in range(arguments["breaths"]):
            await asyncio.sleep(0)
        return text_result(f"{call_id} done")


@dataclass
class SessionProcess:
    """One process that has the session open."""

    base: Path
    calls: Sequence[Wanted]
    is_sequential: bool
    begun_at: int = 0
    acts: list[tuple[str, int]] = field(default_factory=list)
    model: ScriptedModel = field(default_factory=ScriptedModel)

    @property
    def store(self) -> Store:
        return Store(self.base / "state", self.base)

    @property
    def journal(self) -> Path:
        return self.store.folder / "s.jsonl"

    @property
    def length(self) -> int:
        return len(read_journal(self.journal).records)

    def open(self) -> Conversation:
        mode: Any = "sequential" if self.is_sequential else None
        tools = [Acting(name=name, life=self, execution_mode=mode) for name in KINDS]
        self.model.will(self._reply).will(self._reply).will(self._reply)
        plan = Blueprint(
            stream_fn=self.model.stream_fn,
            tools=tools,
            store=self.store,
            config=bare_config(mode="yolo", max_turns=100, fatal_errors=()),
            cwd=self.base,
        )
        return assemble(plan, "s")

    def _reply(self, context: LlmContext) -> Reply:
        if any(isinstance(message, AssistantMessage) for message in context.messages):
            return Reply(text="All done.")
        return Reply(
            calls=[
                ToolCallBlock(
                    id=f"c{n}", name=call.tool, arguments={"at": n, "breaths": call.breaths}
                )
                for n, call in enumerate(self.calls)
            ]
        )

    def cut(self, at: float) -> None:
        """Truncate the journal after one of its records, the prompt's at the earliest."""
        records = read_journal(self.journal).records
        prompt = next(n for n, record in enumerate(records) if record.type == "message") + 1
        first = max(prompt, self.begun_at)
        keep = first + round(at * (len(records) - first))
        lines = self.journal.read_bytes().split(b"\n")
        self.journal.write_bytes(b"\n".join(lines[:keep]) + b"\n")
        self.acts = [(call_id, length) for call_id, length in self.acts if length <= keep]


def known(journal: Path) -> tuple[dict[str, str], set[str], dict[str, CallChoice]]:
    """The results, the started calls without one, and the choices since."""
    results: dict[str, str] = {}
    begun: set[str] = set()
    chosen: dict[str, CallChoice] = {}
    for record in read_journal(journal).records:
        match record.type, record.data:
            case "message", {"role": "toolResult", "tool_call_id": call_id} as result:
                results[call_id] = result_text(result)
            case "tool_finished", {"call_id": call_id, "result": result}:
                results[call_id] = result_text(result)
            case "tool_started", {"call_id": call_id}:
                begun.add(call_id)
                chosen.pop(call_id, None)
            case "interruption", {"choices": choices}:
                chosen |= choices
    return results, begun - set(results), chosen


def result_text(encoded: dict[str, Any]) -> str:
    message = decode_message(encoded)
    assert isinstance(message, ToolResultMessage)
    return message.text


async def continue_interrupted_run(
    life: SessionProcess, choices: Sequence[CallChoice]
) -> tuple[Conversation, InterruptedRun | None, set[str]]:
    """The closed conversation, its interruption at the start, and the calls chosen to run again."""
    conversation = life.open()
    interruption = conversation.interruption
    again: set[str] = set()
    if interruption is not None:
        picked = {
            one.call.id: choices[int(one.call.id[1:]) % len(choices)]
            for one in interruption.undecided
        }
        decided = {one.call.id: one.chosen or picked[one.call.id] for one in interruption.unknown}
        again = {call_id for call_id, choice in decided.items() if choice == "again"}
        assert isinstance(await conversation.continue_run(decide_calls(interruption, picked)), Done)
    await conversation.close()
    return conversation, interruption, again


async def run_with_kills(
    base: Path,
    calls: Sequence[Wanted],
    is_sequential: bool,
    cuts: Sequence[float],
    choices: Sequence[CallChoice],
) -> None:
    life = SessionProcess(base, calls, is_sequential)
    conversation = life.open()
    assert isinstance(await conversation.send("go"), Done)
    await conversation.close()
    pressed: dict[str, int] = {}
    allowed: dict[str, int] = {}
    for at in cuts:
        life.cut(at)
        for call_id, _ in life.acts:
            pressed[call_id] = pressed.get(call_id, 0) + 1
        results, begun, chosen = known(life.journal)
        life = SessionProcess(base, calls, is_sequential, begun_at=life.length)
        conversation, interruption, again = await continue_interrupted_run(life, choices)
        ran = [call_id for call_id, _ in life.acts]
        if interruption is None:
            assert not ran
            continue
        presses = {f"c{n}" for n, call in enumerate(calls) if call.tool == "press"}
        assert len(ran) == len(set(ran))
        assert not set(results) & set(ran), "what was finished ran again"
        assert begun & presses & set(ran) == again, "an unknown call ran without a word, or did not"
        assert not {call_id for call_id in chosen if chosen[call_id] != "again"} & set(ran)
        answers = [m for m in conversation.messages if isinstance(m, AssistantMessage)]
        asked = {call.id for answer in answers for call in answer.calls}
        assert set(ran) - again == asked - set(results) - (begun & presses)
        for call_id in again:
            allowed[call_id] = allowed.get(call_id, 0) + 1
        check_answers(conversation, life.model, results)
    for call_id, _ in life.acts:
        pressed[call_id] = pressed.get(call_id, 0) + 1
    for number, call in enumerate(calls):
        call_id = f"c{number}"
        if call.tool == "press":
            assert pressed.get(call_id, 0) <= 1 + allowed.get(call_id, 0)


def check_answers(
    conversation: Conversation, model: ScriptedModel, results: dict[str, str]
) -> None:
    """Check that each call has one answer, in the order of the calls, stored as sent."""
    assert_balanced(conversation.messages)
    results_by_call = {
        m.tool_call_id: m.text for m in conversation.messages if isinstance(m, ToolResultMessage)
    }
    assert {call_id: results_by_call[call_id] for call_id in results} == results
    sent = [m.tool_call_id for m in model.seen[-1].messages if isinstance(m, ToolResultMessage)]
    assert sent == sorted(sent)
    assert normalize_history(conversation.messages).closed == 0


@settings(max_examples=size(25, 3000), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    calls=st.lists(
        st.builds(Wanted, st.sampled_from(sorted(KINDS)), st.integers(0, 3)), min_size=1, max_size=4
    ),
    is_sequential=st.booleans(),
    cuts=st.lists(st.floats(0, 1), min_size=1, max_size=3),
    choices=st.lists(st.sampled_from(["inspect", "done", "again"]), min_size=1, max_size=3),
)
def test_after_repeated_kills_each_call_has_one_result_and_none_reruns_unasked(
    calls: Sequence[Wanted],
    is_sequential: bool,
    cuts: Sequence[float],
    choices: Sequence[CallChoice],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run_with_kills(Path(folder), calls, is_sequential, cuts, choices))
