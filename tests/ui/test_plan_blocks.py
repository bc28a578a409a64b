"""Phases of a plan in the transcript: headings, forks, evidence, outcome."""

from dataclasses import replace
from typing import Any

import pytest

from dirge_py.types.events import (
    AgentEnd,
    AgentStart,
    EvidenceTaken,
    ForkEvent,
    LoopEvent,
    MessageEnd,
    PermissionAnswered,
    PermissionAsked,
    PhaseName,
    PlanPhase,
    ToolExecutionEnd,
    ToolExecutionStart,
)
from dirge_py.types.messages import Usage, user_text
from dirge_py.types.outcomes import Done
from dirge_py.types.tools import text_result
from dirge_py.ui.transcript.positions import whole_text
from dirge_py.ui.transcript.renderer import PlanEvent
from tests.ui.test_blocks import RenderedEvents, answer, says

CALL: dict[str, Any] = {"tool_call_id": "c", "tool_name": "grep"}
USED = Usage(input=45_300, output=1_200)


def started(phase: PhaseName = "explore", **more: Any) -> PlanPhase:
    return PlanPhase(**{"phase": phase, "step": 1, "state": "started", **more})


def ended(phase: PhaseName = "explore", **more: Any) -> PlanPhase:
    return replace(started(phase, **more), state="ended")


def forked(*events: LoopEvent, phase: PhaseName = "explore") -> list[LoopEvent]:
    return [ForkEvent(phase=phase, step=1, event=event) for event in events]


def taken(number: int, outcome: str = "passed", **more: Any) -> EvidenceTaken:
    code = {"passed": 0, "failed": 1}.get(outcome)
    facts = {"id": f"E{number}", "phase": "review", "step": 1, "command": "pytest -q", **more}
    return EvidenceTaken(outcome=outcome, exit_code=code, output_sha256="", tree="", **facts)  # type: ignore[arg-type]


EXPLORING = forked(
    AgentStart(run_id="f"),
    MessageEnd(user_text("Only look around.")),
    *says("I look at **it**."),
    answer("I look at **it**."),
    ToolExecutionStart(args={"pattern": "total"}, **CALL),
)
EXPLORED = forked(
    ToolExecutionEnd(result=text_result("shop.py:3"), is_error=False, **CALL),
    AgentEnd(messages=(), outcome=Done()),
)


def test_running_phase_shows_elapsed_time_call_count_and_last_call() -> None:
    rendered = RenderedEvents(started(shut_in="read-only: bubblewrap"), *EXPLORING, width=60)
    seen = rendered.after(34)

    assert seen == (
        "── 1/4 explore ──────────────────── read-only: bubblewrap ──\n"
        '▸ 34 s · 1 call · grep "total"'
    )


def test_ended_phase_shows_duration_tokens_and_cost() -> None:
    end = ended(summary="Found it.", duration_ms=61_400, usage=USED, cost_usd=0.0312)
    seen = RenderedEvents(started(), *EXPLORING, *EXPLORED, end, width=80).seen

    assert seen.splitlines()[1:] == [
        "▸ 1 min 1 s · 1 call · 45.3k in · 1.2k out · $0.0312",
        "  Found it.",
    ]


def test_transcript_of_fork_is_folded_until_expanded() -> None:
    rendered = RenderedEvents(started(), *EXPLORING, *EXPLORED, ended())
    assert "look at" not in rendered.seen

    whole = rendered.expanded_text.splitlines()
    assert "│ I look at it." in whole
    assert '│ ✓ grep "total"  1 line' in whole
    assert "│   shop.py:3" in whole
    # The task of the fork is not a user prompt.
    assert "│ » from dirge, to the model" in whole
    assert not any("›" in line for line in whole)


def test_one_phase_can_be_unfolded_and_folded_alone() -> None:
    rendered = RenderedEvents(started(), *EXPLORING, *EXPLORED, ended(), started("implement"))
    layout, first = rendered.page, rendered.page.blocks[0]
    short = rendered.seen
    first.is_open = True
    layout.refold(first)
    assert '│ ✓ grep "total"' in rendered.seen
    assert rendered.seen.startswith("── 1/4 explore")
    first.is_open = False
    layout.refold(first)
    assert rendered.seen == short
    assert layout.height == len(short.splitlines())


def test_folded_fork_shows_pending_question_and_denial() -> None:
    asked = PermissionAsked(tool_call_id="b", tool_name="bash", claims=(), reason="")
    denied = PermissionAnswered(
        tool_call_id="b", tool_name="bash", effect="deny", policy="plan", reason="only looks"
    )
    rendered = RenderedEvents(started("review"), *forked(asked, phase="review"))
    assert rendered.seen.endswith("bash waits for your answer")
    rendered.draw(*forked(denied, phase="review"))
    assert rendered.seen.endswith("1 denied · bash was denied")


def test_aborted_phase_stops_counting_time() -> None:
    rendered = RenderedEvents(started(), *EXPLORING)
    rendered.after(12)
    rendered.renderer.phases.cut_off()
    assert rendered.after(100).endswith("▸ stopped after 12 s · 1 call")
    assert not rendered.renderer.has_something_to_tick


def test_streamed_text_does_not_redraw_phase_heading_each_time() -> None:
    rendered = RenderedEvents(started(), *EXPLORING)
    heading = rendered.page.blocks[0]
    rendered.draw(*forked(*says("a")))
    version = heading.version
    rendered.draw(*forked(*(each for n in range(50) for each in says("b"))))
    assert heading.version == version


def test_plan_and_report_are_shown_in_full_below_their_phases() -> None:
    plan = "## Steps\n1. count\n2. verify"
    rendered = RenderedEvents(
        started("plan"),
        ended("plan", summary="Steps", text=plan),
        started("review"),
        ended("review", summary="Not done.", text="**Not verified**\n* the count"),
    )
    assert rendered.seen.splitlines() == [
        "── 2/4 plan ─" + "─" * 67,
        "",
        "▎ Steps",
        "▎",
        "▎ 1. count",
        "▎ 2. verify",
        "",
        "── 4/4 review ─" + "─" * 65,
        "  Not done.",
        "",
        "▎ Not verified",
        "▎",
        "▎ • the count",
    ]
    assert rendered.renderer.phases.to_read is None


@pytest.mark.parametrize(
    ("outcome", "line"),
    [
        ("passed", "  ✓ E1 pytest -q  exit 0"),
        ("failed", "  ✗ E1 pytest -q  exit 1"),
        ("denied", "  ⊘ E1 pytest -q  denied"),
        ("timeout", "  ✗ E1 pytest -q  timed out"),
        ("stopped", "  ◌ E1 pytest -q  stopped"),
    ],
)
def test_evidence_line_shows_command_and_outcome(outcome: str, line: str) -> None:
    rendered = RenderedEvents(started("review"), taken(1, outcome))
    assert rendered.seen.splitlines()[-1] == line


def test_failed_evidence_is_never_folded_away() -> None:
    rendered = RenderedEvents(
        started("review"), taken(1, "failed"), *(taken(n) for n in range(2, 30))
    )
    lines = rendered.seen.splitlines()[1:]
    assert len(lines) == 7
    assert "E1 " in lines[0]
    assert lines[-1] == "  … 23 more that passed"
    assert len(rendered.expanded_text.splitlines()) == 30


def test_evidence_of_implement_phase_is_folded() -> None:
    rendered = RenderedEvents(started("implement"), taken(1, phase="implement"))
    assert "E1" not in rendered.seen
    assert "✓  E1 pytest -q  exit 0" in rendered.expanded_text


def test_replayed_phases_keep_their_position_and_content() -> None:
    rendered = RenderedEvents()
    besides: list[tuple[int, PlanEvent]] = [
        (0, ended(text="The findings.", summary="Found it.", duration_ms=5000)),
        (0, ended("plan", text="## Steps\n1. count")),
        (0, ended("implement", duration_ms=9000)),
        (2, taken(1, "failed")),
        (2, ended("review", text="**Not verified**")),
    ]
    rendered.renderer.replay([user_text("Count."), answer("Counted.").message], besides)
    heads = [
        line for line in rendered.seen.splitlines() if line.startswith(("──", "›", "C", "  ✗"))
    ]
    assert [line.strip("─ ") for line in heads] == [
        "1/4 explore",
        "2/4 plan",
        "3/4 implement",
        "› Count.",
        "Counted.",
        "4/4 review",
        "✗ E1 pytest -q  exit 1",
    ]
    assert "The findings." not in rendered.seen
    assert "│ The findings." in rendered.expanded_text


def test_escape_codes_in_forks_and_plans_are_stripped() -> None:
    evil = "a\x1b]0;owned\x07\x1b[31mb"
    rendered = RenderedEvents(
        started(shut_in=evil),
        *forked(ToolExecutionStart(args={"pattern": evil}, **CALL), *says(evil)),
        ended(summary=evil),
        ended("plan", text=evil),
        started("review"),
        taken(1, command=evil),
    )
    for text in (rendered.seen, rendered.expanded_text, whole_text(rendered.page)):
        assert "\x1b" not in text
        assert "owned" not in text


def test_text_for_pager_includes_all_phases() -> None:
    rendered = RenderedEvents(
        started(), *EXPLORING, *EXPLORED, ended(), started("review"), taken(1)
    )
    text = whole_text(rendered.page)
    for words in ("1/4 explore", "I look at **it**.", "shop.py:3", "E1 pytest -q"):
        assert words in text


def test_folded_blocks_of_fork_are_not_painted() -> None:
    rendered = RenderedEvents(started(), *EXPLORING)
    calls = [
        ToolExecutionStart(tool_call_id=str(n), tool_name="read", args={"path": "x"})
        for n in range(1000)
    ]
    rendered.draw(*forked(*calls))
    folded = [block for block in rendered.page.blocks if block.group is not None]
    assert len(folded) > 1000
    for block in folded:
        block.paint = None  # type: ignore[method-assign, assignment]  # Must not be called.
    assert rendered.draw(*forked(*says("y"))).endswith("▸ 1001 calls · writing")
    assert rendered.page.height == 2


def test_reads_of_a_phase_are_grouped_within_it() -> None:
    read = {"tool_name": "read"}
    calls = [
        event
        for n in ("1", "2")
        for event in (
            ToolExecutionStart(tool_call_id=n, args={"path": f"{n}.py"}, **read),
            ToolExecutionEnd(tool_call_id=n, result=text_result("a\nb"), is_error=False, **read),
        )
    ]
    rendered = RenderedEvents(started(), *forked(*calls))
    assert rendered.page.height == 2, "the phase is closed"

    phase, group, *reads = rendered.page.blocks
    phase.is_open = True
    rendered.page.refold(phase)
    assert rendered.seen.splitlines()[2:] == ["", "│ ✓ Read 2 files  1.py, 2.py"]

    group.is_open = True
    rendered.page.refold(group)
    assert rendered.seen.splitlines()[-2:] == [
        "│ │ ✓ read 1.py  2 lines",
        "│ │ ✓ read 2.py  2 lines",
    ]
    phase.is_open = False
    rendered.page.refold(phase)
    assert [rendered.page.is_hidden(block) for block in reads] == [True, True]
