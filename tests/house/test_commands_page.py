"""docs/commands.md matches the commands."""

from dirge_py.cli.commands_page import all_commands, page
from tests.house.source import ROOT


def test_the_page_about_commands_is_what_their_records_say() -> None:
    written = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")

    assert written == page(all_commands()), (
        "python -m dirge_py.cli.commands_page > docs/commands.md writes it anew"
    )


def test_every_command_says_what_it_does_in_a_few_words() -> None:
    registry = all_commands()

    assert registry.conflicts == []
    assert {c.name for c in registry if not c.summary or c.summary.endswith(".")} == set()


def test_what_takes_arguments_completes_them() -> None:
    """Free text, such as a question, is written in capitals."""
    closed = {c.name for c in all_commands() if "|" in c.usage and c.complete is None}

    assert closed == set()
