"""Rewinding files: the agent's changes are undone, the user's are kept."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from dirge_py.session.snapshots.base import RestoreResult
from dirge_py.session.snapshots.repository import SnapshotRepository
from dirge_py.types.errors import DirgeError
from tests.support.project import ScriptedProject
from tests.support.rewind_driver import LARGE, RewindDriver, rewindable


async def changed(driver: RewindDriver) -> dict[str, str]:
    preview = await driver.timeline.preview(driver.timeline.before())
    assert preview.unavailable == ""
    return {change.path: change.kind for change in preview.changes}


async def test_rewind_restores_files_that_commands_changed_created_and_removed(
    project: ScriptedProject,
) -> None:
    async with rewindable(project) as driver:
        driver.edit(a="one\n", b="keep\n", c="gone soon\n")
        before = driver.files
        await driver.prompt("work", "echo two > a; rm c; mkdir -p deep/er; echo new > deep/er/d")
        assert await changed(driver) == {"a": "changed", "c": "added", "deep/er/d": "removed"}

        moved = await driver.timeline.rewind()

        assert driver.files == before
        assert not (project.folder / "deep").exists()
        assert moved.done == ("a", "c", "deep/er/d")
        assert (moved.what, moved.failed, moved.kept) == ("both", (), ())
        assert list(driver.conversation.messages) == []


async def test_g11_rewind_and_redo_restore_files_after_restarts(
    project: ScriptedProject,
) -> None:
    async with rewindable(project) as driver:
        driver.edit(a="one\n")
        await driver.prompt("first", "echo two > a")
        await driver.prompt("second", "echo three > a")
        whole, after = list(driver.conversation.messages), driver.files
    async with rewindable(project, "newest") as driver:
        await driver.timeline.rewind(driver.timeline.prompts()[1].id)
        assert driver.files == {"a": "one\n"}
    async with rewindable(project, "newest") as driver:
        assert list(driver.conversation.messages) == []
        await driver.timeline.redo()
        assert driver.files == after
        assert list(driver.conversation.messages) == whole


async def test_user_changes_are_flagged_and_kept_by_rewind_unless_chosen(
    project: ScriptedProject,
) -> None:
    async with rewindable(project) as driver:
        driver.edit(a="one\n", mine="one\n", other="one\n")
        await driver.prompt("first", "echo two > a")
        driver.edit(mine="my own\n")
        await driver.prompt("second", "echo three > a; echo both >> mine")
        driver.edit(other="mine, too\n")
        before = driver.files
        preview = await driver.timeline.preview(
            driver.timeline.before(driver.timeline.prompts()[1].id)
        )
        assert [change.path for change in preview.changes] == ["a"]
        assert [change.path for change in preview.yours] == ["mine", "other"]

        moved = await driver.timeline.rewind(driver.timeline.prompts()[1].id, also=["other"])

        assert moved.kept == ("mine",)
        assert driver.files == {"a": "one\n", "mine": before["mine"], "other": "one\n"}
        await driver.timeline.redo()
        assert driver.files == before


async def test_files_changed_after_rewind_are_kept_and_named_by_redo(
    project: ScriptedProject,
) -> None:
    async with rewindable(project) as driver:
        driver.edit(a="one\n", b="one\n")
        await driver.prompt("work", "echo two > a; echo two > b")
        await driver.timeline.undo()
        driver.edit(a="changed since\n")

        moved = await driver.timeline.redo()

        assert moved.kept == ("a",)
        assert driver.files == {"a": "changed since\n", "b": "two\n"}


async def test_rewind_can_move_only_conversation_or_only_files(project: ScriptedProject) -> None:
    async with rewindable(project) as driver:
        driver.edit(a="one\n")
        await driver.prompt("work", "echo two > a")
        whole = list(driver.conversation.messages)

        await driver.timeline.rewind(what="files")
        assert (driver.files, list(driver.conversation.messages)) == ({"a": "one\n"}, whole)
        await driver.timeline.redo()
        assert (driver.files, list(driver.conversation.messages)) == ({"a": "two\n"}, whole)

        await driver.timeline.rewind(what="conversation")
        assert (driver.files, list(driver.conversation.messages)) == ({"a": "two\n"}, [])
        await driver.timeline.redo()
        assert (driver.files, list(driver.conversation.messages)) == ({"a": "two\n"}, whole)


async def test_agent_changes_on_abandoned_branch_are_not_treated_as_user_changes(
    project: ScriptedProject,
) -> None:
    async with rewindable(project) as driver:
        driver.edit(a="one\n")
        await driver.prompt("first", "echo two > a")
        await driver.timeline.rewind(what="conversation")
        await driver.prompt("other", "echo three > b")

        moved = await driver.timeline.switch(driver.timeline.tree().nodes[0].id, "both")

        assert (moved.done, moved.kept) == (("b",), ())
        assert driver.files == {"a": "two\n"}


async def test_g13_file_too_large_for_snapshot_is_listed_as_left_out(
    project: ScriptedProject,
) -> None:
    async with rewindable(project) as driver:
        (project.folder / "big").write_bytes(b"x" * (LARGE + 1))
        await driver.prompt("work", "echo more >> big; echo new > a")

        moved = await driver.timeline.undo()

        assert moved.left_out == ("big",)
        assert moved.done == ("a",)
        assert (project.folder / "big").stat().st_size == LARGE + 6


async def test_undo_keeps_files_that_were_ignored_too_large_or_in_nested_repository(
    project: ScriptedProject,
) -> None:
    async with rewindable(project) as driver:
        (project.folder / "big").write_bytes(b"x" * (LARGE + 1))
        driver.edit(**{".env": "KEY=1\n", ".gitignore": ".env\nlog/\n"})
        inner = project.folder / "inner"
        for folder in ("objects", "refs"):
            (inner / ".git" / folder).mkdir(parents=True)
        (inner / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
        (inner / "f").write_text("theirs\n")
        commands = ["rm .gitignore", "echo 2 >> .env", "echo small > big", "rm -rf inner/.git"]
        await driver.prompt(
            "work", "; ".join([*commands, "mkdir log", "echo x > log/x", "echo > a"])
        )
        assert await changed(driver) == {".gitignore": "added", "a": "removed"}

        moved = await driver.timeline.undo()

        assert (moved.done, moved.failed) == ((".gitignore", "a"), ())
        # `log/` was ignored before the run, so nobody knows whether `log/x` existed then.
        assert moved.left_out == (".env", "big", "inner/", "inner/f", "log/x")
        assert sorted(driver.files) == [".env", ".gitignore", "big", "inner/f", "log/x"]


async def test_redo_removes_file_that_run_removed_and_ignored(
    project: ScriptedProject,
) -> None:
    async with rewindable(project) as driver:
        driver.edit(made="one\n")
        await driver.prompt("work", "rm made; echo made > .gitignore")
        await driver.timeline.undo()
        assert driver.files == {"made": "one\n"}

        moved = await driver.timeline.redo()

        assert (moved.done, moved.left_out) == ((".gitignore", "made"), ())
        assert driver.files == {".gitignore": "made\n"}


class Cut(SnapshotRepository):
    """Restores one file, and is then killed."""

    async def restore(self, tree: str, paths: Sequence[str]) -> RestoreResult:
        await super().restore(tree, paths[-1:])
        raise asyncio.CancelledError


async def test_redo_reverts_files_restored_by_interrupted_undo(
    project: ScriptedProject,
) -> None:
    async with rewindable(project, keeping=Cut) as driver:
        driver.edit(a="one\n", b="one\n", c="one\n")
        await driver.prompt("work", "echo two > b; echo two > c")
        driver.edit(a="mine\n")
        with pytest.raises(asyncio.CancelledError):
            await driver.timeline.undo(also=["a"])
    async with rewindable(project, "newest") as driver:
        half = driver.files
        driver.edit(c="mine, too\n")

        assert (await driver.timeline.undo()).kept == ("c",)
        moved = await driver.timeline.redo()

        assert half == {"a": "one\n", "b": "two\n", "c": "two\n"}
        assert moved.kept == ("c",)
        assert driver.files == {"a": "mine\n", "b": "two\n", "c": "mine, too\n"}


async def test_file_that_cannot_be_restored_is_reported_with_reason(
    project: ScriptedProject,
) -> None:
    async with rewindable(project) as driver:
        driver.edit(a="one\n", b="one\n")
        await driver.prompt("work", "rm a; mkdir a; echo x > a/mine; echo two > b")
        (project.folder / "a" / "more").write_text("made by the person")

        moved = await driver.timeline.undo()

        told = {*moved.done, *moved.kept, *(path for path, _ in moved.failed)}
        assert {"a", "b"} <= told
        assert (project.folder / "a" / "more").read_text() == "made by the person"
        assert (project.folder / "b").read_text() == "one\n"
        assert [why for _, why in moved.failed if not why] == []


async def test_rewind_without_snapshot_moves_only_conversation(
    project: ScriptedProject, tmp_path: Path
) -> None:
    async with rewindable(project) as driver:
        driver.edit(a="one\n")
        await driver.prompt("work", "echo two > a")
        driver.repository.store.rename(tmp_path / "elsewhere")
        with pytest.raises(DirgeError, match="the files cannot go there"):
            await driver.timeline.rewind(what="both")
        assert len(driver.conversation.messages) == 4

        moved = await driver.timeline.undo()

        assert "snapshot" in moved.unavailable
        assert (list(driver.conversation.messages), driver.files) == ([], {"a": "two\n"})


async def test_changed_since_counts_changed_files_for_each_prompt(
    project: ScriptedProject,
) -> None:
    async with rewindable(project) as driver:
        await driver.prompt("first", "echo x > a")
        await driver.prompt("talk")
        await driver.prompt("second", "echo x > b")
        prompts = driver.timeline.prompts()

        counts = await driver.timeline.changed_since(prompts)

        assert [counts[prompt.id] for prompt in prompts] == [1, 1, 2]
