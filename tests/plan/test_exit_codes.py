"""Whether exit code 0 of a command line means that all its checks passed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirge_py.plan.verdict import hides_failures

HIDING = [
    "pytest | tail -5",
    "pytest -q 2>&1 | tail -20",
    "pytest -q | grep passed",
    "make 2>&1 | tee build.log",
    "PYTHONPATH=. pytest | tail",
    "x=$(date); pytest | tail -3",
    "pytest | tail -3 && echo fine",
    "make test || true",
    "make test || echo failed",
    "$MAKE test || true",
    "pytest; echo $?",
    "pytest; echo done",
    "pytest $WHERE\nexit 0",
    "pytest tests/a; pytest tests/b",
    "npm run lint\nnpm run build",
    "pytest &",
    "bash -c 'pytest | tail'",
    'timeout 60 bash -lc "make test || true"',
    "make test " + "x" * 20_000,
]

TELLING = [
    "pytest -q",
    "pytest -q 2>&1",
    "cd app && pytest",
    "cd app; pytest",
    "mkdir -p out; make && ./out/app",
    "set -o pipefail; pytest | tail",
    "set -euo pipefail; pytest | tail; ./check",
    "./app | grep -q 'hello'",
    "printf '1 2' | ./app",
    "./app | python check.py",
    "make && echo ok",
    "make test || exit 1",
    "pytest -k 'a || b'",
    "test $(ls src | wc -l) -eq 3",
    "python - <<'EOF'\nprint(1 or 2); print('a | tail')\nEOF",
    'node -e "assert(!(a || b))"',
    "",
]


@pytest.mark.parametrize("command", HIDING, ids=lambda command: command[:40])
def test_command_line_that_can_hide_a_failed_check_is_detected(command: str) -> None:
    assert hides_failures(command)


@pytest.mark.parametrize("command", TELLING)
def test_command_line_that_fails_with_its_check_is_accepted(command: str) -> None:
    assert not hides_failures(command)


ODD = st.sampled_from(["make", "|", "||", "<<a", "'", '"', "$(", ")", "\n", " ", "\\"])


@given(st.lists(ODD).map(" ".join))
def test_hides_failures_accepts_any_command_line(command: str) -> None:
    assert isinstance(hides_failures(command), bool)


@given(st.lists(st.sampled_from(["make", "cd app", "./check 'a b'", "x=1"]), min_size=1))
def test_or_true_at_end_hides_failures_of_all_commands_before(commands: list[str]) -> None:
    assert hides_failures(" && ".join(commands) + " || true")
