"""Slash commands in the UI."""

import asyncio
from pathlib import Path

import pytest
from textual.events import Paste
from textual.widgets import Input

from dirge_py.conversation.conversation import Conversation
from dirge_py.permission.decision import explain
from dirge_py.permission.project_trust import TrustGate
from dirge_py.providers.setup import ProviderSetup
from dirge_py.sdk.options import SessionChoice
from dirge_py.types.errors import ConfigError, NoProvider, SessionError
from dirge_py.types.questions import Asker
from dirge_py.ui.options import UiOptions, UiSettings
from tests.support.app_driver import WAITING_COMMAND, AppDriver, running_app
from tests.support.fake_service import FakeService, ModelReply, RawReply
from tests.support.project import ScriptedProject


async def test_e01_help_lists_every_command_alias_and_effective_key(project: ScriptedProject):
    settings = UiSettings(
        keys={"toggle_all": ["ctrl-t"], "page-up": ["none"]}, aliases={"/m": "/model small"}
    )
    async with running_app(project, prepare=lambda: settings) as driver:
        await driver.send("/help")
        await driver.until(lambda: "/help" in driver.text and "Keys" in driver.text)
        for command in driver.app.front.commands:
            assert f"/{command.name}" in driver.text
        assert "/m  /model small" in driver.text
        assert "! COMMAND" in driver.text
        assert "Ctrl+T" in driver.text
        assert "Ctrl+O" not in driver.text
        assert "PageUp" not in driver.text
        assert "PageDown" in driver.text


async def test_help_begins_with_everyday_commands_and_explains_a_word(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.send("/help")
        await driver.until(lambda: "Keys" in driver.text)
        everyday, others = driver.text.index("/clear"), driver.text.index("/hooks")
        assert driver.text.index("Every day") < everyday < others
        assert "/reset)" in driver.text
        await driver.send("/help nothingatall")
        await driver.until(lambda: "No command matches 'nothingatall'" in driver.text)
        await driver.send("/help compress")
        await driver.until(lambda: driver.text.count("/compact [FOCUS") == 2)


async def test_output_longer_than_screen_is_shown_from_its_start(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.send("/help")
        await driver.until(
            lambda: "Every day" in driver.screen and "PageDown scrolls down." in driver.screen
        )
        await driver.send("hello")
        await driver.idle()
        assert "› hello" in driver.screen


async def test_command_after_a_failed_one_is_not_glued_to_it(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.send("/modell gpt-4.1")
        await driver.until(lambda: "Did you mean /model?" in driver.text)
        assert driver.app.composer.text == ""
        await driver.pilot.press("up")
        assert driver.app.composer.text == "/modell gpt-4.1"
        await driver.pilot.press("down")
        await driver.send("/redo")
        await driver.until(lambda: "Nothing to redo" in driver.text)
        await driver.send("/todos")
        await driver.until(lambda: "The todo list is empty." in driver.text)
        assert driver.sent == []


async def test_failing_command_shows_error_and_app_keeps_running(
    project: ScriptedProject, monkeypatch
):
    def broken() -> None:
        raise RuntimeError("no such luck")

    async with running_app(project) as driver:
        monkeypatch.setattr(driver.conversation, "context_report", broken)
        await driver.send("/context")
        await driver.until(lambda: "RuntimeError: no such luck" in driver.text)
        assert driver.app.composer.text == ""
        assert driver.app.is_running


async def test_path_is_sent_as_prompt_and_double_slash_escapes_command(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.send("/usr/bin/env is missing")
        await driver.idle()
        await driver.send("//model is a command")
        await driver.until(lambda: len(driver.sent) == 2)
        assert driver.sent == ["/usr/bin/env is missing", "/model is a command"]


async def test_e05_model_without_argument_opens_picker(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.send("/model")
        await driver.until(lambda: driver.app.picker.has_focus)
        assert "▸ fake/gpt-4o" in driver.screen
        await driver.pilot.press("down", "enter")
        await driver.until(lambda: driver.conversation.settings.model == "fake/gpt-4.1")
        assert driver.app.composer.has_focus


async def test_alias_runs_its_command(project: ScriptedProject):
    async with running_app(
        project, prepare=lambda: UiSettings(aliases={"/m": "/model gpt-4.1"})
    ) as driver:
        await driver.send("/m")
        await driver.until(lambda: driver.conversation.settings.model == "fake/gpt-4.1")


async def test_problems_in_settings_are_shown_at_start(project: ScriptedProject):
    settings = UiSettings(keys={"fly": ["f1"]}, aliases={"/quit": "/clear", "/x": "/nothing"})
    async with running_app(project, prepare=lambda: settings, theme="neon") as driver:
        await driver.until(lambda: "[ui]" in driver.text)
        assert "! [keys]: unknown action 'fly'." in driver.text
        assert "! [aliases]: /quit is now /clear, no longer the built-in command." in driver.text
        assert "! [aliases]: /x: There is no command /nothing." in driver.text
        assert "! [ui]: there is no theme 'neon', so dirge uses `dark`" in driver.text


async def test_e05_unknown_model_changes_nothing(project: ScriptedProject):
    project.configure('[providers.bare]\ntype = "openai"\nbase_url = "http://127.0.0.1:9/v1"\n')
    async with running_app(project) as driver:
        await driver.send("/model bare")
        await driver.until(lambda: "✗" in driver.text)
        assert driver.conversation.settings.model == "fake/gpt-4o"


async def test_mode_command_shows_description_of_mode(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.send("/mode accept")
        await driver.until(lambda: driver.conversation.settings.mode == "accept")
        assert "like standard, and also writes memory without asking" in driver.text
        await driver.send("/mode yolo")
        await driver.until(lambda: "asks only before changing dirge's own settings" in driver.text)


async def test_why_shows_decision_of_permission_engine(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.send("/why read /etc/hosts")
        await driver.until(lambda: "ask: " in driver.text)
        text = explain(driver.conversation.settings.why("read", "/etc/hosts"), "read", "/etc/hosts")
        for line in text.splitlines():
            assert line.strip() in driver.text
        assert not project.model.seen


async def test_e09_grants_can_be_listed_added_removed_and_cleared(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.send("/allow add execute:make *")
        await driver.until(lambda: driver.conversation.settings.grants)
        await driver.send("/allow remove 9")
        await driver.until(lambda: "This session has no rule 9" in driver.text)
        assert [str(grant) for grant in driver.conversation.settings.grants] == ["execute:make *"]
        driver.app.composer.put("")
        await driver.send("/allow clear")
        await driver.until(lambda: not driver.conversation.settings.grants)


async def test_e03_tab_cycles_through_commands_with_prefix(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.type("/mo")
        await driver.until(lambda: driver.app.composer.has_proposals)
        await driver.pilot.press("tab")
        await driver.until(lambda: driver.app.composer.text == "/mode ")
        await driver.pilot.press("tab")
        await driver.until(lambda: driver.app.composer.text == "/model ")


async def test_completion_offers_arguments_of_commands(project: ScriptedProject):
    async with running_app(project) as driver:
        for line, offered in (
            ("/effort x", "xhigh"),
            ("/export h", "html"),
            ("/mode pl", "plan"),
            ("/model fake/gpt-4.", "fake/gpt-4.1"),
            ("/sessions cu", "current"),
            ("/compact --", "--undo"),
        ):
            driver.app.composer.put(line)
            await driver.until(
                lambda offered=offered: (
                    offered in [each.label for each in driver.app.proposals.choices]
                )
            )


async def test_e07_why_names_path_outside_project(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.send("/why write /etc/hosts")
        await driver.until(lambda: "ask: " in driver.text)
        assert "/etc/hosts" in driver.text
        assert "outside" in driver.text


async def test_e15_retry_puts_last_prompt_back_into_input(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.send("first")
        await driver.idle()
        await driver.send("second")
        await driver.idle()
        await driver.send("/retry")
        await driver.until(lambda: driver.app.composer.text == "second")
        assert driver.sent == ["first"]


async def test_e17_model_picker_opens_during_run_but_cd_has_to_wait(
    project: ScriptedProject,
):
    project.model.will_call("bash", command=WAITING_COMMAND)
    async with running_app(project, mode="yolo") as driver:
        await driver.send("go")
        await driver.until(lambda: driver.app.controller.is_running)
        await driver.send("/model")
        await driver.until(lambda: driver.app.picker.has_focus)
        await driver.pilot.press("escape")
        await driver.send("/cd ..")
        await driver.until(lambda: "/cd has to wait" in driver.text)
        assert Path.cwd() == project.folder
        driver.release_command()
        await driver.idle()


async def test_e27_repeated_spaces_between_arguments_are_ignored(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.send("/model    gpt-4.1  ")
        await driver.until(lambda: driver.conversation.settings.model == "fake/gpt-4.1")


async def test_cd_to_another_folder_opens_new_session_without_grants(
    project: ScriptedProject,
):
    other = project.folder.parent / "other"
    (other / ".dirge").mkdir(parents=True)
    (other / ".dirge" / "config.toml").write_text('[ui]\ntheme = "light"\n')
    gates: dict[Path, TrustGate] = {}

    def folder() -> TrustGate:
        environment = {"DIRGE_STATE_DIR": str(project.state_dir), "HOME": "/nowhere"}
        return gates.setdefault(Path.cwd(), TrustGate(Path.cwd(), environment))

    async with running_app(project, project=folder) as driver:
        first = driver.conversation
        await driver.send("/allow add execute:make *")
        await driver.until(lambda: driver.conversation.settings.grants)
        await driver.send("/cd ../other")
        await driver.until(
            lambda: driver.panel is not None and ".dirge/config.toml" in driver.screen
        )
        await driver.pilot.press("n", "enter")
        await driver.until(lambda: "This is a new session" in driver.text)

        assert Path.cwd() == other
        assert driver.conversation is not first
        assert driver.conversation.cwd == other
        assert not driver.conversation.settings.grants
        assert f"dirge -C {project.folder}" not in driver.text or first.session_id in driver.text


async def test_cd_that_fails_keeps_folder_and_conversation(project: ScriptedProject):
    def broken(asker: Asker, session_id: str | None, way: str = "write") -> Conversation:
        raise SessionError("no room")

    (project.folder / "sub").mkdir()
    async with running_app(project, open_other=broken) as driver:
        await driver.send("/cd sub")
        await driver.until(lambda: "no room" in driver.text)
        assert Path.cwd() == project.folder
        assert driver.app.controller.conversation is driver.conversation
        assert driver.app.composer.text == ""


async def test_esc_cancels_pending_side_question(project: ScriptedProject):
    async def wait_for_ever() -> None:
        await asyncio.Event().wait()

    project.model.will_say("Too late.", hold=wait_for_ever)
    async with running_app(project) as driver:
        await driver.send("/btw why?")
        await driver.until(
            lambda: driver.conversation.side_questions == 1 and len(project.model.seen) == 1
        )
        await driver.pilot.press("escape")
        await driver.until(lambda: "Interrupted." in driver.text)
        assert driver.conversation.side_questions == 0
        assert driver.app.controller.state == "ready"


async def test_search_command_finds_text_in_transcript(project: ScriptedProject):
    project.model.will_say("The needle is here.")
    async with running_app(project) as driver:
        await driver.send("look")
        await driver.idle()
        await driver.send("/search needle")
        await driver.until(lambda: driver.app.find_bar.is_open and "1" in driver.screen)
        await driver.until(lambda: driver.app.transcript.search.query == "needle")


async def test_reasoning_command_toggles_display_of_thinking(project: ScriptedProject):
    for number in range(3):
        project.model.will_say(f"Answer {number}.", thinking=f"Hm, number {number}.")
    async with running_app(project) as driver:
        for number, command in enumerate(("/help", "/reasoning", "/reasoning off")):
            await driver.send(command)
            await driver.until(lambda: not driver.app.composer.text)
            await driver.send(f"ask {number}")
            await driver.until(lambda number=number: f"Answer {number}." in driver.text)
            await driver.idle()

        assert "Hm, number 1." in driver.text
        assert "Hm, number 0." not in driver.text
        assert "Hm, number 2." not in driver.text


async def test_side_question_is_answered_during_a_run(project: ScriptedProject):
    project.model.will_call("bash", command=WAITING_COMMAND)
    project.model.will_say("It builds.")
    async with running_app(project, mode="yolo") as driver:
        await driver.send("go")
        await driver.until(lambda: driver.app.controller.is_running and "cc a.c" in driver.text)
        await driver.send("/btw what is it doing?")
        await driver.until(lambda: "It builds." in driver.text)
        assert driver.app.controller.is_running
        assert driver.sent == ["go"]
        driver.release_command()
        await driver.idle()


async def test_clear_opens_new_session_and_names_old_one(project: ScriptedProject):
    async with running_app(project) as driver:
        first = driver.conversation
        await driver.send("hello")
        await driver.idle()
        first.settings.set_mode("plan")
        await driver.send("/clear")
        await driver.until(lambda: len(driver.opened) == 2 and "New session." in driver.text)
        assert driver.conversation.settings.mode == "plan"
        assert f"dirge -r {first.session_id}" in driver.text
        assert "› hello" not in driver.text
        await driver.send("and now")
        await driver.idle()
        assert driver.sent == ["and now"]


async def test_clear_has_to_wait_during_a_run(project: ScriptedProject):
    project.model.will_call("bash", command=WAITING_COMMAND)
    async with running_app(project, mode="yolo") as driver:
        await driver.send("go")
        await driver.until(lambda: driver.app.controller.is_running)
        await driver.send("/clear")
        await driver.until(lambda: "has to wait" in driver.text)
        assert driver.app.composer.text == ""
        assert len(driver.opened) == 1


async def test_sessions_command_resumes_selected_session(project: ScriptedProject):
    project.model.will_say("It is a parser.")
    async with running_app(project) as driver:
        await driver.send("what is this?")
        await driver.idle()
        first = driver.conversation.session_id
        await driver.send("/clear")
        await driver.until(lambda: len(driver.opened) == 2)
        await driver.send("/sessions")
        await driver.until(lambda: driver.app.picker.has_focus)
        assert "what is this?" in driver.screen
        await driver.pilot.press("w", "h", "a", "t", "enter")
        await driver.until(lambda: len(driver.opened) == 3 and "It is a parser." in driver.text)
        assert driver.conversation.session_id == first


async def test_quit_ends_the_program(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.send("/exit")
        await driver.until(lambda: not driver.app.is_running)


async def test_theme_command_switches_theme(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.send("/theme light")
        await driver.until(lambda: driver.app.theme_switcher.theme.name == "light")


# -- without a provider


LISTED = RawReply(body='{"data": [{"id": "small"}, {"id": "usual"}]}')
UNLISTED = RawReply(status=404)


async def fill_in(driver: AppDriver, url: str, *, is_listed: bool) -> None:
    """Enter this address and a key, and choose or type the model `usual`."""
    await driver.until(lambda: "Base URL" in driver.screen)
    driver.app.line_question.query_one(Input).value = url
    await driver.pilot.press("enter")
    await driver.until(lambda: driver.app.picker.has_focus and "Where is the key?" in driver.screen)
    assert "not set" in driver.screen
    await driver.pilot.press("enter")
    await driver.until(lambda: "API key (hidden)" in driver.screen)
    await driver.type("sk-1")
    assert "sk-1" not in driver.screen
    await driver.pilot.press("enter")
    if is_listed:
        await driver.until(
            lambda: driver.app.picker.has_focus and "Choose a model" in driver.screen
        )
        await driver.type("usu")
    else:
        await driver.until(lambda: "Model id" in driver.screen)
        driver.app.line_question.query_one(Input).value = "usual"
    await driver.pilot.press("enter")


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No local server and no key exist."""
    monkeypatch.setenv("DIRGE_LOCAL_SERVERS", "")


@pytest.mark.usefixtures("alone")
async def test_setup_without_provider_stores_one_and_opens_conversation(
    project: ScriptedProject, home: Path
):
    refused = RawReply(status=401, body='{"error":{"message":"no such key"}}')
    with FakeService([UNLISTED, refused, LISTED, ModelReply(text="ok")]) as service:
        url = service.openai_url
        setup = ProviderSetup(home / "config.toml")
        refusals = [NoProvider("no provider is configured.")]
        async with running_app(
            project, opens=False, setup=lambda: setup, refusals=refusals
        ) as driver:
            await driver.until(
                lambda: driver.app.picker.has_focus and "Choose a provider" in driver.screen
            )
            await driver.type("company")
            await driver.pilot.press("enter")
            await fill_in(driver, url, is_listed=False)
            await driver.until(lambda: "test request failed" in driver.screen)
            assert "has no list of models" in driver.text and "401" in driver.text
            await driver.pilot.press("enter")
            await driver.until(lambda: url in driver.app.line_question.query_one(Input).value)
            await fill_in(driver, url, is_listed=True)
            await driver.until(lambda: "Name for this provider, as in NAME/usual" in driver.screen)
            await driver.pilot.press("enter")
            await driver.until(lambda: driver.app.controller.conversation)
            await driver.until(
                lambda: f"Stored in {home / 'config.toml'}" in " ".join(driver.text.split())
            )
        assert [seen.headers["authorization"] for seen in service.requests] == ["Bearer sk-1"] * 4
        assert [seen.json["model"] for seen in service.requests if seen.body] == ["usual"] * 2
    written = (home / "config.toml").read_text()
    assert url in written
    assert "sk-1" not in written
    [key] = [path for path in home.rglob("*") if path.is_file() and path.read_bytes() == b"sk-1\n"]
    assert key.stat().st_mode & 0o777 == 0o600


async def test_setup_lists_detected_providers_first(
    project: ScriptedProject, home: Path, monkeypatch: pytest.MonkeyPatch
):
    tags = RawReply(
        body='{"models": [{"name": "qwen3", "size": 1}, {"name": "gemma3", "size": 1}]}'
    )
    with FakeService([tags, tags, ModelReply(text="ok")]) as service:
        monkeypatch.setenv("DIRGE_LOCAL_SERVERS", service.url("ollama"))
        monkeypatch.setenv("MISTRAL_API_KEY", "k")
        setup = ProviderSetup(home / "config.toml")
        refusals = [NoProvider("none.")]
        async with running_app(
            project, opens=False, setup=lambda: setup, refusals=refusals, demo=lambda: None
        ) as driver:
            await driver.until(lambda: driver.app.picker.has_focus)
            listed = [f"{choice.label} {choice.detail}" for choice in driver.app.picker.choices]
            assert listed[0] == f"Ollama answers at {service.url('ollama')}, 2 models"
            assert listed[1] == "Mistral MISTRAL_API_KEY is set"
            assert listed[2].startswith("Try it without a model")
            assert listed[3].startswith("Anthropic")
            assert listed[-1].startswith("Your own or your company's server")
            assert len([line for line in listed if line.startswith("Ollama")]) == 1
            await driver.pilot.press("enter")
            await driver.until(
                lambda: "Choose a model" in driver.screen and "gemma3" in driver.screen
            )
            await driver.pilot.press("down", "enter")
            await driver.until(lambda: driver.app.controller.conversation)
        assert service.requests[-1].json["model"] == "gemma3"
    assert 'model = "gemma3"' in (home / "config.toml").read_text()


@pytest.mark.usefixtures("alone")
async def test_demo_can_be_chosen_during_setup(project: ScriptedProject, home: Path):
    def played(asker: Asker) -> Conversation:
        return project.build(asker, SessionChoice())

    closed: list[bool] = []
    demo = UiOptions(
        open_first=played,
        open_other=lambda *_: played(_[0]),
        is_stored=False,
        close=lambda: closed.append(True),
    )
    setup, refusals = ProviderSetup(home / "config.toml"), [NoProvider("none.")]
    async with running_app(
        project, opens=False, setup=lambda: setup, refusals=refusals, demo=lambda: demo
    ) as driver:
        await driver.until(lambda: driver.app.picker.has_focus)
        await driver.type("without a model")
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.app.controller.conversation)
        assert driver.opened == [] and not driver.app.session_opener.start.is_stored
        driver.app.session_opener.start.close()
    assert closed == [True]
    assert not (home / "config.toml").exists()


@pytest.mark.usefixtures("alone")
async def test_cancelled_setup_opens_again_on_enter(project: ScriptedProject):
    refusals = [NoProvider("no provider is configured."), NoProvider("none.")]
    async with running_app(project, opens=False, setup=ProviderSetup, refusals=refusals) as driver:
        await driver.until(lambda: driver.app.picker.has_focus)
        await driver.pilot.press("escape")
        await driver.until(
            lambda: "Nothing was changed." in driver.text and driver.app.composer.has_focus
        )
        await driver.until(lambda: driver.screen.endswith("no provider"))
        await driver.type("hello")
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.app.picker.has_focus)
        await driver.pilot.press("escape")
        await driver.until(lambda: driver.app.composer.text == "hello")


@pytest.mark.usefixtures("alone")
async def test_key_pasted_into_the_input_before_setup_is_neither_sent_nor_kept(
    project: ScriptedProject,
):
    key = "sk-ant-api03-abcDEF1234567890"
    refusals = [NoProvider("no provider is configured."), NoProvider("none.")]
    async with running_app(project, opens=False, setup=ProviderSetup, refusals=refusals) as driver:
        await driver.until(lambda: driver.app.picker.has_focus)
        await driver.pilot.press("escape")
        await driver.until(lambda: driver.app.composer.has_focus)
        await driver.paste(key)
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.app.picker.has_focus)
        assert "That looked like an API key. It was not sent." in driver.text
        await driver.pilot.press("escape")
        await driver.until(lambda: driver.app.composer.has_focus)
        await driver.pilot.press("up")
        assert key not in driver.screen + driver.text


@pytest.mark.usefixtures("alone")
async def test_key_pasted_with_line_breaks_into_its_question_is_taken(project: ScriptedProject):
    refusals = [NoProvider("none.")]
    async with running_app(project, opens=False, setup=ProviderSetup, refusals=refusals) as driver:
        await driver.until(lambda: driver.app.picker.has_focus)
        await driver.pilot.press("enter")
        await driver.until(lambda: "API key" in driver.screen)
        field = driver.app.line_question.query_one(Input)
        field.post_message(Paste("\n sk-proj-abcDEF1234567890\n"))
        await driver.until(lambda: field.value == "sk-proj-abcDEF1234567890")
        await driver.pilot.press("enter")
        await driver.until(lambda: "This is a key of OpenAI, not of Anthropic." in driver.text)
        assert "sk-proj" not in driver.screen


async def test_missing_provider_without_setup_ends_program_with_error(
    project: ScriptedProject,
):
    async with running_app(
        project, opens=False, refusals=[NoProvider("no provider is configured.")]
    ) as driver:
        await driver.until(lambda: not driver.app.is_running)
        assert str(driver.app.failure) == "no provider is configured."


async def test_unknown_session_is_reported_and_no_session_is_created(
    project: ScriptedProject,
):
    async with running_app(project, opens=False, resumes="nowhere") as driver:
        await driver.until(lambda: not driver.app.is_running)
        assert "This project has no session 'nowhere'." in str(driver.app.failure)
        assert driver.opened == []
    assert not list(project.state_dir.glob("sessions/*/*.jsonl"))


async def test_configuration_error_ends_program_with_message(project: ScriptedProject):
    async with running_app(
        project, opens=False, refusals=[ConfigError("line 3: no setting `x`.")]
    ) as driver:
        await driver.until(lambda: not driver.app.is_running)
        assert str(driver.app.failure) == "line 3: no setting `x`."
