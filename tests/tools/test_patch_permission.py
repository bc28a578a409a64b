"""Patches and permission questions."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dirge_py.types.questions import PermissionAnswer
from tests.permission.conftest import Project
from tests.support.authorizer_driver import NO, YES, AuthorizerDriver

PATCH = """*** Begin Patch
*** Add File: new
+new
*** Update File: notes.txt
-notes.txt
+changed
*** Delete File: f
*** Add File: ../beside
+outside
*** End Patch"""


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[AuthorizerDriver]:
    project = Project(tmp_path.resolve())
    yield AuthorizerDriver(project)
    project.workspace.close()


def state(driver: AuthorizerDriver) -> list[str | None]:
    root = driver.project.root
    files = [root / "new", root / "notes.txt", root / "f", root.parent / "beside"]
    return [file.read_text() if file.exists() else None for file in files]


async def test_d33_patch_asks_once_before_any_change(driver: AuthorizerDriver) -> None:
    await driver.run(driver.call("read", path="notes.txt"))
    await driver.run(driver.call("read", path="f"))
    before = state(driver)
    seen = []

    def answer(request: object) -> PermissionAnswer:
        seen.append(state(driver))
        return YES if len(seen) > 1 else NO

    driver.user.answer = answer
    refused = await driver.run(driver.call("apply_patch", patch=PATCH))

    assert "Permission denied" in refused
    assert state(driver) == before
    [request] = driver.user.questions
    assert [(claim.op, Path(claim.resource).name) for claim in request.claims] == [
        ("edit", "new"), ("read", "notes.txt"), ("edit", "notes.txt"),
        ("read", "f"), ("edit", "f"), ("edit", "beside"),
    ]  # fmt: skip

    await driver.run(driver.call("apply_patch", patch=PATCH.replace("+changed", "+twice")))

    assert len(driver.user.questions) == 2
    assert seen == [before, before]
    assert state(driver) == ["new\n", "twice\n", None, "outside\n"]


async def test_patch_changed_by_user_is_written(driver: AuthorizerDriver) -> None:
    await driver.run(driver.call("read", path="notes.txt"))
    await driver.run(driver.call("read", path="f"))

    def answer(request: object) -> PermissionAnswer:
        changes = driver.user.questions[-1].preview.changes
        mine = [
            replace(each, after="mine\n") for each in changes if each.path.endswith("notes.txt")
        ]
        return replace(YES, changes=tuple(mine))

    driver.user.answer = answer
    text = await driver.run(driver.call("apply_patch", patch=PATCH))

    assert text.startswith("The user changed this edit before accepting it")
    assert state(driver) == ["new\n", "mine\n", None, "outside\n"]
