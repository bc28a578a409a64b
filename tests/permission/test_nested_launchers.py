"""Deeply nested launchers are judged quickly."""

import shlex
import time
from functools import reduce

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.security.sizes import size

from .conftest import Project, deny

LAUNCHERS = [
    "sh -c", "bash -c", "eval", "timeout 5", "sudo sh -c", "xargs sh -c", "xargs", "find . -exec",
    "env -S", "ssh h", "su -c", "script -c", "parallel", "flock f", "flock f -c", "npx", "trap",
    "nohup", "nice", "env", "time", "command", "exec", "watch", "git -c alias.x=!", "perl -e",
    "sudo -u a", "busybox", "find . -exec sh -c", "git bisect run", "git submodule foreach",
    "eval 'a b'", "xargs -I% sh -c '%'", "echo $(", "env a=1",
]  # fmt: skip
MAX_DECISION_S = 1.0
CURL = deny("execute:curl *")


def is_decided_quickly(project: Project, command: str) -> bool:
    """Whether one of three attempts is fast, as the machine may be busy."""
    gate = project.gate(CURL, mode="yolo")
    for _ in range(3):
        start = time.process_time()
        gate.decide([project.execute(command)])
        if time.process_time() - start < MAX_DECISION_S:
            return True
    return False


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("count", [28, 200])
def test_repeated_launchers_are_decided_quickly(
    project: Project, launcher: str, count: int
) -> None:
    assert is_decided_quickly(project, f"{launcher} " * count + "ls")
    assert project.run(f"{launcher} " * count + "ls").effect == "ask"


@settings(
    max_examples=size(25, 1000),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(st.sampled_from(LAUNCHERS), min_size=5, max_size=120))
def test_mixed_launchers_are_decided_quickly(project: Project, launchers: list[str]) -> None:
    assert is_decided_quickly(project, " ".join([*launchers, "ls"]))


@settings(
    max_examples=size(20, 500),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(st.sampled_from(["sh -c", "eval", "sudo sh -c", "env -S"]), max_size=7))
def test_quoted_launchers_are_decided_quickly_and_deny_rule_applies(
    project: Project, launchers: list[str]
) -> None:
    command = reduce(lambda inner, one: f"{one} {shlex.quote(inner)}", launchers, "curl x")

    assert is_decided_quickly(project, command)
    assert project.run(command, CURL, mode="yolo").effect == "deny"


@pytest.mark.parametrize("launcher", ["env", "nice", "sudo", "nohup sh -c", "timeout 5"])
def test_command_nested_too_deeply_is_denied_by_any_deny_rule(
    project: Project, launcher: str
) -> None:
    for inner in ("cu*l x", "$(x) y", "ls"):
        command = f"{launcher} " * 60 + inner
        assert project.run(command, CURL, mode="yolo").effect == "deny"
    assert project.run(f"{launcher} " * 60 + "rm -rf /", mode="yolo").effect == "deny"
    assert project.run(f"{launcher} " * 60 + "ls", mode="yolo").effect == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "sudo env A=1 nice timeout 5 nohup bash -c 'make'",
        "nohup cp " + " ".join(f"f{number}" for number in range(300)) + " d",
        "find . -name x | xargs -I{} sh -c 'timeout 5 nice make {}'",
        "for f in a b c d; do " + "sudo env A=$f make $f; " * 15 + "done",
    ],
)
def test_ordinary_nested_commands_are_fully_analyzed(project: Project, command: str) -> None:
    decision = project.run(command, CURL, mode="yolo")

    assert (decision.effect, decision.reason) == ("allow", decision.reason)


def test_long_git_pathspec_is_decided_quickly(project: Project) -> None:
    for piece in ("**?*?", "*", "?*", "[a]*"):
        assert is_decided_quickly(project, f"git grep x -- '{piece * 200}'")
    assert project.run(f"git grep x HEAD -- '{'*e' * 100}nv'").effect == "ask"
