"""Parsing plans as models write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirge_py.plan.document import PlanDocument, read_plan

PLAN = """\
## Name
Dates in ISO form
## Context
Dates are read as numbers today; see `parse_date`.
## Files
- `app/dates.py`: changed
1. not a step
## Steps
1. Add `parse_date` to **app/dates.py**,
   next to `read_number`.
   - reads `2024-01-31`
     1. and nothing else
   - raises ValueError
2. Test it in tests/test_dates.py:

   ```python
   def test_it(): ...
   ```

3. Verify: all of these pass.
   ```sh
   # the tests
   $ python -m pytest -q tests/test_dates.py
   $ make lint  # the rules
   all fine
   ```
"""


def steps(text: str) -> tuple[str, ...]:
    return read_plan(text).steps


def verify(text: str) -> tuple[str, ...]:
    return read_plan(text).verify


def in_block(*lines: str, tag: str = "sh") -> str:
    return "\n".join(["## Verify", f"```{tag}", *lines, "```"])


def test_plan_in_requested_form_is_parsed() -> None:
    assert read_plan(PLAN) == PlanDocument(
        name="Dates in ISO form",
        steps=(
            "Add `parse_date` to app/dates.py, next to `read_number`.",
            "Test it in tests/test_dates.py",
            "Verify: all of these pass.",
        ),
        verify=("python -m pytest -q tests/test_dates.py", "make lint"),
        text=PLAN,
    )


@pytest.mark.parametrize(
    "text",
    [
        PLAN.replace("\n", "\r\n"),
        PLAN.replace("## ", "#### "),
        PLAN.replace("## Name", "# Plan\n\n## Name"),
        PLAN.replace("## Steps", "## 4. Steps:"),
        PLAN.replace("## Steps", "### Implementation steps (in order)"),
        PLAN.replace("## Steps", "**Steps**"),
        f"```markdown\n{PLAN}```",
        PLAN.replace("```", "~~~"),
    ],
)
def test_plan_headings_in_other_spellings_are_parsed_alike(text: str) -> None:
    assert read_plan(text).name == read_plan(PLAN).name
    assert read_plan(text).steps == read_plan(PLAN).steps
    assert read_plan(text).verify == read_plan(PLAN).verify


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("**Name**: Faster start\n", "Faster start"),
        ("Name: Faster start\n", "Faster start"),
        ("## Name: Faster start\n", "Faster start"),
        ("# Plan: Faster start\n## Steps\n", "Faster start"),
        ("# Name resolution\n", "Name resolution"),
        ("## Name\n\n- **Faster start**\n", "Faster start"),
        ("## Name\n" + "long " * 50, ("long " * 16)[:79] + "…"),
        ("Do it.", ""),
    ],
)
def test_plan_name_is_found_where_models_write_it(text: str, name: str) -> None:
    assert read_plan(text).name == name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("## Steps\n- one\n  - inner\n* two\n", ("one", "two")),
        ("## Steps\n1. one\n- inner\n2. two\n", ("one", "two")),
        ("## Steps\n1) one\n2) two\n", ("one", "two")),
        ("## Steps\n - [ ] one\n - [x] two\n", ("one", "two")),
        ("## Steps\n### Step 1: one\n1. inner\n### Step 2 — Verify\n`make`\n", ("one", "Verify")),
        ("## Steps\n### 1. Files\na\n### 2. Verify\n", ("Files", "Verify")),
        ("## Steps\n**1. one**\nwords\n**2. two**\n", ("one", "two")),
        ("## Steps\n1. one\n## Other\n2. no step\n", ("one",)),
        ("I would:\n1. one\n2. two\n", ("one", "two")),
        ("## Files\n1. a.py\n", ()),
        ("- a\n- b\n", ()),
        ("## Steps\n```\n1. code\n```\n", ()),
        ("## Steps\nJust do it.\n", ()),
        ("# Steps to add a cache\n## Files\n- a\n## Steps\n1. one\n", ("one",)),
    ],
)
def test_plan_steps_are_separated_from_their_contents(text: str, expected: tuple[str, ...]) -> None:
    assert steps(text) == expected


def test_plan_steps_are_limited_in_length_and_number() -> None:
    read = steps("## Steps\n" + "".join(f"{n}. {'x' * 1_000}\n" for n in range(1_000)))
    assert (len(read), len(read[0])) == (100, 400)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["make", "", "  make test  "], ("make", "make test")),
        (["$ make", "all built", "% make test"], ("make", "make test")),
        (["# first", "make # build", "echo '# no comment'"], ("make", "echo '# no comment'")),
        (["make", "make"], ("make",)),
        (["make \\", "  test", "make lint"], ("make lint",)),
        (["cat <<EOF", "make evil", "EOF", "make"], ("make",)),
        (['python -c "', "print(1)", '"', "make"], ("make",)),
        (["for f in a b; do", "  ./check $f", "done", "make"], ("make",)),
        (["make &&", "make test", "make lint"], ("make lint",)),
        (["for f in a b; do ./check $f; done"], ("for f in a b; do ./check $f; done",)),
        (["x" * 501, "make"], ("make",)),
        (["make\ttest", "make\x1b[2J", "make \u202e", "make\ud800", "make\0", "make"], ("make",)),
        (['echo "never closed', "make"], ()),
        (['echo "never closed', *["make"] * 5_000], ()),
    ],
)
def test_verify_block_has_one_command_per_line(lines: list[str], expected: tuple[str, ...]) -> None:
    assert verify(in_block(*lines)) == expected


def test_at_most_20_verify_commands_are_used() -> None:
    assert verify(in_block(*(f"make t{n}" for n in range(50)))) == tuple(
        f"make t{n}" for n in range(20)
    )


def test_code_blocks_of_other_languages_hold_no_verify_commands() -> None:
    assert verify(in_block("print 1", tag="python")) == ()
    assert verify(in_block("make", tag="")) == ("make",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("## Verification\nRun `make a`, then ``pytest -k 'a'``.", ("make a", "pytest -k 'a'")),
        ("## Verify\n`$ make test`", ("make test",)),
        ("## Verify\n`make`, `./run.sh` and `PYTHONPATH=. pytest -q`",
         ("make", "./run.sh", "PYTHONPATH=. pytest -q")),
        ("## Verify\n`parse_date` in `app/dates.py`, `def f(x):`, `ValueError`, `exit 0`, `a`", ()),
        ("## Steps\n1. Read `git log -1`.\n2. Verify with `make test`.\n", ("make test",)),
        ("## Steps\n1. `make it`\n## Verify\n`make test`", ("make test",)),
        ("## Steps\n1. Do `make test`.\n## Verify\nBy eye.", ("make test",)),
        ("## Verify\n```sh\nmake\n```\nnot `make test`", ("make",)),
        ("Run `make test`.", ()),
    ],
)  # fmt: skip
def test_code_spans_are_verify_commands_when_there_is_no_block(
    text: str, expected: tuple[str, ...]
) -> None:
    assert verify(text) == expected


WORDS = [
    "## Steps",
    "## Verify",
    "**Name:**",
    "\n```sh\n",
    "```",
    "1. ",
    "- ",
    "make a",
    "$ ",
    "<<E",
]
PIECES = st.sampled_from([*WORDS, "\n", "`", "\\", '"', "#", " ", "\0", "\ud800"])


@given(st.lists(PIECES | st.text(max_size=10), max_size=40).map("".join))
def test_parsing_any_plan_never_fails_and_keeps_commands_verbatim(text: str) -> None:
    plan = read_plan(text)
    assert plan.text == text
    for command in plan.verify:
        assert command in text
        assert command.strip() == command and command.isprintable() and len(command) <= 500
        assert not command.startswith(("$ ", "#"))
    assert all(step == " ".join(step.split()) != "" for step in (*plan.steps, plan.name or "-"))


@pytest.mark.parametrize(
    "piece", ["`", "1. a\n", "```sh\n", "**", "## Steps\n- ", "'", "<<A\n", "# "]
)
def test_huge_plans_are_parsed_with_at_most_20_commands(piece: str) -> None:
    text = "## Verify\n```\n" + piece * 20_000
    assert read_plan(text).text == text
    text = "## Verify\n" + piece * 20_000
    assert len(read_plan(text).verify) <= 20
