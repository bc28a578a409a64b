"""Results of our own tools that read better as what they are than as their text for the model."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.style import Style

from dirge_py.lib.text import clean
from dirge_py.ui.ink import Ink

_MARKS = {"done": "☑", "in_progress": "▶", "pending": "☐"}


def todo_items(details: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    """(status, text) of a todo list as its tool tells it in `details`; none if there is none."""
    items = details.get("items")
    if not isinstance(items, Sequence) or isinstance(items, str):
        return ()
    found = [
        (str(item.get("status")), " ".join(clean(str(item.get("text", ""))).split()))
        for item in items
        if isinstance(item, Mapping)
    ]
    return found if all(status in _MARKS for status, _ in found) else ()


def todo_line(status: str, text: str, ink: Ink) -> list[tuple[str, Style]]:
    """One item as it is drawn."""
    style = {"done": ink.dim, "in_progress": ink.text + ink.strong}.get(status, ink.text)
    mark = {"done": ink.good, "in_progress": ink.accent}.get(status, ink.dim)
    return [(f"{_MARKS[status]} ", mark), (text, style)]


def answers_in(args: Any, text: str) -> Sequence[tuple[str, str]]:
    """(question, answer) of a call that asked the person; none where it cannot be told for sure.

    The result repeats every question as it was put, each with its answer below.
    """
    asked = args.get("questions") if isinstance(args, Mapping) else None
    if not isinstance(asked, Sequence) or isinstance(asked, str) or not asked:
        return ()
    questions = [_words_of(each) for each in asked]
    places: list[int] = []
    at = 0
    for question in questions:
        at = text.find(question, at) if question else -1
        if at < 0:
            return ()
        places.append(at)
        at += len(question)
    found: list[tuple[str, str]] = []
    for number, question in enumerate(questions):
        begin = places[number] + len(question)
        end = places[number + 1] if number + 1 < len(places) else len(text)
        answer = text[begin:end]
        if number + 1 < len(places):
            # Before a question stands its number, on the same line.
            answer = answer.rpartition("\n")[0]
        found.append((clean(question), clean(" ".join(answer.split()))))
    return found


def _words_of(question: Any) -> str:
    if isinstance(question, Mapping):
        question = question.get("question") or question.get("prompt") or question.get("text")
    return question if isinstance(question, str) else ""
