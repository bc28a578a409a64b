"""Known failures of other agents have tests, and these tests exist."""

import ast
import re
import tomllib
from functools import cache

import pytest

from tests.house.source import PACKAGE, TESTS, text_of, tree_of, walked

PAST, PEERS = (
    tomllib.loads((TESTS / "house" / name).read_text(encoding="utf-8"))
    for name in ("past_failures.toml", "peer_failures.toml")
)
FAILURES = PAST | PEERS
LATER = {
    "mcp": "The description or schema of a server's tool changes after approval, and the"
    " question shows different arguments than those that are sent.",
}
"""Failures of features that do not exist yet, by the package that would contain the feature."""

PEERS_LATER = {
    27: "mcp: interrupting a call closes the server.",
    43: "Windows, where `2>nul` creates a file named `nul`, is not supported.",
    61: "mcp: output of a server outside the protocol accumulates in memory.",
}
"""Numbers of the failures in peer_failures.toml that have no test, and the reason."""

_TEST = re.compile(r"(?P<module>[\w/]+)::(?P<name>test_\w+)(?:\[(?P<id>.+)\])?")


@cache
def names_in(module: str) -> frozenset[str]:
    text = text_of(TESTS / f"{module}.py")
    return frozenset(re.findall(r"^(?:async )?def (test_\w+)", text, re.MULTILINE))


@cache
def texts_in(module: str) -> frozenset[str]:
    """Every string in it, including ids of test cases."""
    nodes = walked(tree_of(TESTS / f"{module}.py"))
    texts = {node.value for node in nodes if isinstance(node, ast.Constant)}
    return frozenset(text for text in texts if isinstance(text, str))


def is_collected(test: str) -> bool:
    found = _TEST.fullmatch(test)
    if not found or not (TESTS / f"{found['module']}.py").is_file():
        return False
    if found["name"] not in names_in(found["module"]):
        return False
    return found["id"] is None or found["id"] in texts_in(found["module"])


@pytest.mark.parametrize("failure", FAILURES)
def test_a_past_failure_has_its_tests(failure: str) -> None:
    words, tests = FAILURES[failure]["words"], FAILURES[failure]["tests"]

    assert words.endswith(".")
    assert tests
    assert [test for test in tests if not is_collected(test)] == []


def test_each_of_the_64_failures_of_peers_has_its_tests_or_a_reason_for_none() -> None:
    numbers = [int(key.rpartition("-")[2]) for key in PEERS]

    assert sorted([*numbers, *PEERS_LATER]) == list(range(1, 65))
    assert not PAST.keys() & PEERS.keys()


def test_every_case_of_the_table_of_commands_belongs_to_a_failure() -> None:
    from tests.permission.test_past_failures import ROWS

    tests = [test for failure in FAILURES.values() for test in failure["tests"]]
    assert set(ROWS) - {test.rpartition("[")[2].rstrip("]") for test in tests} == set()


@pytest.mark.parametrize("package", LATER)
def test_failures_left_for_later_name_features_that_do_not_exist(package: str) -> None:
    assert not list(PACKAGE.glob(f"{package}*"))


@pytest.mark.parametrize(
    "test",
    [
        "house/test_nothing::test_x",
        "house/test_sizes::test_x",
        "lib/test_text_truncation::test_a[b]",
    ],
)
def test_missing_test_of_a_failure_is_noticed(test: str) -> None:
    assert not is_collected(test)
