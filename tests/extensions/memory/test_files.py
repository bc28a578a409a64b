"""The memory files: complete, private, safe with several processes, never emptied by mistake."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dirge_py.extensions.memory import store
from dirge_py.extensions.memory.store import FileMemory
from dirge_py.lib.file_lock import hold_lock
from dirge_py.types.errors import DirgeError, FileError
from dirge_py.types.memory import MemoryConflict, MemoryUpdate, RecalledMemory

WRITER = """
import asyncio, sys
from pathlib import Path
from tests.extensions.memory.test_files import add, kept_in
async def main():
    memory = kept_in(Path(sys.argv[1]))
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(int(sys.argv[3])):
        await memory.update(add(f"{sys.argv[2]} {number}"))
asyncio.run(main())
"""


def kept_in(folder: Path, **more: Any) -> FileMemory:
    return FileMemory(
        project_file=folder / "state" / "MEMORY.md",
        user_file=folder / "config" / "USER.md",
        **more,
    )


def add(content: str) -> MemoryUpdate:
    return MemoryUpdate(store="memory", action="add", content=content)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir()
    return tmp_path / "state" / "MEMORY.md"


async def test_nothing_is_made_before_something_is_remembered(tmp_path: Path) -> None:
    memory = kept_in(tmp_path)

    assert memory.prefetch() == RecalledMemory()
    assert await memory.read("user") == ""
    await memory.sync(())
    assert list(tmp_path.iterdir()) == []


async def test_both_stores_are_kept_for_their_owner_alone(tmp_path: Path) -> None:
    memory = kept_in(tmp_path)

    assert await memory.update(add("Run make check.")) == "Added to MEMORY.md."
    await memory.update(MemoryUpdate(store="user", action="add", content="Likes tabs."))

    assert kept_in(tmp_path).prefetch() == RecalledMemory(
        project="- Run make check.", user="- Likes tabs."
    )
    for name in ("memory", "user"):
        path = Path(memory.where(name))  # type: ignore[arg-type]
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700


async def test_what_is_known_already_is_not_written_twice(tmp_path: Path, project: Path) -> None:
    memory = kept_in(tmp_path)
    await memory.update(add("same"))
    before = project.stat().st_mtime_ns

    assert "already" in await memory.update(add(" same\n"))
    assert project.stat().st_mtime_ns == before


async def test_a40_the_end_of_a_long_file_is_kept_and_the_cut_is_said(
    tmp_path: Path, project: Path
) -> None:
    text = "".join(f"{number:04} " for number in range(5_000))
    project.write_text(text)

    prefetched = kept_in(tmp_path).prefetch().project

    heading, _, kept = prefetched.partition("\n")
    assert heading == "[4999 characters at the beginning left off]"
    assert kept == text.strip()[-20_000:]


async def test_replace_and_remove_say_how_much_they_changed(tmp_path: Path, project: Path) -> None:
    project.write_text("- use tabs\n- tabs in Makefiles\n- other\n")
    memory = kept_in(tmp_path)

    change = MemoryUpdate(store="memory", action="replace", content="use spaces", match="tabs")
    assert await memory.update(change) == "Replaced 2 entries in MEMORY.md."
    assert project.read_text() == "- use spaces\n- other\n"
    gone = MemoryUpdate(store="memory", action="remove", match="other")
    assert await memory.update(gone) == "Removed 1 entry from MEMORY.md."
    assert project.read_text() == "- use spaces\n"


async def test_without_a_match_everything_is_replaced(tmp_path: Path, project: Path) -> None:
    project.write_text("- old\n")

    change = MemoryUpdate(store="memory", action="replace", content="# New\n\nwords")
    assert await kept_in(tmp_path).update(change) == "MEMORY.md was rewritten."
    assert project.read_text() == "# New\n\nwords\n"


async def test_a_change_from_what_it_no_longer_says_is_refused(
    tmp_path: Path, project: Path
) -> None:
    project.write_text("- of another process\n")

    with pytest.raises(MemoryConflict):
        await kept_in(tmp_path).update(
            MemoryUpdate(store="memory", action="replace", content="mine", expected="")
        )
    assert project.read_text() == "- of another process\n"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (MemoryUpdate(store="memory", action="remove", match="usetabs"), "`- Use tabs`"),
        (MemoryUpdate(store="memory", action="replace", match="qqq", content="x"), "nothing like"),
        (MemoryUpdate(store="memory", action="remove"), "words of the entry"),
        (MemoryUpdate(store="memory", action="replace", match=" ", content="x"), "words of the"),
        (add(" \n"), "the text to remember"),
        (add("x" * 2_001), "fewer words"),
        (add("x" * 1_999 + "\u202e"), "fewer words"),
    ],
)
async def test_what_cannot_be_done_says_what_to_do_and_changes_nothing(
    tmp_path: Path, project: Path, change: MemoryUpdate, expected: str
) -> None:
    project.write_text("- Use tabs\n- use tabs\n")

    with pytest.raises(DirgeError) as refused:
        await kept_in(tmp_path).update(change)

    assert expected in refused.value.hint
    assert project.read_text() == "- Use tabs\n- use tabs\n"


async def test_no_control_character_and_no_secret_is_kept_or_told(
    tmp_path: Path, project: Path
) -> None:
    memory = kept_in(tmp_path, redact=lambda text: text.replace("s3cret", "[redacted]"))

    done = await memory.update(add("key s3cret\x1b[2J\u202e"))
    assert done == "Added to MEMORY.md. A secret was left out."
    assert project.read_text() == "- key [redacted]<U+202E>\n"

    project.write_text("by hand: s3cret \x1b]0;x\x07")
    assert memory.prefetch().project == "by hand: [redacted]"


@pytest.mark.parametrize("content", [b"\xff\xfe\0a", b"- a\n" * 300_000])
async def test_a_file_that_cannot_be_read_is_a_notice_and_stays_as_it_is(
    tmp_path: Path, project: Path, content: bytes
) -> None:
    project.write_bytes(content)
    memory = kept_in(tmp_path)

    prefetched = memory.prefetch()
    assert (prefetched.project, len(prefetched.notices)) == ("", 1)
    assert str(project) in prefetched.notices[0]
    for change in (add("new"), MemoryUpdate(store="memory", action="replace", content="all")):
        with pytest.raises(FileError):
            await memory.update(change)
    assert project.read_bytes() == content


async def test_a_pipe_or_folder_in_its_place_does_not_hold_anybody_up(
    tmp_path: Path, project: Path
) -> None:
    os.mkfifo(project)
    (tmp_path / "config" / "USER.md").mkdir(parents=True)
    memory = kept_in(tmp_path)

    assert len(memory.prefetch().notices) == 2
    with pytest.raises(FileError):
        await memory.update(add("x"))


async def test_a_link_to_the_persons_own_files_is_kept(tmp_path: Path, project: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    (tmp_path / "dotfiles" / "notes").write_text("- a\n")
    project.symlink_to(tmp_path / "dotfiles" / "notes")

    await kept_in(tmp_path).update(add("b"))

    assert project.is_symlink()
    assert (tmp_path / "dotfiles" / "notes").read_text() == "- a\n- b\n"


async def test_who_cannot_wait_for_another_process_any_longer_is_told_so(
    tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write_text("- a\n")
    monkeypatch.setattr(store, "_LOCK_TIMEOUT_S", 0.0)

    with hold_lock(project.with_name(".MEMORY.md.lock"), 0.0), pytest.raises(FileError) as refused:
        await kept_in(tmp_path).update(add("b"))

    assert refused.value.message == f"{project} was not written: another process holds it."
    assert project.read_text() == "- a\n"


def test_two_processes_that_write_at_once_lose_nothing(tmp_path: Path, project: Path) -> None:
    count = 15
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), name, str(count)],
            cwd=Path(__file__).parents[3],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for name in ("left", "right")
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"
    assert [writer.communicate(b"go\n", timeout=60)[0] for writer in writers] == [b"", b""]

    lines = project.read_text().splitlines()
    assert sorted(lines) == sorted(
        f"- {who} {n}" for who in ("left", "right") for n in range(count)
    )
    assert [line for line in lines if "left" in line] == [f"- left {n}" for n in range(count)]
