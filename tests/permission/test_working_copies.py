"""Rules for a folder also apply in a copy of it."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.files.workspace import Workspace
from dirge_py.permission.engine import ForkPermissionEngine, PermissionEngine
from dirge_py.permission.facts import PathFact, ResolvedPath
from dirge_py.permission.rules import Anchors, PolicySet, Rule, forbids, permits
from dirge_py.types.tools import Claim, ShellCommand

HERE = Anchors(folders=("/home/u/p",), home="/home/u")
THERE = Anchors(folders=("/home/u/p",), home="/home/u", copies=(("/tmp/c/p", "/home/u/p"),))

PATTERNS = st.sampled_from(
    ["a", "a/**", "**/b", "*", "/home/u/p/a/*", "/home/*/p/**", "~/p/a", "/tmp/**", "/home/u/q/*"]
)
INNER = st.sampled_from(["", "/a", "/a/b", "/b", "/a/b/c", "2/a"])


def fact(path: str) -> PathFact:
    return PathFact("read", ResolvedPath(asked=path, real=path, inside=True))


@settings(max_examples=60, deadline=None)
@given(pattern=PATTERNS, inner=INNER)
def test_rule_matches_path_in_copy_as_it_matches_original_path(pattern: str, inner: str) -> None:
    rule = Rule("read", pattern, "deny")
    original, copy = fact(f"/home/u/p{inner}"), fact(f"/tmp/c/p{inner}")

    for says in (permits, forbids):
        as_any_path = bool(says(rule, copy, HERE))
        as_copy = bool(says(rule, original, HERE)) and not inner.startswith("2")
        assert bool(says(rule, copy, THERE)) == (as_any_path or as_copy)


@pytest.fixture
def gates(tmp_path: Path) -> tuple[PermissionEngine, ForkPermissionEngine, Path]:
    """The engine of a project, the engine of its copy, and the copy's folder."""
    project, copy = tmp_path / "project", tmp_path / "copy"
    for folder in (project, copy):
        (folder / "private").mkdir(parents=True)
        (folder / "private/x").touch()
    rules = (Rule("read", f"{tmp_path}/proj*/private/**", "deny"),)
    parent = PermissionEngine(Workspace([project], project), PolicySet(rules=rules))
    anchors = Anchors(copies=((str(copy), str(project)),))
    own = ForkPermissionEngine(
        Workspace([copy], copy),
        PolicySet(anchors=anchors),
        parent=parent,
        granted=[],
        only_looks=False,
    )
    return parent, own, copy


@pytest.mark.security
@pytest.mark.parametrize("command", ["grep -r x .", "cat private/x", "head -n1 priv*/x"])
def test_deny_rule_for_project_files_applies_to_commands_in_copy(
    gates: tuple[PermissionEngine, ForkPermissionEngine, Path], command: str
) -> None:
    _, own, copy = gates
    claim = Claim("execute", ShellCommand(command, str(copy)))

    assert own.decide([claim], str(copy)).effect == "deny"


def test_grant_in_copy_does_not_apply_to_project(
    gates: tuple[PermissionEngine, ForkPermissionEngine, Path],
) -> None:
    parent, own, copy = gates
    own.add_grant("execute:make")
    claims = [Claim("execute", ShellCommand("make", str(copy)))]

    assert own.decide(claims, str(copy)).effect == "allow"
    assert parent.grants == () and parent.decide(claims).effect == "ask"
    parent.mode = "plan"
    assert own.decide(claims, str(copy)).effect == "deny"


def test_tool_disabled_later_in_parent_is_denied_in_copy(
    gates: tuple[PermissionEngine, ForkPermissionEngine, Path],
) -> None:
    parent, own, copy = gates
    claims = [Claim("read", "a")]
    assert own.decide(claims, str(copy), tool="read").effect == "allow"

    parent.denied_tools = {"read": "prompt x"}

    assert own.decide(claims, str(copy), tool="read").effect == "deny"
