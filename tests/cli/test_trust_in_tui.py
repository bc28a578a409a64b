"""The trust question of the terminal UI: once, and before anything is opened."""

from pathlib import Path

import pytest

from dirge_py.permission.project_trust import TrustGate
from dirge_py.ui.panels.form import TrustDialog
from tests.support.app_driver import AppDriver, running_app
from tests.support.project import ScriptedProject


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScriptedProject:
    project = ScriptedProject(tmp_path)
    plugins = project.folder / ".dirge" / "plugins"
    plugins.mkdir(parents=True)
    (plugins / "lint.py").write_text("def register(dirge): pass\n", encoding="utf-8")
    monkeypatch.chdir(project.folder)
    return project


@pytest.fixture
def gate(project: ScriptedProject) -> TrustGate:
    environment = {"HOME": str(project.folder.parent), "DIRGE_STATE_DIR": str(project.state_dir)}
    return TrustGate(project.folder, environment)


def is_asking(driver: AppDriver) -> bool:
    dialog = next(iter(driver.app.query(TrustDialog)), None)
    return dialog is not None and dialog.has_focus and dialog.may_approve


@pytest.mark.parametrize(
    ("keys", "state"), [(["y", "enter"], "trusted"), (["escape"], "restricted")]
)
async def test_trust_is_asked_once_before_conversation_opens(
    project: ScriptedProject, gate: TrustGate, keys: list[str], state: str
) -> None:
    async with running_app(project, opens=False, project=lambda: gate) as driver:
        await driver.until(lambda: is_asking(driver))
        assert driver.opened == []
        await driver.pilot.press(*keys)
        await driver.until(lambda: driver.app.controller.conversation)
        assert gate.project.state == state

        await driver.send("/new")
        await driver.until(lambda: len(driver.opened) == 2)
        assert not is_asking(driver)


async def test_line_sent_at_trust_question_stays_in_the_input(
    project: ScriptedProject, gate: TrustGate
) -> None:
    async with running_app(project, opens=False, project=lambda: gate) as driver:
        await driver.until(lambda: is_asking(driver))
        await driver.pilot.press(*"ok", "enter")
        await driver.until(lambda: driver.app.composer.text == "ok")
        await driver.pilot.press("escape", "escape")
        await driver.until(lambda: driver.app.controller.conversation)
        await driver.idle()
        assert (driver.app.composer.text, driver.sent) == ("ok", [])


async def test_theme_of_project_is_used_once_trusted(
    project: ScriptedProject, gate: TrustGate
) -> None:
    settings = project.folder / ".dirge" / "config.toml"
    settings.write_text('[ui]\ntheme = "light"\n', encoding="utf-8")
    async with running_app(project, opens=False, project=lambda: gate, theme="dark") as driver:
        await driver.until(lambda: is_asking(driver))
        assert driver.app.theme_switcher.theme.name == "dark"
        await driver.pilot.press("y", "enter")
        await driver.until(lambda: driver.app.controller.conversation)
        assert driver.app.theme_switcher.theme.name == "light"


async def test_project_settings_that_are_not_allowed_end_start(
    project: ScriptedProject, gate: TrustGate
) -> None:
    settings = project.folder / ".dirge" / "config.toml"
    settings.write_text('provider = "x"\n', encoding="utf-8")
    async with running_app(project, opens=False, project=lambda: gate) as driver:
        await driver.until(lambda: is_asking(driver))
        await driver.pilot.press("y", "enter")
        await driver.until(lambda: driver.app.failure)
        assert "a project may not set `provider`" in str(driver.app.failure)
        assert (driver.opened, gate.project.state) == ([], "restricted")
        assert not (project.state_dir / "trust.json").exists()
