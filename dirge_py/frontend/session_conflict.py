"""A session that another process writes: what a person can have of it all the same."""

from collections.abc import Sequence
from typing import Literal

from dirge_py.types.errors import SessionBusy
from dirge_py.types.questions import Question, QuestionAnswer, QuestionOption

Way = Literal["write", "fork", "view"]
"""How a stored session is opened: to go on in it, as a copy of its own, only to look."""

_WAYS: dict[str, Way] = {"go on in a copy": "fork", "only look": "view"}
_DETAILS = {
    "go on in a copy": "a new session with the same history; the other one is not touched",
    "only look": "as it stands now; nothing can be sent",
}
_CANCEL = "cancel"


def question_about(error: SessionBusy) -> Question:
    """What is to become of a start that found its session busy."""
    ways = [QuestionOption(label=label, description=_DETAILS[label]) for label in _WAYS]
    return Question(
        header="Busy",
        question=f"{error.message} What shall be done?",
        options=(*ways, QuestionOption(label=_CANCEL)),
        is_open=False,
    )


def way_from(answers: Sequence[QuestionAnswer] | None) -> Way | None:
    """What was chosen; None: nothing of it."""
    chosen = answers[0].chosen if answers else ()
    return _WAYS.get(chosen[0]) if chosen else None
