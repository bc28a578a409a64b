"""The open plan and todo list survive a compaction."""

import pytest

from dirge_py.plan.state import PlanState, PlanStatus
from dirge_py.sdk.build import describe_open_work
from dirge_py.session.recorder import SessionMetadata
from dirge_py.tools.todo_list import TodoItem, TodoList


def open_work_text(**members: object) -> str:
    """The text about this plan and one todo item that a model gets after a compaction."""
    todo, kept = TodoList(), SessionMetadata()
    todo.give([TodoItem(id="1", text="write it")])
    kept.put("plan", PlanState(request="x", plan="1. Write it.", **members).stored())  # type: ignore[arg-type]
    return describe_open_work(todo, kept)


def test_accepted_plan_is_in_the_open_work_after_compaction() -> None:
    assert open_work_text(is_accepted=True) == (
        "The plan that was accepted:\n\n1. Write it.\n\n[ ] write it"
    )


@pytest.mark.parametrize("status", ["verified", "not_verified", "dropped"])
def test_finished_plan_is_not_in_the_open_work(status: PlanStatus) -> None:
    assert open_work_text(is_accepted=True, status=status) == "[ ] write it"


def test_plan_that_was_not_accepted_is_not_in_the_open_work() -> None:
    assert open_work_text(status="waiting") == "[ ] write it"
