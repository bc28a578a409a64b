"""`/diff`, `/add-dir`, `/cd` and `/config`, as typed."""

import shlex
from pathlib import Path
from typing import cast

import pytest

from dirge_py.config.load import load
from dirge_py.config.schema import Config
from dirge_py.conversation.conversation import Conversation
from dirge_py.slash.base import Unsupported
from dirge_py.types.errors import UsageError
from tests.conversation.room import Room
from tests.session.rewind.kept import desk
from tests.slash.hand import Screen, typed, typed_into


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Room:
    room = Room(tmp_path)
    monkeypatch.chdir(room.project)
    return room


async def test_the_diff_is_what_the_session_changed_by_whatever_means(room: Room) -> None:
    async with desk(room) as d:
        d.edit(a="one\n", b="same\n", gone="x\n")
        await d.prompt("go", "printf 'two\\n' > a; rm gone; printf 'new\\n' > c")
        d.edit(b="mine\n")

        whole = await typed("/diff", d.talk)
        single = await typed("/diff ./a", d.talk)
        from_root = await typed(f"/diff {room.project / 'c'}", d.talk)

    assert whole.shown == ["Since the session began, by you or the model, 4 files: a, b, c, gone"]
    for line in ("-one", "+two", "-same", "+mine", "-x", "+new"):
        assert line in whole.diffs[0].splitlines()
    assert "+two" in single.diffs[0]
    assert "mine" not in single.diffs[0]
    assert "+new" in from_root.diffs[0]


async def test_the_diff_says_that_nothing_differs_and_where_nobody_can_tell(room: Room) -> None:
    async with desk(room) as d:
        d.edit(a="one\n")
        await d.prompt("look")
        assert (await typed("/diff", d.talk)).text == "Nothing differs since the session began."
        told = (await typed("/diff a", d.talk)).text
        assert told == "Nothing differs in a since the session began."
        with pytest.raises(UsageError, match="is not in the project"):
            await typed("/diff ../elsewhere", d.talk)
    async with room.open() as talk:
        with pytest.raises(UsageError, match="no record of what changed"):
            await typed("/diff", talk)


async def test_without_snapshots_it_is_what_differs_from_the_last_commit(room: Room) -> None:
    async def uncommitted() -> str:
        return "diff --git a/x b/x\n+x\n--- /dev/null\n+++ b/new\n+y\n"

    async with room.open() as talk:
        talk.timeline.uncommitted = uncommitted
        told = await typed("/diff", talk)

    assert told.shown == ["Since the last commit, by you or the model, 2 files: x, new"]
    assert told.diffs == ["diff --git a/x b/x\n+x\n--- /dev/null\n+++ b/new\n+y\n"]


async def test_a_folder_is_added_once_it_was_said_what_that_means(
    room: Room, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "notes.txt").write_text("hello\n")
    async with room.open() as talk:
        assert talk.settings.why("edit", str(other / "notes.txt")).effect == "ask"
        refused = await typed("/add-dir ../other", talk, None)
        assert refused.text == "Nothing was added."
        assert talk.settings.why("edit", str(other / "notes.txt")).effect == "ask"

        added = await typed("/add-dir ../other", talk, "add it")

        assert "becomes part of the workspace" in added.asked[0]
        assert str(other) in added.text
        assert talk.settings.why("edit", str(other / "notes.txt")).effect == "allow"
        assert "part of the workspace already" in (await typed(f"/add-dir {other}/", talk)).text
        assert str(other) in (await typed("/add-dir", talk)).text
        room.model.will_call("write", path=str(other / "new.txt"), content="made\n")
        room.model.will_say("Done.")
        await talk.send("write there")
    assert (other / "new.txt").read_text() == "made\n"
    async with room.open("newest") as talk:
        assert talk.settings.why("edit", str(other / "notes.txt")).effect == "ask"


async def test_only_a_folder_that_is_there_is_added(room: Room, tmp_path: Path) -> None:
    (room.project / "file").write_text("")
    async with room.open() as talk:
        for name in ("nowhere", "file", "~nobody-of-that-name/x"):
            with pytest.raises(UsageError, match=r"is no folder|is not a folder"):
                await typed(f"/add-dir {name}", talk)
        # What is dirge's own stays closed, whatever is added.
        await typed(f"/add-dir {tmp_path}", talk, "add it")
        assert talk.settings.why("read", str(room.state_dir / "x")).effect == "deny"


async def test_another_folder_needs_a_front_end_that_can_open_it(room: Room) -> None:
    async with room.open() as talk:
        with pytest.raises(Unsupported):
            await typed("/cd ..", talk)


class Opener(Screen):
    opened_in: Path | None = None

    async def open_in(self, folder: Path) -> Conversation:
        self.opened_in = folder
        raise Unsupported("tests")


async def test_the_folder_gone_to_is_the_physical_one(room: Room, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(room.project.parent)
    async with room.open() as talk:
        screen = Opener()
        with pytest.raises(Unsupported):
            await typed_into(screen, f"/cd {tmp_path / 'link'}", talk)
        assert screen.opened_in == tmp_path
        assert "This is" in (await typed_into(Opener(), "/cd .", talk)).text


class Mover(Screen):
    async def open_in(self, folder: Path) -> Conversation:
        return cast("Conversation", None)


async def test_the_way_back_can_be_typed_as_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my; touch x").mkdir()
    room = Room(tmp_path / "my; touch x")
    monkeypatch.chdir(room.project)
    async with room.open() as talk:
        told = (await typed_into(Mover(), "/cd ..", talk)).text

    assert shlex.split(told.partition("To go back: ")[2])[:3] == ["dirge", "-C", str(room.project)]


class Editor(Screen):
    """A front end with settings of its own, and an editor that writes what it is told to."""

    def __init__(self, file: Path, writes: str | None = None) -> None:
        super().__init__()
        self.settings_file = file
        self._writes = writes

    def settings(self) -> Config:
        return load(environment={"HOME": "/nowhere"}, path=self.settings_file)

    async def edit_text(self, text: str) -> str | None:
        return self._writes


async def test_settings_are_shown_as_far_as_they_are_set(room: Room, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[ui]\ntheme = "light"\n[limits]\ncost_usd = 2.5\n')
    async with room.open() as talk:
        told = (await typed_into(Editor(file), "/settings", talk)).text
        assert (
            "Limits of one run: cost_usd 2.5"
            in (await typed_into(Editor(file), "/cost", talk)).text
        )

    assert f'ui.theme = "light"  # {file}:2' in told
    assert "show_thinking" not in told


async def test_what_was_edited_is_written_and_checked(room: Room, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[ui]\ntheme = "light"\n')
    async with room.open() as talk:
        for left in (None, '[ui]\ntheme = "light"'):
            unchanged = await typed_into(Editor(file, left), "/config edit", talk)
            assert unchanged.text == "Nothing was changed."

        good = await typed_into(Editor(file, '[ui]\ntheme = "plain"'), "/config edit", talk)
        assert "was written and is valid" in good.text
        assert file.read_text() == '[ui]\ntheme = "plain"\n'

        bad = await typed_into(Editor(file, "[ui]\ntheem = 1\n"), "/config edit", talk)
        assert "not usable" in bad.text
        assert "theme" in bad.text
        assert bad.input == "/config edit"
        with pytest.raises(UsageError, match="does not know"):
            await typed_into(Editor(file), "/config eidt", talk)
    async with room.open() as talk:
        with pytest.raises(Unsupported):
            await typed("/config", talk)
