"""What was asked for: the words, what was piped in, and `--plan`."""

import pytest

from dirge_py.headless.prompt import Prompt
from dirge_py.slash.registry import Typed


@pytest.mark.parametrize(
    ("prompt", "typed"),
    [
        (Prompt(words="add paging"), "/plan add paging"),
        (Prompt(words="/plan add paging"), "/plan add paging"),
        (Prompt(words="/planning is odd"), "/plan /planning is odd"),
        (Prompt(piped="add paging"), "/plan"),
        (Prompt(piped="/plan add paging"), "/plan add paging"),
    ],
)
def test_every_prompt_is_a_request_with_the_flag(prompt: Prompt, typed: str) -> None:
    assert prompt.as_plan().typed == typed


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("plan", "add paging", "add paging\n\nlike this"),
        ("plan", "", "like this"),
        ("plan", "resume", "resume"),
        ("compact", "the files", "the files"),
    ],
)
def test_only_a_request_gets_what_is_piped_in(name: str, args: str, expected: str) -> None:
    prompt = Prompt(words=f"/{name} {args}", piped="like this")

    assert prompt.arguments(Typed(name=name, args=args, command=None)) == expected
