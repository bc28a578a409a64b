"""`--plan`: plan requests from arguments and from stdin."""

from pathlib import Path

import pytest

from dirge_py.context.attachments import mentions
from dirge_py.frontend.print.print_mode import Prompt
from dirge_py.slash.registry import TypedCommand


@pytest.mark.parametrize(
    ("prompt", "typed"),
    [
        (Prompt(words="add paging"), "/plan add paging"),
        (Prompt(words="/plan add paging"), "/plan add paging"),
        (Prompt(words="/planning is odd"), "/plan /planning is odd"),
        (Prompt(piped="add paging"), "/plan"),
        (Prompt(piped="/plan add paging"), "/plan"),
    ],
)
def test_plan_flag_turns_any_prompt_into_plan_request(prompt: Prompt, typed: str) -> None:
    assert prompt.as_plan().words == typed


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("plan", "add paging", "add paging\n\nlike this"),
        ("plan", "", "like this"),
        ("plan", "resume", "resume"),
        ("compact", "the files", "the files"),
    ],
)
def test_stdin_is_appended_only_to_plan_request(name: str, args: str, expected: str) -> None:
    prompt = Prompt(words=f"/{name} {args}", piped="like this")

    assert prompt.arguments(TypedCommand(name=name, args=args, command=None)) == expected


@pytest.mark.parametrize("word", ["accept", "resume", "drop", "stop", "status"])
def test_plan_verb_on_stdin_is_treated_as_request(word: str) -> None:
    prompt = Prompt(piped=f"{word}\n").as_plan()

    assert prompt.arguments(TypedCommand(name="plan", args="", command=None)) == f'"{word}"'


def test_mentions_in_stdin_of_plan_request_are_escaped(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    prompt = Prompt(words="/plan as @a.txt says", piped="see @a.txt (@a.txt) me@a.txt")
    args = prompt.arguments(TypedCommand(name="plan", args="as @a.txt says", command=None))

    assert args == "as @a.txt says\n\nsee \\@a.txt (\\@a.txt) me@a.txt"
    assert [written for written, _ in mentions(args, tmp_path)] == ["a.txt"]
