"""Copying, renaming or showing a secret asks."""

from typing import Any

import pytest

from dirge_py.types.questions import PermissionAnswer
from tests.support.authorizer_driver import NO, YES, AuthorizerDriver

from .conftest import Project, allow, deny


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("apply_patch", {"operations": [{"action": "rename", "path": ".env", "new_path": "e"}]}),
        ("apply_patch", {"operations": [{"action": "delete", "path": ".env"}]}),
        ("apply_patch", {"operations": [{"action": "update", "path": ".env", "content": "x"}]}),
        ("apply_patch", {"patch": "*** Update File: .env\n*** Move to: e"}),
        ("apply_patch", {"patch": "*** Update File: .env\n*** Move to: e\n@@\n-.env\n+x"}),
        ("apply_patch", {"patch": "*** Delete File: .env"}),
        ("apply_patch", {"patch": "*** Add File: n\n+x\n*** Update File: src/../.env\n-.env\n+b"}),
        ("edit", {"path": ".env", "old_text": ".env", "new_text": "x"}),
        ("edit", {"path": "link", "old_text": ".env", "new_text": "x"}),
        ("write", {"path": ".env", "content": "x"}),
        ("write", {"path": "link", "content": "x"}),
    ],
)
async def test_tool_that_changes_secret_file_asks(
    own_project: Project, tool: str, arguments: dict[str, Any]
) -> None:
    (own_project.root / "link").symlink_to(".env")
    driver = AuthorizerDriver(own_project, allow("edit:**"), answer=YES)
    await driver.run(driver.call("read", path=".env"))
    driver.user.answer = lambda request: NO

    text = await driver.run(driver.call(tool, **arguments))

    assert ("Permission denied" in text, len(driver.user.questions)) == (True, 2)
    assert (own_project.root / ".env").read_text() == ".env\n"
    assert not (own_project.root / "e").exists()


async def test_new_secret_file_is_written_without_asking(own_project: Project) -> None:
    driver = AuthorizerDriver(own_project)

    assert await driver.allows(driver.call("write", path=".env.local", content="A=1\n"))
    assert await driver.allows(driver.call("apply_patch", patch="*** Add File: .env.local\n+A=1"))


async def test_file_of_read_deny_rule_cannot_be_renamed(own_project: Project) -> None:
    driver = AuthorizerDriver(own_project, deny("read:x"), mode="yolo")
    rename = {"action": "rename", "path": "x", "new_path": "y"}

    assert "Permission denied" in await driver.run(driver.call("apply_patch", operations=[rename]))


@pytest.mark.parametrize("answer", [YES, NO])
async def test_failed_edits_of_unread_secret_show_none_of_its_lines(
    own_project: Project, answer: PermissionAnswer
) -> None:
    (own_project.root / ".env").write_text("TOKEN=canary\n")
    driver = AuthorizerDriver(own_project)
    driver.user.answer = lambda request: answer

    for tool, arguments in (
        ("apply_patch", {"patch": "*** Delete File: .env"}),
        ("apply_patch", {"patch": "*** Update File: .env\n*** Move to: e"}),
        ("apply_patch", {"patch": "*** Update File: .env\n@@\n-TOKEN=\n+x"}),
        ("apply_patch", {"patch": "*** Update File: .env\n*** Move to: e\n@@\n-TOK\n+x"}),
        ("edit", {"path": ".env", "old_text": "TOKEN", "new_text": "x"}),
        ("edit", {"path": ".env", "old_text": "TOKEM", "new_text": "x"}),
        ("write", {"path": ".env", "content": "x"}),
    ):
        text = await driver.run(driver.call(tool, **arguments))
        assert ("has not been read" in text, "canary" in text) == (True, False)
    assert (own_project.root / ".env").read_text() == "TOKEN=canary\n"


@pytest.mark.parametrize(
    "command",
    [
        "mv .env e", "mv -t src .env x", "mv --target-directory=src .env", "mv x .env e",
        "mv --target-directory src .env", "mv -- .env e", "/bin/mv .env e", "mv .e* e",
        "cp .env e", "cp -t src .env", "cp -at src .env", "cp --target=src .env", "cp -tsrc .env",
        "ln .env e", "ln -s .env e", "ln -st src .env", "cd src && ln ../.env", "link .env e",
        "install .env e", "install -m 644 -t src .env", "rsync .env e", "rsync -a .env src/",
        "tar cf e.tar .env", "tar -czf e.tgz x .env", "zip e.zip .env", "gzip -k .env",
        "scp .env src/e", "dd if=.env of=e", "rename s/.env/e/ .env", "rm .env", "shred .env",
        "unlink .env", "rm -f x .env", "git mv .env e", "git rm -f .env",
    ],
)  # fmt: skip
def test_allow_rule_for_program_does_not_cover_secret_files(project: Project, command: str) -> None:
    program = command.split("&& ")[-1].split()[0]

    decision = project.run(command, allow(f"execute:{program} *"))

    assert (decision.effect, decision.policy) == ("ask", "protected")


@pytest.mark.parametrize("command", ["mv x y", "cp x y", "ln x y", "rm x", "tar cf e.tar x b"])
def test_allow_rule_for_program_covers_ordinary_files(project: Project, command: str) -> None:
    assert project.run(command, allow(f"execute:{command.split()[0]} *")).effect == "allow"


@pytest.mark.parametrize("text", ["secret=", "secret=canari", "no such"])
async def test_failed_edit_shows_no_line_of_file_outside_workspace(
    own_project: Project, text: str
) -> None:
    (own_project.home / "outside").write_text("secret=canary\n")
    driver = AuthorizerDriver(own_project)
    arguments = {"path": "../outside", "old_text": text, "new_text": "x"}

    result = await driver.run(driver.call("edit", **arguments))

    assert "has not been read" in result
    assert "canary" not in result


@pytest.mark.parametrize(
    "command",
    ["tar cf x.tar .", "cp -r . ../copy", "rsync -a . ../copy", "grep -R x .", "env ag x ."],
)
def test_command_reading_folder_with_secret_asks_despite_allow_rule(
    own_project: Project, command: str
) -> None:
    rules = (allow(f"execute:{command.split()[0]} *"), allow("edit:/**"), allow("read:/**"))

    assert (own_project.root / ".env").exists()
    assert own_project.run(command, *rules).policy == "protected"


@pytest.mark.parametrize("command", ["tar cf x.tar src", "cp -r src copy", "grep -R x src"])
def test_command_reading_folder_without_secret_is_allowed_by_rule(
    own_project: Project, command: str
) -> None:
    rule = allow(f"execute:{command.split()[0]} *")

    assert own_project.run(command, rule).effect == "allow"
