"""Redirections in quoted command lines, and reads after an allowed `cd`."""

import pytest

from tests.permission.conftest import Project, allow, deny


@pytest.mark.parametrize(
    "command",
    [
        "bash -c 'echo x > .git/config'",
        "env bash -c 'echo x > .mcp.json'",
        "eval 'cat a >.git/config'",
        "bash -c 'x=1; echo x > .git/config'",
        "bash -c \"sh -c 'echo x >> .envrc'\"",
    ],
)
def test_redirection_to_protected_name_in_quoted_command_asks(
    project: Project, command: str
) -> None:
    decision = project.run(command, allow("execute:*"))

    assert (decision.effect, decision.policy) == ("ask", "protected")


@pytest.mark.parametrize(
    "command",
    [
        "bash -c 'echo x > src/a.py'",
        "env bash -c 'echo x > src/a.py'",
        "eval 'echo x >src/a.py'",
        "cd src && bash -c 'echo x > a.py'",
        "find . -name '*.py' -exec sh -c 'echo x > src/a.py' ';'",
        "bash -c 'cat < notes.txt'",
        "timeout 5 sh -c 'cat <notes.txt'",
    ],
)
def test_deny_rule_applies_to_redirections_in_quoted_command(
    project: Project, command: str
) -> None:
    rules = (deny("edit:src/**"), deny("read:notes.txt"))

    assert project.run(command, *rules, mode="yolo").effect == "deny"


def test_redirection_to_device_in_quoted_command_is_denied(project: Project) -> None:
    assert project.run("sudo bash -c 'cat a > /dev/sda'", allow("execute:*")).effect == "deny"


@pytest.mark.parametrize(
    "command",
    ["cd / && ls", "cd .. && rg x", "cd / && grep -r x etc", "cd .. && find", "cd .. && du",
     "cd .. && git status", "cd ..; ls"],
)  # fmt: skip
def test_read_only_command_outside_workspace_after_allowed_cd_asks(
    project: Project, command: str
) -> None:
    assert project.run(command, allow("execute:*")).effect == "ask"
    assert project.run(command, allow("execute:cd *")).effect == "ask"
    assert project.run("cd src && ls", allow("execute:cd *")).effect == "allow"
