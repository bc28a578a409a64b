"""`/memory`, `/remember` and `/init`, as typed."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from dirge_py import slash
from dirge_py.extensions.memory.extension import Memory
from dirge_py.extensions.memory.store import FileMemory
from dirge_py.frontend.print.print_mode import PrintFront
from dirge_py.slash.base import Unsupported
from dirge_py.slash.registry import Registry, discover
from dirge_py.types.errors import UsageError
from dirge_py.types.memory import MemoryConflict, MemoryUpdate
from tests.extensions.memory.test_files import add, kept_in

COMMANDS = Registry(discover(slash))


class EditorFront(PrintFront):
    """A front end whose editor replaces the text by `edited`."""

    def __init__(self, commands: Registry, edited: Any) -> None:
        super().__init__(commands)
        self.edited = edited
        self.given: list[str] = []
        self.input = ""

    async def edit_text(self, text: str) -> str | None:
        self.given.append(text)
        edited: str | None = await self.edited(text)
        return edited

    def set_input(self, text: str) -> None:
        self.input = text


@dataclass
class MemoryConversation:
    memory: FileMemory | None = None
    is_running: bool = False
    is_compacting: bool = False
    exclusive_owner: None = None
    sent: list[str] = field(default_factory=list)

    def send(self, prompt: str) -> None:
        self.sent.append(prompt)

    def extension(self, kind: type[Memory]) -> Memory | None:
        return Memory(self.memory) if self.memory is not None else None


async def run_line(
    line: str, conversation: MemoryConversation, front: PrintFront | None = None
) -> Sequence[str]:
    front = front or PrintFront(COMMANDS)
    command = COMMANDS.read(line)
    assert command is not None
    await COMMANDS.run(command, conversation, front)  # type: ignore[arg-type]
    return front.shown


async def test_memory_shows_stored_notes_with_their_files(tmp_path: Path) -> None:
    conversation = MemoryConversation(kept_in(tmp_path))

    [done] = await run_line("/remember make check   runs all\ntwice", conversation)
    assert "Added to MEMORY.md" in done
    assert "next run" in done
    await run_line("/remember --user likes tabs", conversation)

    [shown] = await run_line("/memory", conversation)
    assert str(tmp_path / "state" / "MEMORY.md") in shown
    assert "- make check   runs all\n  twice" in shown
    assert str(tmp_path / "config" / "USER.md") in shown
    assert "- likes tabs" in shown


async def test_empty_memory_stores_are_shown_as_empty(tmp_path: Path) -> None:
    [shown] = await run_line("/memory", MemoryConversation(kept_in(tmp_path)))

    assert shown.count("(nothing yet)") == 2


@pytest.mark.parametrize(
    ("line", "name"), [("/memory edit", "memory"), ("/memory edit user", "user")]
)
async def test_memory_edit_replaces_store(tmp_path: Path, line: str, name: Any) -> None:
    memory = kept_in(tmp_path)
    await memory.update(MemoryUpdate(store=name, action="add", content="old"))

    async def edited(text: str) -> str:
        return f"{text}- new"

    front = EditorFront(COMMANDS, edited)
    [done] = await run_line(line, MemoryConversation(memory), front)

    assert front.given == ["- old\n"]
    assert "was rewritten" in done
    assert await memory.read(name) == "- old\n- new\n"


async def test_unchanged_edit_writes_nothing(tmp_path: Path) -> None:
    async def edited(text: str) -> str | None:
        return None if not text else text.removesuffix("\n")

    memory = kept_in(tmp_path)
    [shown] = await run_line(
        "/memory edit", MemoryConversation(memory), EditorFront(COMMANDS, edited)
    )
    assert shown == "Nothing was changed."
    assert list(tmp_path.iterdir()) == []

    await memory.update(add("old"))
    [shown] = await run_line(
        "/memory edit", MemoryConversation(memory), EditorFront(COMMANDS, edited)
    )
    assert shown == "Nothing was changed."


async def test_edit_that_conflicts_with_another_process_returns_to_input(
    tmp_path: Path,
) -> None:
    memory = kept_in(tmp_path)

    async def edited(text: str) -> str:
        await kept_in(tmp_path).update(add("of another process"))
        return "- mine"

    front = EditorFront(COMMANDS, edited)
    with pytest.raises(MemoryConflict):
        await run_line("/memory edit", MemoryConversation(memory), front)

    assert front.input == "- mine"
    assert await memory.read("memory") == "- of another process\n"


@pytest.mark.parametrize("line", ["/memory x", "/memory edit all", "/remember", "/remember --user"])
async def test_invalid_memory_arguments_show_usage(tmp_path: Path, line: str) -> None:
    with pytest.raises(UsageError) as refused:
        await run_line(line, MemoryConversation(kept_in(tmp_path)))

    assert "/memory edit" in refused.value.hint or "/remember TEXT" in refused.value.hint


async def test_disabled_memory_names_its_setting(tmp_path: Path) -> None:
    for line in ("/memory", "/remember x"):
        with pytest.raises(UsageError) as refused:
            await run_line(line, MemoryConversation())
        assert "[memory]" in refused.value.hint


async def test_memory_edit_needs_a_screen_and_other_commands_do_not(tmp_path: Path) -> None:
    with pytest.raises(Unsupported):
        await run_line("/memory edit", MemoryConversation(kept_in(tmp_path)))
    for name in ("memory", "remember", "init"):
        command = COMMANDS.find(name)
        assert command is not None
        assert command.headless


async def test_init_sends_prompt_about_agents_md_with_user_wishes() -> None:
    conversation = MemoryConversation()

    await run_line("/init mention the fixtures", conversation)

    [prompt] = conversation.sent
    assert prompt.startswith("Write AGENTS.md at the root of this project")
    assert prompt.endswith("What matters to me in particular: mention the fixtures")


async def test_init_has_to_wait_during_a_run() -> None:
    with pytest.raises(UsageError, match="has to wait"):
        await run_line("/init", MemoryConversation(is_running=True))
