"""The phases of plans in a loaded session."""

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dirge_py.session.history import plan_events_in
from dirge_py.session.record import Record
from dirge_py.types.events import EvidenceTaken, PlanPhase
from dirge_py.types.messages import Usage
from tests.support.project import ScriptedProject


def records(*typed_data: tuple[str, Any]) -> list[Record]:
    return [
        Record(seq=n, ts="", type=kind, id=str(n), parent=str(n - 1) if n else None, data=data)
        for n, (kind, data) in enumerate(typed_data)
    ]


def phase(name: str, step: int = 1) -> tuple[str, dict[str, Any]]:
    return "phase", {"phase": name, "step": step}


MESSAGE = ("message", {"role": "user", "content": []})


def test_implement_phase_is_placed_before_its_messages_and_review_after_them() -> None:
    found = plan_events_in(
        records(
            MESSAGE,
            phase("explore"),
            phase("plan"),
            MESSAGE,
            MESSAGE,
            phase("implement"),
            phase("review"),
            MESSAGE,
            phase("implement", 2),
            phase("review", 2),
        )
    )
    assert [(at, typed_data.phase, typed_data.step) for at, typed_data in found] == [
        (1, "explore", 1),
        (1, "plan", 1),
        (1, "implement", 1),
        (3, "review", 1),
        (3, "implement", 2),
        (4, "review", 2),
    ]


async def test_reported_plan_phase_and_evidence_are_read_back_unchanged(home: Path) -> None:
    project = ScriptedProject(home)
    ended = PlanPhase(
        phase="review",
        step=2,
        state="ended",
        summary="Two are missing.",
        text="**Two** are missing.",
        shut_in="a copy",
        duration_ms=1500,
        usage=Usage(input=10, output=2, cache_read=4),
        cost_usd=None,
    )
    taken = EvidenceTaken(
        id="E3",
        phase="review",
        step=2,
        command="make",
        outcome="timeout",
        exit_code=None,
        output_sha256="ab",
        tree="cd",
    )
    project.model.will_say("Yes.")
    async with project.open() as conversation:
        await conversation.send("Count.")
        started = PlanPhase(phase="review", step=2, state="started")
        for event in (started, taken, ended):
            conversation.report(event)
        assert plan_events_in(conversation.timeline.records()) == [(2, taken), (2, ended)]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.floats(),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                ["phase", "step", "outcome", "usage", "cost_usd", "exit_code", "messages"]
            ),
            inner | st.sampled_from(["review", "implement", "passed"]),
            max_size=6,
        )
    ),
    max_leaves=8,
)


@given(st.lists(st.tuples(st.sampled_from(["phase", "evidence", "context", "message"]), JSON)))
def test_damaged_phase_records_are_left_out_and_positions_never_decrease(
    typed_data: list[Any],
) -> None:
    found = plan_events_in(records(*typed_data))
    places = [at for at, _ in found]
    assert places == sorted(places)
    assert all(at >= 0 for at in places)
    assert all(each.phase in ("explore", "plan", "implement", "review") for _, each in found)
