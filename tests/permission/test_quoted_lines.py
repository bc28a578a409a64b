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
def test_a_protected_name_behind_a_quoted_redirection_is_asked_about(
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
def test_a_deny_rule_holds_for_what_a_quoted_line_is_redirected_to(
    project: Project, command: str
) -> None:
    rules = (deny("edit:src/**"), deny("read:notes.txt"))

    assert project.run(command, *rules, mode="yolo").effect == "deny"


def test_a_device_behind_a_quoted_redirection_is_denied(project: Project) -> None:
    assert project.run("sudo bash -c 'cat a > /dev/sda'", allow("execute:*")).effect == "deny"


@pytest.mark.parametrize(
    "command",
    ["cd / && ls", "cd .. && rg x", "cd / && grep -r x etc", "cd .. && find", "cd .. && du",
     "cd .. && git status", "cd ..; ls"],
)  # fmt: skip
def test_looking_around_outside_is_asked_about_behind_an_allowed_cd(
    project: Project, command: str
) -> None:
    assert project.run(command, allow("execute:*")).effect == "ask"
    assert project.run(command, allow("execute:cd *")).effect == "ask"
    assert project.run("cd src && ls", allow("execute:cd *")).effect == "allow"
