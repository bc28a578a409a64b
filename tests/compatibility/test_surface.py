"""The public surface has lost nothing: flags, commands, JSON, exit codes, names."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.compatibility.old_homes import DATA, OldHome
from tests.compatibility.public_surface import (
    documented,
    flags,
    missing,
    outputs,
    slash_commands,
    subcommands,
)

DOCS = Path(__file__).parents[2] / "docs"
BEFORE: dict[str, Any] = json.loads((DATA / "surface.json").read_text(encoding="utf-8"))


@pytest.fixture
def plain(home: Callable[[str], OldHome]) -> OldHome:
    plain = home("plain")
    (plain.project / "here.txt").write_text("here\n")
    return plain


def test_every_former_flag_exists(plain: OldHome) -> None:
    now = flags(plain.try_to_run)
    assert {
        words: lost
        for words, before in BEFORE["flags"].items()
        if (lost := {*before} - {*now[words]})
    } == {}


def test_every_former_subcommand_exists(plain: OldHome) -> None:
    assert set(BEFORE["subcommands"]) - set(subcommands(plain.try_to_run)) == set()


def test_every_former_slash_command_exists(plain: OldHome) -> None:
    assert set(BEFORE["slash_commands"]) - set(slash_commands(plain.try_to_run)) == set()


def test_exit_codes_and_json_members_are_unchanged(plain: OldHome) -> None:
    now = outputs(plain.try_to_run, plain.service)
    codes = {kind: output["exit_code"] for kind, output in BEFORE["outputs"].items()}
    assert {kind: output["exit_code"] for kind, output in now.items()} == codes
    assert missing(BEFORE["outputs"], now) == []


def test_defaults_of_settings_are_unchanged(plain: OldHome) -> None:
    now = plain.run("config", "show").splitlines()
    assert [line for line in plain.kept("shown.txt").splitlines() if line not in now] == []


def test_former_docs_topics_are_still_documented() -> None:
    assert set(BEFORE["documented"]) - set(documented(DOCS)) == set()
