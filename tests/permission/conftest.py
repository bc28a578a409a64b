import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dirge_py.files.workspace import Workspace
from dirge_py.permission.decision import Decision
from dirge_py.permission.engine import PermissionEngine
from dirge_py.permission.rules import Mode, PolicySet, Rule, parse_rule
from dirge_py.types.tools import Claim, Operation, ShellCommand
from tests.support.git_repository import new_repository

QUIET_GIT = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}


class Project:
    """A git repository below a home folder, and its permission engines."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.root = home / "proj"
        self.state = home / ".local/state/dirge"
        self.config = home / ".config/dirge"
        (self.root / "src").mkdir(parents=True)
        self.state.mkdir(parents=True)
        for name in ("README.md", "a", "b", "f", "x", "src/a.py", ".env", "notes.txt", "-o"):
            self.root.joinpath(name).write_text(f"{name}\n")
        new_repository(self.root)
        self.workspace = Workspace([self.root], self.root)

    def git(self, *arguments: str, cwd: Path | None = None) -> str:
        done = subprocess.run(
            ["git", "-c", "user.name=u", "-c", "user.email=u@example.com", *arguments],
            cwd=cwd or self.root,
            env={**os.environ, **QUIET_GIT},
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout

    def gate(self, *rules: Rule, mode: Mode = "standard", **more: object) -> PermissionEngine:
        policy = PolicySet(rules=rules, mode=mode, is_sandboxed=bool(more.get("is_sandboxed")))
        output = self.state / "sessions/p/1/output"
        return PermissionEngine(
            self.workspace,
            policy,
            state_dirs=[self.state, self.config / "keys"],
            settings=[self.config],
            own_output_dirs=[output],
            home=self.home,
        )

    def run(self, command: str, *rules: Rule, mode: Mode = "standard") -> Decision:
        return self.gate(*rules, mode=mode).decide([self.execute(command)])

    def execute(self, command: str) -> Claim:
        return Claim("execute", ShellCommand(command, str(self.root)))

    def claim(self, op: Operation, resource: str) -> Claim:
        is_path = op in ("read", "edit")
        return Claim(op, os.path.join(self.root, resource) if is_path else resource)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    made = Project(tmp_path_factory.mktemp("home").resolve())
    yield made
    made.workspace.close()


@pytest.fixture
def own_project(tmp_path: Path) -> Iterator[Project]:
    """A project that the test may change."""
    made = Project(tmp_path.resolve())
    yield made
    made.workspace.close()


def allow(text: str) -> Rule:
    return parse_rule(text, "allow")


def ask(text: str) -> Rule:
    return parse_rule(text, "ask")


def deny(text: str) -> Rule:
    return parse_rule(text, "deny")
