"""Plugins for an earlier version load and work as before."""

import json
import shutil
from collections.abc import Callable
from typing import Any

import pytest

from tests.compatibility.model_service import says
from tests.compatibility.old_homes import DATA, OldHome

Homes = Callable[[str], OldHome]
POINTS = (
    "transform_context", "convert_to_llm", "before_tool_call", "after_tool_call",
    "prepare_next_turn", "should_stop_after_turn", "get_steering_messages",
    "get_followup_messages", "get_api_key", "before_prompt", "before_prompt_build",
    "around_all", "around_measure", "around_it",
)  # fmt: skip
EVENTS = (
    "agent_start", "agent_end Done", "turn_start", "turn_end", "message_start", "message_end",
    "tool_execution_start", "tool_execution_update", "tool_execution_end", "usage",
)  # fmt: skip


@pytest.fixture
def plugged(home: Homes) -> Callable[..., OldHome]:
    """A home with these plugins in its settings folder."""

    def with_plugins(*names: str, settings: str = "") -> OldHome:
        plain = home("plain")
        (plain.config / "plugins").mkdir()
        for name in names:
            kept = DATA / "plugins" / f"{name}.py.txt"
            shutil.copy(kept, plain.config / "plugins" / f"{name}.py")
        with (plain.config / "config.toml").open("a") as file:
            file.write(settings)
        return plain

    return with_plugins


def results(home: OldHome) -> list[str]:
    return [message["content"] for message in home.sent if message["role"] == "tool"]


def test_protected_paths_keeps_files_from_being_changed(plugged: Callable[..., OldHome]) -> None:
    home = plugged("protected_paths", settings='[plugins.protected_paths]\npaths = ["*.lock"]\n')
    call = ("write", {"path": "a.lock", "content": "x\n"})
    home.service.will(says("I lock.", call), says("I leave it."))
    home.ask("--yolo", "Lock it.")
    assert "is protected (*.lock)" in results(home)[0]
    assert not (home.project / "a.lock").exists()


def test_confirm_destructive_blocks_a_command(plugged: Callable[..., OldHome]) -> None:
    home = plugged("confirm_destructive")
    (home.project / "build").mkdir()
    call = ("bash", {"command": "rm -rf build"})
    home.service.will(says("I clean.", call), says("I wait."), says("Again.", call), says("Gone."))
    result = home.run("--line", "--yolo", stdin="Clean.\n/confirm\nGo on.\n")
    assert "held back: rm -rf build" in result
    assert "It may run once: rm -rf build" in result
    assert "a person has to confirm it first" in results(home)[0]
    assert not (home.project / "build").exists()


def test_tools_of_old_plugins_are_offered_and_run(plugged: Callable[..., OldHome]) -> None:
    home = plugged("custom_tool", "count_words")
    (home.project / "a.py").write_text("class A:\n    def f(self): ...\n")
    (home.project / "a.txt").write_text("one two two\n")
    home.service.will(
        says("I look.", ("outline", {"path": "a.py"}), ("count_words", {"folder": "."})),
        says("Seen."),
    )
    home.ask("What is here?")
    outline, counted = results(home)
    assert outline == "    1 class A\n    2   def f(self)"
    assert json.loads(counted) == {"two": 2, "one": 1}


def test_old_plugins_get_run_and_turn_events(plugged: Callable[..., OldHome]) -> None:
    home = plugged("turn_timing", "notify")
    home.service.will(says("I look.", ("list_dir", {"path": "."})), says("Seen."))
    result = home.try_to_run("-p", "What is here?")
    assert result.stdout == "Seen.\n"
    assert "turn 1 took" in result.stderr
    assert "list_dir" in result.stderr


def everything(plugged: Callable[..., OldHome]) -> OldHome:
    home = plugged("everything")
    with (home.config / "config.toml").open("a") as file:
        file.write(f'[plugins.everything]\nlog = "{home.base / "log"}"\n')
    return home


def test_old_plugins_get_every_hook_and_every_event(plugged: Callable[..., OldHome]) -> None:
    home = everything(plugged)
    (home.project / "a.txt").write_text("four")
    home.service.will(
        says("I measure.", ("measure", {"path": "a.txt"}), ("wish", {"text": "peace"})),
        says("Measured."),
        says("One more word."),
    )
    result = home.ask("--allow", "plugin:wish", "Measure.")
    assert result["result"] == "One more word."
    log = home.kept("log")
    noted = {line.split()[0] for line in log.splitlines()}
    assert [point for point in POINTS if point not in noted] == []
    assert [event for event in EVENTS if f"event {event}" not in log] == []
    assert "registered everything" in log


def test_answers_of_old_hooks_take_effect(plugged: Callable[..., OldHome]) -> None:
    home = everything(plugged)
    (home.project / "a.txt").write_text("four")
    home.service.will(
        says(
            "I measure.",
            ("measure", {"path": "a.txt"}),
            ("measure", {"path": "none"}),
            ("measure", {"path": "retry"}),
            ("bash", {"command": "echo refuse me"}),
            ("bash", {"command": "echo edit me"}),
        ),
        says("Measured."),
        says("One more word."),
    )
    home.ask("Measure.")
    measured, failed, retried, refused, edited = results(home)
    assert measured == "a.txt has 4 characters (seen by a plugin)"
    assert "none is no file." in failed
    assert "Name a file." in retried
    assert "The plugin refuses this." in refused
    assert edited.strip() == "edited"
    prompt: Any = home.sent[0]["content"]
    assert prompt.index("The plugin goes first.") < prompt.index("The plugin goes last.")
    assert "The plugin wants one more word." in str(home.sent_texts)
    assert home.sent_texts[-1] == "The plugin was here."


def test_old_plugin_can_refuse_and_stop_prompts(plugged: Callable[..., OldHome]) -> None:
    home = everything(plugged)
    for prompt in ("refuse this prompt", "stop this prompt"):
        assert home.try_to_run("-p", prompt).exit_code == 1
    assert home.service.requests == []


def test_call_deferred_by_an_old_plugin_waits(plugged: Callable[..., OldHome]) -> None:
    home = everything(plugged)
    home.service.will(says("I wait.", ("bash", {"command": "echo defer me"})))
    result = home.ask("Wait.", code=11)
    assert "The plugin wants a person to look." in json.dumps(result)


def test_commands_of_old_plugins_run(plugged: Callable[..., OldHome]) -> None:
    home = everything(plugged)
    result = home.try_to_run("-p", "/everything at once")
    assert result.stdout == "everything: at once\n"
