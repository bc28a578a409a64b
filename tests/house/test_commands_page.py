"""docs/commands.md matches the commands."""

from tests.house.commands_page import all_commands, page
from tests.house.source import ROOT


def test_commands_page_matches_the_command_table() -> None:
    written = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")

    assert written == page(all_commands()), (
        "python -m tests.house.commands_page > docs/commands.md writes it anew"
    )


def test_every_command_has_a_short_summary() -> None:
    registry = all_commands()

    assert registry.conflicts == []
    assert {c.name for c in registry if not c.summary or c.summary.endswith(".")} == set()


def test_commands_with_arguments_complete_them() -> None:
    """Free text, such as a question, is written in capitals."""
    closed = {c.name for c in all_commands() if "|" in c.usage and c.complete is None}

    assert closed == set()
