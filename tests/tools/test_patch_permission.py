"""A patch and the person who is asked about it."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dirge_py.types.questions import PermissionAnswer
from tests.permission.authorizing import NO, YES, Desk
from tests.permission.conftest import Project

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
def desk(tmp_path: Path) -> Iterator[Desk]:
    project = Project(tmp_path.resolve())
    yield Desk(project)
    project.workspace.close()


def state(desk: Desk) -> list[str | None]:
    root = desk.project.root
    files = [root / "new", root / "notes.txt", root / "f", root.parent / "beside"]
    return [file.read_text() if file.exists() else None for file in files]


async def test_d33_one_question_comes_before_anything_changes(desk: Desk) -> None:
    await desk.run(desk.call("read", path="notes.txt"))
    await desk.run(desk.call("read", path="f"))
    before = state(desk)
    seen = []

    def answer(request: object) -> PermissionAnswer:
        seen.append(state(desk))
        return YES if len(seen) > 1 else NO

    desk.person.answer = answer
    refused = await desk.run(desk.call("apply_patch", patch=PATCH))

    assert "Permission denied" in refused
    assert state(desk) == before
    [request] = desk.person.questions
    assert [(claim.op, Path(claim.resource).name) for claim in request.claims] == [
        ("edit", "new"), ("read", "notes.txt"), ("edit", "notes.txt"),
        ("read", "f"), ("edit", "f"), ("edit", "beside"),
    ]  # fmt: skip

    await desk.run(desk.call("apply_patch", patch=PATCH.replace("+changed", "+twice")))

    assert len(desk.person.questions) == 2
    assert seen == [before, before]
    assert state(desk) == ["new\n", "twice\n", None, "outside\n"]


async def test_what_the_person_made_of_a_patch_is_done(desk: Desk) -> None:
    await desk.run(desk.call("read", path="notes.txt"))
    await desk.run(desk.call("read", path="f"))

    def answer(request: object) -> PermissionAnswer:
        changes = desk.person.questions[-1].preview.changes
        mine = [
            replace(each, after="mine\n") for each in changes if each.path.endswith("notes.txt")
        ]
        return replace(YES, changes=tuple(mine))

    desk.person.answer = answer
    told = await desk.run(desk.call("apply_patch", patch=PATCH))

    assert told.startswith("The user changed this edit before accepting it")
    assert state(desk) == ["new\n", "mine\n", None, "outside\n"]
