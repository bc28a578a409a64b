"""Going back with the files: what the agent changed goes back, what the person changed is kept."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from dirge_py.session.snapshots.base import RestoreResult
from dirge_py.session.snapshots.repository import SnapshotRepository
from dirge_py.types.errors import DirgeError
from tests.conversation.room import Room
from tests.session.rewind.kept import LARGE, Desk, desk


async def changed(d: Desk) -> dict[str, str]:
    preview = await d.timeline.preview(d.timeline.before())
    assert preview.unavailable == ""
    return {change.path: change.kind for change in preview.changes}


async def test_rewind_puts_back_what_commands_changed_made_and_removed(room: Room) -> None:
    async with desk(room) as d:
        d.edit(a="one\n", b="keep\n", c="gone soon\n")
        before = d.files
        await d.prompt("work", "echo two > a; rm c; mkdir -p deep/er; echo new > deep/er/d")
        assert await changed(d) == {"a": "changed", "c": "added", "deep/er/d": "removed"}

        moved = await d.timeline.rewind()

        assert d.files == before
        assert not (room.project / "deep").exists()
        assert moved.done == ("a", "c", "deep/er/d")
        assert (moved.what, moved.failed, moved.kept) == ("both", (), ())
        assert list(d.talk.messages) == []


async def test_g11_files_are_restored_after_a_restart_and_redone_after_another(room: Room) -> None:
    async with desk(room) as d:
        d.edit(a="one\n")
        await d.prompt("first", "echo two > a")
        await d.prompt("second", "echo three > a")
        whole, after = list(d.talk.messages), d.files
    async with desk(room, "newest") as d:
        await d.timeline.rewind(d.timeline.prompts()[1].id)
        assert d.files == {"a": "one\n"}
    async with desk(room, "newest") as d:
        assert list(d.talk.messages) == []
        await d.timeline.redo()
        assert d.files == after
        assert list(d.talk.messages) == whole


async def test_files_of_the_person_are_flagged_and_kept_unless_chosen(room: Room) -> None:
    async with desk(room) as d:
        d.edit(a="one\n", mine="one\n", other="one\n")
        await d.prompt("first", "echo two > a")
        d.edit(mine="my own\n")
        await d.prompt("second", "echo three > a; echo both >> mine")
        d.edit(other="mine, too\n")
        before = d.files
        preview = await d.timeline.preview(d.timeline.before(d.timeline.prompts()[1].id))
        assert [change.path for change in preview.changes] == ["a"]
        assert [change.path for change in preview.yours] == ["mine", "other"]

        moved = await d.timeline.rewind(d.timeline.prompts()[1].id, also=["other"])

        assert moved.kept == ("mine",)
        assert d.files == {"a": "one\n", "mine": before["mine"], "other": "one\n"}
        await d.timeline.redo()
        assert d.files == before


async def test_files_that_changed_after_a_rewind_are_kept_and_named_by_redo(room: Room) -> None:
    async with desk(room) as d:
        d.edit(a="one\n", b="one\n")
        await d.prompt("work", "echo two > a; echo two > b")
        await d.timeline.undo()
        d.edit(a="changed since\n")

        moved = await d.timeline.redo()

        assert moved.kept == ("a",)
        assert d.files == {"a": "changed since\n", "b": "two\n"}


async def test_the_conversation_or_the_files_go_back_alone(room: Room) -> None:
    async with desk(room) as d:
        d.edit(a="one\n")
        await d.prompt("work", "echo two > a")
        whole = list(d.talk.messages)

        await d.timeline.rewind(what="files")
        assert (d.files, list(d.talk.messages)) == ({"a": "one\n"}, whole)
        await d.timeline.redo()
        assert (d.files, list(d.talk.messages)) == ({"a": "two\n"}, whole)

        await d.timeline.rewind(what="conversation")
        assert (d.files, list(d.talk.messages)) == ({"a": "two\n"}, [])
        await d.timeline.redo()
        assert (d.files, list(d.talk.messages)) == ({"a": "two\n"}, whole)


async def test_what_the_agent_did_on_a_branch_that_was_left_is_not_the_persons(room: Room) -> None:
    async with desk(room) as d:
        d.edit(a="one\n")
        await d.prompt("first", "echo two > a")
        await d.timeline.rewind(what="conversation")
        await d.prompt("other", "echo three > b")

        moved = await d.timeline.switch(d.timeline.tree().nodes[0].id, "both")

        assert (moved.done, moved.kept) == (("b",), ())
        assert d.files == {"a": "two\n"}


async def test_g13_a_file_too_large_for_a_snapshot_is_named(room: Room) -> None:
    async with desk(room) as d:
        (room.project / "big").write_bytes(b"x" * (LARGE + 1))
        await d.prompt("work", "echo more >> big; echo new > a")

        moved = await d.timeline.undo()

        assert moved.left_out == ("big",)
        assert moved.done == ("a",)
        assert (room.project / "big").stat().st_size == LARGE + 6


async def test_what_was_ignored_or_too_large_or_anothers_then_is_not_removed(room: Room) -> None:
    async with desk(room) as d:
        (room.project / "big").write_bytes(b"x" * (LARGE + 1))
        d.edit(**{".env": "KEY=1\n", ".gitignore": ".env\nlog/\n"})
        inner = room.project / "inner"
        for folder in ("objects", "refs"):
            (inner / ".git" / folder).mkdir(parents=True)
        (inner / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
        (inner / "f").write_text("theirs\n")
        commands = ["rm .gitignore", "echo 2 >> .env", "echo small > big", "rm -rf inner/.git"]
        await d.prompt("work", "; ".join([*commands, "mkdir log", "echo x > log/x", "echo > a"]))
        assert await changed(d) == {".gitignore": "added", "a": "removed"}

        moved = await d.timeline.undo()

        assert (moved.done, moved.failed) == ((".gitignore", "a"), ())
        # Nobody knows of the one in the folder that was ignored.
        assert moved.left_out == (".env", "big", "inner/", "inner/f", "log/x")
        assert sorted(d.files) == [".env", ".gitignore", "big", "inner/f", "log/x"]


async def test_a_file_that_went_when_it_was_ignored_goes_again_by_redo(room: Room) -> None:
    async with desk(room) as d:
        d.edit(made="one\n")
        await d.prompt("work", "rm made; echo made > .gitignore")
        await d.timeline.undo()
        assert d.files == {"made": "one\n"}

        moved = await d.timeline.redo()

        assert (moved.done, moved.left_out) == ((".gitignore", "made"), ())
        assert d.files == {".gitignore": "made\n"}


class Cut(SnapshotRepository):
    """Puts one file back, and is cut off."""

    async def restore(self, tree: str, paths: Sequence[str]) -> RestoreResult:
        await super().restore(tree, paths[-1:])
        raise asyncio.CancelledError


async def test_redo_brings_back_what_a_move_that_was_cut_off_had_put_back(room: Room) -> None:
    async with desk(room, keeping=Cut) as d:
        d.edit(a="one\n", b="one\n", c="one\n")
        await d.prompt("work", "echo two > b; echo two > c")
        d.edit(a="mine\n")
        with pytest.raises(asyncio.CancelledError):
            await d.timeline.undo(also=["a"])
    async with desk(room, "newest") as d:
        half = d.files
        d.edit(c="mine, too\n")

        assert (await d.timeline.undo()).kept == ("c",)
        moved = await d.timeline.redo()

        assert half == {"a": "one\n", "b": "two\n", "c": "two\n"}
        assert moved.kept == ("c",)
        assert d.files == {"a": "mine\n", "b": "two\n", "c": "mine, too\n"}


async def test_a_file_that_cannot_be_put_back_is_told_with_its_reason(room: Room) -> None:
    async with desk(room) as d:
        d.edit(a="one\n", b="one\n")
        await d.prompt("work", "rm a; mkdir a; echo x > a/mine; echo two > b")
        (room.project / "a" / "more").write_text("made by the person")

        moved = await d.timeline.undo()

        told = {*moved.done, *moved.kept, *(path for path, _ in moved.failed)}
        assert {"a", "b"} <= told
        assert (room.project / "a" / "more").read_text() == "made by the person"
        assert (room.project / "b").read_text() == "one\n"
        assert [why for _, why in moved.failed if not why] == []


async def test_without_its_snapshot_the_conversation_goes_alone(room: Room, tmp_path: Path) -> None:
    async with desk(room) as d:
        d.edit(a="one\n")
        await d.prompt("work", "echo two > a")
        d.repository.store.rename(tmp_path / "elsewhere")
        with pytest.raises(DirgeError, match="the files can't go there"):
            await d.timeline.rewind(what="both")
        assert len(d.talk.messages) == 4

        moved = await d.timeline.undo()

        assert "snapshot" in moved.unavailable
        assert (list(d.talk.messages), d.files) == ([], {"a": "two\n"})


async def test_how_many_files_changed_since_is_told_of_each_prompt(room: Room) -> None:
    async with desk(room) as d:
        await d.prompt("first", "echo x > a")
        await d.prompt("talk")
        await d.prompt("second", "echo x > b")
        prompts = d.timeline.prompts()

        counts = await d.timeline.changed_since(prompts)

        assert [counts[prompt.id] for prompt in prompts] == [1, 1, 2]
