"""`/export` and `/rename`, as typed."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dirge_py import slash
from dirge_py.frontend.print.print_mode import PrintFront
from dirge_py.slash.registry import Registry, discover
from dirge_py.types.errors import DirgeError, FileError, UsageError
from dirge_py.types.messages import AssistantMessage, TextBlock, Usage, user_text

COMMANDS = Registry(discover(slash))
SAID = [user_text("Fix the parser, please"), AssistantMessage(content=(TextBlock("Done."),))]


async def run_line(line: str, **conversation: Any) -> str:
    front = PrintFront(COMMANDS)
    command = COMMANDS.read(line)
    assert command is not None
    fake_conversation: Any = SimpleNamespace(
        is_running=False, is_compacting=False, exclusive_owner=None, **conversation
    )
    await COMMANDS.run(command, fake_conversation, front)
    return front.shown[0]


async def exported(line: str, folder: Path, messages: Any = SAID, title: str = "") -> str:
    return await run_line(
        line,
        cwd=folder,
        messages=messages,
        session_id="20261120-abc",
        settings=SimpleNamespace(model="work/m"),
        usage=Usage(input=7),
        cost_usd=None,
        unsent=SimpleNamespace(title=title),
    )


async def test_export_writes_new_file_named_after_session(tmp_path: Path) -> None:
    name = "dirge-fix-the-parser-please-20261120-abc"

    assert f"{name}.md" in await exported("/export", tmp_path)
    assert f"{name}-2.md" in await exported("/export", tmp_path)
    assert f"{name}.html" in await exported("/export html", tmp_path)

    first, second = (tmp_path / f"{name}{end}.md" for end in ("", "-2"))
    assert first.read_bytes() == second.read_bytes()
    assert "> Fix the parser, please" in first.read_text()


async def test_export_uses_title_of_renamed_session(tmp_path: Path) -> None:
    assert "dirge-the-lexer-20261120" in await exported("/export", tmp_path, title="The lexer")

    [file] = tmp_path.iterdir()
    assert file.read_text().startswith("# The lexer\n")


async def test_file_extension_decides_export_format(tmp_path: Path) -> None:
    await exported("/export talk.json", tmp_path)
    await exported("/export md talk.html", tmp_path)

    assert json.loads((tmp_path / "talk.json").read_text())["usage"] == {"input": 7}
    assert (tmp_path / "talk.html").read_text().startswith("# Fix the parser")


async def test_unknown_export_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="There is no format 'pdf'"):
        await exported("/export pdf talk.pdf", tmp_path)
    await exported("/export md my notes.md", tmp_path)

    assert [file.name for file in tmp_path.iterdir()] == ["my notes.md"]


async def test_export_never_overwrites_a_file(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("mine")
    (tmp_path / "link.md").symlink_to(tmp_path / "elsewhere.md")

    for name in ("notes.md", "link.md"):
        with pytest.raises(FileError, match="already exists"):
            await exported(f"/export {name}", tmp_path)
    for name in ("no/such/folder.md", "~nobody-of-that-name/talk.md"):
        with pytest.raises(FileError, match="No such file"):
            await exported(f"/export {name}", tmp_path)
    with pytest.raises(FileError, match=r"null (byte|character)"):
        await exported("/export a\0b.md", tmp_path)

    assert (tmp_path / "notes.md").read_text() == "mine"
    assert not (tmp_path / "elsewhere.md").exists()


async def test_empty_session_is_not_exported(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="This session has no messages yet"):
        await exported("/export", tmp_path, [])

    assert list(tmp_path.iterdir()) == []


async def test_rename_sets_session_title() -> None:
    def rename(title: str) -> str:
        return title.strip()

    assert "second try" in await run_line("/rename  second try ", rename=rename)
    with pytest.raises(DirgeError, match="needs a title"):
        await run_line("/rename", rename=rename)
