"""Settings, trust and recordings of an earlier version keep their meaning."""

from collections.abc import Callable

from tests.compatibility.model_service import says
from tests.compatibility.old_homes import OldHome

Homes = Callable[[str], OldHome]


def test_old_settings_file_has_the_same_values(home: Homes) -> None:
    settings = home("settings")
    (settings.config / "keys" / "other").chmod(0o600)
    now = settings.run("config", "show").splitlines()
    assert [line for line in settings.kept("shown.txt").splitlines() if line not in now] == []


def test_former_names_of_plan_settings_work(home: Homes) -> None:
    plain = home("plain")
    file = plain.config / "config.toml"
    older = "phased_workflow_enabled = false\nphased_workflow_max_review_cycles = 7\n"
    file.write_text(older + file.read_text())
    shown = plain.run("config", "show")
    assert "plan.enabled = false" in shown
    assert "plan.max_review_cycles = 7" in shown


def test_a_trusted_project_is_still_trusted(home: Homes) -> None:
    trusted = home("trusted")
    assert trusted.run("-p", "/greet you") == "aye you\n"
    trusted.service.will(says("Hello."))
    trusted.ask("--prompt", "local", "Hello.")
    assert "Words of the project." in trusted.sent[0]["content"]


def test_a_trusted_project_that_was_changed_is_not(home: Homes) -> None:
    trusted = home("trusted")
    plugin = trusted.project / ".dirge" / "plugins" / "greeting.py"
    plugin.write_text(plugin.read_text() + "\n")
    assert trusted.try_to_run("-p", "/greet you").stdout != "aye you\n"


def test_old_recording_can_be_replayed(home: Homes) -> None:
    recorded = home("recording")
    (recorded.config / "config.toml").write_text(
        '[providers.fake]\ntype = "replay"\nmodel = "gpt-4o"\n'
        f'script = "{recorded.base / "run.jsonl"}"\n'
    )
    result = recorded.ask("--no-session", "What is there?")
    assert (result["result"], result["num_turns"]) == ("It says here.", 2)
    assert recorded.service.requests == []
