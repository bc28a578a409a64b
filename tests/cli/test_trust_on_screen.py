"""The question about a project in the terminal UI: before anything is opened, and once."""

from pathlib import Path

import pytest

from dirge_py.permission.project_trust import TrustGate
from dirge_py.ui.panels.trust import TrustDialog
from tests.conversation.room import Room
from tests.ui.running_app import RunningApp, running_app


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Room:
    room = Room(tmp_path)
    plugins = room.project / ".dirge" / "plugins"
    plugins.mkdir(parents=True)
    (plugins / "lint.py").write_text("def register(dirge): pass\n", encoding="utf-8")
    monkeypatch.chdir(room.project)
    return room


@pytest.fixture
def door(room: Room) -> TrustGate:
    environment = {"HOME": str(room.project.parent), "DIRGE_STATE_DIR": str(room.state_dir)}
    return TrustGate(room.project, environment)


def asked(d: RunningApp) -> bool:
    dialog = next(iter(d.app.query(TrustDialog)), None)
    return dialog is not None and dialog.has_focus and dialog.may_approve


@pytest.mark.parametrize(
    ("keys", "state"), [(["y", "enter"], "trusted"), (["escape"], "restricted")]
)
async def test_the_question_comes_before_the_conversation_and_only_once(
    room: Room, door: TrustGate, keys: list[str], state: str
) -> None:
    async with running_app(room, opens=False, project=lambda: door) as d:
        await d.until(lambda: asked(d))
        assert d.opened == []
        await d.pilot.press(*keys)
        await d.until(lambda: d.app.controller.conversation)
        assert door.project.state == state

        await d.send("/new")
        await d.until(lambda: len(d.opened) == 2)
        assert not asked(d)


async def test_what_is_trusted_names_the_theme(room: Room, door: TrustGate) -> None:
    settings = room.project / ".dirge" / "config.toml"
    settings.write_text('[ui]\ntheme = "light"\n', encoding="utf-8")
    async with running_app(room, opens=False, project=lambda: door, theme="dark") as d:
        await d.until(lambda: asked(d))
        assert d.app.theme_switcher.theme.name == "dark"
        await d.pilot.press("y", "enter")
        await d.until(lambda: d.app.controller.conversation)
        assert d.app.theme_switcher.theme.name == "light"


async def test_settings_that_a_project_may_not_have_end_the_start(
    room: Room, door: TrustGate
) -> None:
    settings = room.project / ".dirge" / "config.toml"
    settings.write_text('provider = "x"\n', encoding="utf-8")
    async with running_app(room, opens=False, project=lambda: door) as d:
        await d.until(lambda: asked(d))
        await d.pilot.press("y", "enter")
        await d.until(lambda: d.app.failure)
        assert "a project may not set `provider`" in str(d.app.failure)
        assert (d.opened, door.project.state) == ([], "restricted")
        assert not (room.state_dir / "trust.json").exists()
