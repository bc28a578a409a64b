"""A plan in line mode: phases, forks, the plan, the question, the evidence."""

from dirge_py.frontend.line.renderer import LineRenderer
from dirge_py.frontend.line.streams import LineWriter
from dirge_py.types.events import (
    EvidenceTaken,
    ForkEvent,
    PermissionAnswered,
    PlanPhase,
    ToolExecutionEnd,
    ToolExecutionStart,
)
from dirge_py.types.tools import text_result
from tests.support.line_driver import LineDriver, play
from tests.support.project import ScriptedProject
from tests.ui.test_plan_in_tui import plans


async def test_plan_is_accepted_run_and_printed_again_on_resume(project: ScriptedProject) -> None:
    plans(project)
    tty = LineDriver(project, mode="accept")
    assert await play(tty, "/plan Count the items.\n1\n") == 0

    order = [
        "Plan, step 1: explore started (",
        "  ● read: shop.py\n",
        "explore ended. Nothing counts yet, says shop.py:1.",
        "* step 19\n",
        "Question: Plan. Run this plan (Count the items)?",
        "Plan, step 1: implement started.",
        "● write: count.py\n",
        "  ✓ E1: exit 0: sh check.sh\n",
        "Plan, step 1: review ended. Verified: 1 requirement",
        "The plan is done, and verified.",
    ]
    places = [tty.output.find(words) for words in order]
    assert -1 not in places, (order[places.index(-1)], tty.output)
    assert places == sorted(places)

    again = LineDriver(project, resumes=tty.conversation.session_id or "")
    await play(again, "")
    assert "* step 19\n" in again.output
    assert again.output.index("implement ended") < again.output.index("> Count the items.")


def test_denial_in_fork_is_printed_once_and_escape_codes_are_stripped() -> None:
    pieces: list[str] = []
    lines = LineRenderer(LineWriter(pieces.append), show_thinking=False)
    evil = "x\x1b]0;owned\x07y"
    call = {"tool_call_id": "c", "tool_name": "bash"}
    denied = text_result("Permission denied: only looks", is_error=True, outcome="denied")
    for event in (
        ToolExecutionStart(args={"command": evil}, **call),
        PermissionAnswered(effect="deny", policy="mode", reason="only looks", **call),
        ToolExecutionEnd(result=denied, is_error=True, **call),  # type: ignore[arg-type]
    ):
        lines.on_event(ForkEvent(phase="explore", step=1, event=event))
    lines.on_event(PlanPhase(phase="plan", step=1, state="ended", summary=evil, text=evil))
    taken = {"phase": "review", "step": 1, "output_sha256": "", "tree": ""}
    lines.on_event(
        EvidenceTaken(id="E1", command=evil, outcome="timeout", exit_code=None, **taken)  # type: ignore[arg-type]
    )
    text = "".join(pieces)

    assert text.count("only looks") == 1
    assert "\x1b" not in text
    assert "owned" not in text
    assert "✗ E1: timed out: xy" in text
