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


async def test_no_memory_file_is_created_before_the_first_update(tmp_path: Path) -> None:
    memory = kept_in(tmp_path)

    assert memory.prefetch() == RecalledMemory()
    assert await memory.read("user") == ""
    await memory.sync(())
    assert list(tmp_path.iterdir()) == []


async def test_memory_files_are_readable_only_by_their_owner(tmp_path: Path) -> None:
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


async def test_existing_entry_is_not_added_twice(tmp_path: Path, project: Path) -> None:
    memory = kept_in(tmp_path)
    await memory.update(add("same"))
    before = project.stat().st_mtime_ns

    assert "already" in await memory.update(add(" same\n"))
    assert project.stat().st_mtime_ns == before


async def test_a40_long_memory_is_truncated_at_the_beginning_with_a_note(
    tmp_path: Path, project: Path
) -> None:
    text = "".join(f"{number:04} " for number in range(5_000))
    project.write_text(text)

    prefetched = kept_in(tmp_path).prefetch().project

    heading, _, kept = prefetched.partition("\n")
    assert heading == "[4999 characters at the beginning left off]"
    assert kept == text.strip()[-20_000:]


async def test_replace_and_remove_report_the_number_of_changed_entries(
    tmp_path: Path, project: Path
) -> None:
    project.write_text("- use tabs\n- tabs in Makefiles\n- other\n")
    memory = kept_in(tmp_path)

    change = MemoryUpdate(store="memory", action="replace", content="use spaces", match="tabs")
    assert await memory.update(change) == "Replaced 2 entries in MEMORY.md."
    assert project.read_text() == "- use spaces\n- other\n"
    gone = MemoryUpdate(store="memory", action="remove", match="other")
    assert await memory.update(gone) == "Removed 1 entry from MEMORY.md."
    assert project.read_text() == "- use spaces\n"


async def test_replace_without_match_rewrites_the_whole_file(tmp_path: Path, project: Path) -> None:
    project.write_text("- old\n")

    change = MemoryUpdate(store="memory", action="replace", content="# New\n\nwords")
    assert await kept_in(tmp_path).update(change) == "MEMORY.md was rewritten."
    assert project.read_text() == "# New\n\nwords\n"


async def test_update_with_outdated_expected_text_raises_conflict(
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
async def test_refused_memory_update_has_a_hint_and_changes_no_file(
    tmp_path: Path, project: Path, change: MemoryUpdate, expected: str
) -> None:
    project.write_text("- Use tabs\n- use tabs\n")

    with pytest.raises(DirgeError) as refused:
        await kept_in(tmp_path).update(change)

    assert expected in refused.value.hint
    assert project.read_text() == "- Use tabs\n- use tabs\n"


async def test_control_characters_and_secrets_are_removed_from_memory(
    tmp_path: Path, project: Path
) -> None:
    memory = kept_in(tmp_path, redact=lambda text: text.replace("s3cret", "[redacted]"))

    done = await memory.update(add("key s3cret\x1b[2J\u202e"))
    assert done == "Added to MEMORY.md. A secret was left out."
    assert project.read_text() == "- key [redacted]<U+202E>\n"

    project.write_text("by hand: s3cret \x1b]0;x\x07")
    assert memory.prefetch().project == "by hand: [redacted]"


@pytest.mark.parametrize("content", [b"\xff\xfe\0a", b"- a\n" * 300_000])
async def test_unreadable_memory_file_gives_a_notice_and_is_not_changed(
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


async def test_pipe_or_folder_as_memory_file_does_not_block(tmp_path: Path, project: Path) -> None:
    os.mkfifo(project)
    (tmp_path / "config" / "USER.md").mkdir(parents=True)
    memory = kept_in(tmp_path)

    assert len(memory.prefetch().notices) == 2
    with pytest.raises(FileError):
        await memory.update(add("x"))


async def test_memory_file_that_is_a_link_stays_a_link(tmp_path: Path, project: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    (tmp_path / "dotfiles" / "notes").write_text("- a\n")
    project.symlink_to(tmp_path / "dotfiles" / "notes")

    await kept_in(tmp_path).update(add("b"))

    assert project.is_symlink()
    assert (tmp_path / "dotfiles" / "notes").read_text() == "- a\n- b\n"


async def test_memory_update_fails_if_another_process_holds_the_lock(
    tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write_text("- a\n")
    monkeypatch.setattr(store, "_LOCK_TIMEOUT_S", 0.0)

    with hold_lock(project.with_name(".MEMORY.md.lock"), 0.0), pytest.raises(FileError) as refused:
        await kept_in(tmp_path).update(add("b"))

    assert refused.value.message == f"{project} was not written: another process holds it."
    assert project.read_text() == "- a\n"


def test_two_processes_writing_memory_at_once_lose_no_entries(
    tmp_path: Path, project: Path
) -> None:
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
