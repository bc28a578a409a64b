"""Slash commands typed into the UI."""

import asyncio
from pathlib import Path

import pytest
from textual.widgets import Input

from dirge_py.conversation.conversation import Conversation
from dirge_py.permission.decision import explain
from dirge_py.permission.project_trust import TrustGate
from dirge_py.providers.setup import ProviderSetup
from dirge_py.sdk.options import SessionChoice
from dirge_py.types.errors import ConfigError, NoProvider, SessionError
from dirge_py.types.questions import Asker
from dirge_py.ui.options import UiOptions, UiSettings
from tests.conversation.room import Room
from tests.providers.server import FakeService, Raw, Say
from tests.ui.running_app import HELD, RunningApp, running_app


async def test_e01_help_lists_every_command_own_name_and_key_in_force(room: Room):
    settings = UiSettings(
        keys={"toggle_all": ["ctrl-t"], "page-up": ["none"]}, aliases={"/m": "/model small"}
    )
    async with running_app(room, prepare=lambda: settings) as d:
        await d.send("/help")
        await d.until(lambda: "/help" in d.text and "Keys" in d.text)
        for command in d.app.front.commands:
            assert f"/{command.name}" in d.text
        assert "/m  /model small" in d.text
        assert "! COMMAND" in d.text
        assert "Ctrl+T" in d.text
        assert "Ctrl+O" not in d.text
        assert "PageUp" not in d.text
        assert "PageDown" in d.text


async def test_what_is_longer_than_the_screen_is_read_from_its_beginning(room: Room):
    async with running_app(room) as d:
        await d.send("/help")
        await d.until(lambda: "Commands" in d.screen and "PageDown scrolls on." in d.screen)
        await d.send("hello")
        await d.idle()
        assert "› hello" in d.screen


async def test_an_unknown_command_stays_in_the_input_with_a_suggestion(room: Room):
    async with running_app(room) as d:
        await d.send("/modell gpt-4.1")
        await d.until(lambda: "Did you mean /model?" in d.text)
        assert d.app.composer.text == "/modell gpt-4.1"


async def test_a_command_that_breaks_is_told_and_ends_nothing(room: Room, monkeypatch):
    def broken() -> None:
        raise RuntimeError("no such luck")

    async with running_app(room) as d:
        monkeypatch.setattr(d.conversation, "context_report", broken)
        await d.send("/context")
        await d.until(lambda: "RuntimeError: no such luck" in d.text)
        assert d.app.composer.text == "/context"
        assert d.app.is_running


async def test_a_path_is_a_prompt_and_two_slashes_escape(room: Room):
    async with running_app(room) as d:
        await d.send("/usr/bin/env is missing")
        await d.idle()
        await d.send("//model is a command")
        await d.until(lambda: len(d.sent) == 2)
        assert d.sent == ["/usr/bin/env is missing", "/model is a command"]


async def test_e05_model_without_argument_lets_pick(room: Room):
    async with running_app(room) as d:
        await d.send("/model")
        await d.until(lambda: d.app.picker.has_focus)
        assert "▸ fake/gpt-4o" in d.screen
        await d.pilot.press("down", "enter")
        await d.until(lambda: d.conversation.settings.model == "fake/gpt-4.1")
        assert d.app.composer.has_focus


async def test_an_own_name_runs_what_it_stands_for(room: Room):
    async with running_app(room, prepare=lambda: UiSettings(aliases={"/m": "/model gpt-4.1"})) as d:
        await d.send("/m")
        await d.until(lambda: d.conversation.settings.model == "fake/gpt-4.1")


async def test_what_is_odd_about_the_settings_is_said_at_the_start(room: Room):
    settings = UiSettings(keys={"fly": ["f1"]}, aliases={"/quit": "/clear", "/x": "/nothing"})
    async with running_app(room, prepare=lambda: settings, theme="neon") as d:
        await d.until(lambda: "[ui]" in d.text)
        assert "! [keys]: there is no action 'fly'." in d.text
        assert "! [aliases]: /quit is now /clear, no longer the built-in command." in d.text
        assert "! [aliases]: /x: There is no command /nothing." in d.text
        assert "! [ui]: there is no theme 'neon', only dark, " in d.text


async def test_e05_a_model_that_is_not_there_changes_nothing(room: Room):
    room.configure('[providers.bare]\ntype = "openai"\nbase_url = "http://127.0.0.1:9/v1"\n')
    async with running_app(room) as d:
        await d.send("/model bare")
        await d.until(lambda: "✗" in d.text)
        assert d.conversation.settings.model == "fake/gpt-4o"


async def test_a_mode_is_told_in_the_words_of_the_list(room: Room):
    async with running_app(room) as d:
        await d.send("/mode accept")
        await d.until(lambda: d.conversation.settings.mode == "accept")
        assert "as standard, and also memory and similar without asking" in d.text
        await d.send("/mode yolo")
        await d.until(lambda: "asks only before changing dirge's own settings" in d.text)


async def test_why_asks_the_engine_itself(room: Room):
    async with running_app(room) as d:
        await d.send("/why read /etc/hosts")
        await d.until(lambda: "ask: " in d.text)
        told = explain(d.conversation.settings.why("read", "/etc/hosts"), "read", "/etc/hosts")
        for line in told.splitlines():
            assert line.strip() in d.text
        assert not room.model.seen


async def test_e09_grants_can_be_listed_added_removed_and_cleared(room: Room):
    async with running_app(room) as d:
        await d.send("/allow add execute:make *")
        await d.until(lambda: d.conversation.settings.grants)
        await d.send("/allow remove 9")
        await d.until(lambda: "There is no grant 9" in d.text)
        assert [str(grant) for grant in d.conversation.settings.grants] == ["execute:make *"]
        d.app.composer.put("")
        await d.send("/allow clear")
        await d.until(lambda: not d.conversation.settings.grants)


async def test_e03_tab_goes_through_the_commands_that_begin_so(room: Room):
    async with running_app(room) as d:
        await d.type("/mo")
        await d.until(lambda: d.app.composer.has_proposals)
        await d.pilot.press("tab")
        await d.until(lambda: d.app.composer.text == "/mode ")
        await d.pilot.press("tab")
        await d.until(lambda: d.app.composer.text == "/model ")


async def test_what_may_follow_a_command_is_offered(room: Room):
    async with running_app(room) as d:
        for line, offered in (
            ("/effort x", "xhigh"),
            ("/export h", "html"),
            ("/mode pl", "plan"),
            ("/model fake/gpt-4.", "fake/gpt-4.1"),
            ("/sessions cu", "current"),
            ("/compact --", "--undo"),
        ):
            d.app.composer.put(line)
            await d.until(
                lambda offered=offered: offered in [each.label for each in d.app.proposals.choices]
            )


async def test_e07_why_names_the_folder_outside(room: Room):
    async with running_app(room) as d:
        await d.send("/why write /etc/hosts")
        await d.until(lambda: "ask: " in d.text)
        assert "/etc/hosts" in d.text
        assert "outside" in d.text


async def test_e15_retry_takes_the_last_prompt_back(room: Room):
    async with running_app(room) as d:
        await d.send("first")
        await d.idle()
        await d.send("second")
        await d.idle()
        await d.send("/retry")
        await d.until(lambda: d.app.composer.text == "second")
        assert d.sent == ["first"]


async def test_e17_during_a_run_the_models_are_listed_and_the_folder_stays(room: Room):
    room.model.will_call("bash", command=HELD)
    async with running_app(room, mode="yolo") as d:
        await d.send("go")
        await d.until(lambda: d.app.controller.is_running)
        await d.send("/model")
        await d.until(lambda: d.app.picker.has_focus)
        await d.pilot.press("escape")
        await d.send("/cd ..")
        await d.until(lambda: "/cd has to wait" in d.text)
        assert Path.cwd() == room.project
        d.release_command()
        await d.idle()


async def test_e27_several_spaces_are_one(room: Room):
    async with running_app(room) as d:
        await d.send("/model    gpt-4.1  ")
        await d.until(lambda: d.conversation.settings.model == "fake/gpt-4.1")


async def test_in_another_folder_a_new_session_begins_without_what_was_allowed(room: Room):
    other = room.project.parent / "other"
    (other / ".dirge").mkdir(parents=True)
    (other / ".dirge" / "config.toml").write_text('[ui]\ntheme = "light"\n')
    doors: dict[Path, TrustGate] = {}

    def project() -> TrustGate:
        environment = {"DIRGE_STATE_DIR": str(room.state_dir), "HOME": "/nowhere"}
        return doors.setdefault(Path.cwd(), TrustGate(Path.cwd(), environment))

    async with running_app(room, project=project) as d:
        first = d.conversation
        await d.send("/allow add execute:make *")
        await d.until(lambda: d.conversation.settings.grants)
        await d.send("/cd ../other")
        await d.until(lambda: d.panel is not None and ".dirge/config.toml" in d.screen)
        await d.pilot.press("n", "enter")
        await d.until(lambda: "A new session in another folder" in d.text)

        assert Path.cwd() == other
        assert d.conversation is not first
        assert d.conversation.cwd == other
        assert not d.conversation.settings.grants
        assert f"dirge -C {room.project}" not in d.text or first.session_id in d.text


async def test_where_the_other_folder_cannot_be_opened_one_stays(room: Room):
    def broken(asker: Asker, session_id: str | None, way: str = "write") -> Conversation:
        raise SessionError("no room")

    (room.project / "sub").mkdir()
    async with running_app(room, open_other=broken) as d:
        await d.send("/cd sub")
        await d.until(lambda: "no room" in d.text)
        assert Path.cwd() == room.project
        assert d.app.controller.conversation is d.conversation
        assert d.app.composer.text == "/cd sub"


async def test_esc_ends_a_side_question_that_takes_too_long(room: Room):
    async def wait_for_ever() -> None:
        await asyncio.Event().wait()

    room.model.will_say("Too late.", hold=wait_for_ever)
    async with running_app(room) as d:
        await d.send("/btw why?")
        await d.until(lambda: d.conversation.side_questions == 1 and len(room.model.seen) == 1)
        await d.pilot.press("escape")
        await d.until(lambda: "Interrupted." in d.text)
        assert d.conversation.side_questions == 0
        assert d.app.controller.state == "ready"


async def test_search_looks_for_words_in_the_transcript(room: Room):
    room.model.will_say("The needle is here.")
    async with running_app(room) as d:
        await d.send("look")
        await d.idle()
        await d.send("/search needle")
        await d.until(lambda: d.app.find_bar.is_open and "1" in d.screen)
        await d.until(lambda: d.app.transcript.search.query == "needle")


async def test_reasoning_shows_thinking_from_now_on_and_hides_it_again(room: Room):
    for number in range(3):
        room.model.will_say(f"Answer {number}.", thinking=f"Hm, number {number}.")
    async with running_app(room) as d:
        for number, command in enumerate(("/help", "/reasoning", "/reasoning off")):
            await d.send(command)
            await d.until(lambda: not d.app.composer.text)
            await d.send(f"ask {number}")
            await d.until(lambda number=number: f"Answer {number}." in d.text)
            await d.idle()

        assert "Hm, number 1." in d.text
        assert "Hm, number 0." not in d.text
        assert "Hm, number 2." not in d.text


async def test_a_side_question_is_answered_while_a_run_goes_on(room: Room):
    room.model.will_call("bash", command=HELD)
    room.model.will_say("It builds.")
    async with running_app(room, mode="yolo") as d:
        await d.send("go")
        await d.until(lambda: d.app.controller.is_running and "cc a.c" in d.text)
        await d.send("/btw what is it doing?")
        await d.until(lambda: "It builds." in d.text)
        assert d.app.controller.is_running
        assert d.sent == ["go"]
        d.release_command()
        await d.idle()


async def test_clear_opens_a_new_session_and_names_the_old_one(room: Room):
    async with running_app(room) as d:
        first = d.conversation
        await d.send("hello")
        await d.idle()
        first.settings.set_mode("plan")
        await d.send("/clear")
        await d.until(lambda: len(d.opened) == 2 and "A new session." in d.text)
        assert d.conversation.settings.mode == "plan"
        assert f"dirge -r {first.session_id}" in d.text
        assert "› hello" not in d.text
        await d.send("and now")
        await d.idle()
        assert d.sent == ["and now"]


async def test_clear_has_to_wait_while_a_run_is_active(room: Room):
    room.model.will_call("bash", command=HELD)
    async with running_app(room, mode="yolo") as d:
        await d.send("go")
        await d.until(lambda: d.app.controller.is_running)
        await d.send("/clear")
        await d.until(lambda: "has to wait" in d.text)
        assert d.app.composer.text == "/clear"
        assert len(d.opened) == 1


async def test_sessions_lets_go_on_in_another_one(room: Room):
    room.model.will_say("It is a parser.")
    async with running_app(room) as d:
        await d.send("what is this?")
        await d.idle()
        first = d.conversation.session_id
        await d.send("/clear")
        await d.until(lambda: len(d.opened) == 2)
        await d.send("/sessions")
        await d.until(lambda: d.app.picker.has_focus)
        assert "what is this?" in d.screen
        await d.pilot.press("w", "h", "a", "t", "enter")
        await d.until(lambda: len(d.opened) == 3 and "It is a parser." in d.text)
        assert d.conversation.session_id == first


async def test_quit_ends_the_program(room: Room):
    async with running_app(room) as d:
        await d.send("/exit")
        await d.until(lambda: not d.app.is_running)


async def test_theme_switches_the_colours(room: Room):
    async with running_app(room) as d:
        await d.send("/theme light")
        await d.until(lambda: d.app.theme_switcher.theme.name == "light")


# -- without a provider


LISTED = Raw(body='{"data": [{"id": "small"}, {"id": "usual"}]}')
UNLISTED = Raw(status=404)


async def fill_in(d: RunningApp, url: str, *, is_listed: bool) -> None:
    """Give a server this address, type a key, and take or type the model `usual`."""
    await d.until(lambda: "Base URL" in d.screen)
    d.app.line_question.query_one(Input).value = url
    await d.pilot.press("enter")
    await d.until(lambda: d.app.picker.has_focus and "Where is the key?" in d.screen)
    assert "not set" in d.screen
    await d.pilot.press("enter")
    await d.until(lambda: "it is not shown" in d.screen)
    await d.type("sk-1")
    assert "sk-1" not in d.screen
    await d.pilot.press("enter")
    if is_listed:
        await d.until(lambda: d.app.picker.has_focus and "Choose a model" in d.screen)
        await d.type("usu")
    else:
        await d.until(lambda: "Model id" in d.screen)
        d.app.line_question.query_one(Input).value = "usual"
    await d.pilot.press("enter")


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No server of this machine is asked, and no key is set."""
    monkeypatch.setenv("DIRGE_LOCAL_SERVERS", "")


@pytest.mark.usefixtures("alone")
async def test_without_a_provider_one_is_set_up_and_the_conversation_opens(room: Room, home: Path):
    refused = Raw(status=401, body='{"error":{"message":"no such key"}}')
    with FakeService([UNLISTED, refused, LISTED, Say(text="ok")]) as service:
        url = service.openai_url
        setup = ProviderSetup(home / "config.toml")
        refusals = [NoProvider("no provider is configured.")]
        async with running_app(room, opens=False, setup=lambda: setup, refusals=refusals) as d:
            await d.until(lambda: d.app.picker.has_focus and "Choose a provider" in d.screen)
            await d.type("company")
            await d.pilot.press("enter")
            await fill_in(d, url, is_listed=False)
            await d.until(lambda: "did not work" in d.screen)
            assert "No list of models" in d.text and "401" in d.text
            await d.pilot.press("enter")
            await d.until(lambda: url in d.app.line_question.query_one(Input).value)
            await fill_in(d, url, is_listed=True)
            await d.until(lambda: "A name for it, as in NAME/usual" in d.screen)
            await d.pilot.press("enter")
            await d.until(lambda: d.app.controller.conversation)
            await d.until(lambda: f"Stored in {home / 'config.toml'}" in " ".join(d.text.split()))
        assert [seen.headers["authorization"] for seen in service.requests] == ["Bearer sk-1"] * 4
        assert [seen.json["model"] for seen in service.requests if seen.body] == ["usual"] * 2
    written = (home / "config.toml").read_text()
    assert url in written
    assert "sk-1" not in written
    [key] = [path for path in home.rglob("*") if path.is_file() and path.read_bytes() == b"sk-1\n"]
    assert key.stat().st_mode & 0o777 == 0o600


async def test_what_is_at_hand_is_offered_before_what_is_merely_known(
    room: Room, home: Path, monkeypatch: pytest.MonkeyPatch
):
    tags = Raw(body='{"models": [{"name": "qwen3", "size": 1}, {"name": "gemma3", "size": 1}]}')
    with FakeService([tags, tags, Say(text="ok")]) as service:
        monkeypatch.setenv("DIRGE_LOCAL_SERVERS", service.url("ollama"))
        monkeypatch.setenv("MISTRAL_API_KEY", "k")
        setup = ProviderSetup(home / "config.toml")
        refusals = [NoProvider("none.")]
        async with running_app(
            room, opens=False, setup=lambda: setup, refusals=refusals, demo=lambda: None
        ) as d:
            await d.until(lambda: d.app.picker.has_focus)
            told = [f"{choice.label} {choice.detail}" for choice in d.app.picker.choices]
            assert told[0] == f"Ollama answers at {service.url('ollama')}, 2 models"
            assert told[1] == "Mistral MISTRAL_API_KEY is set"
            assert told[2].startswith("A server of your own or your company's")
            assert told[3].startswith("See it work without a model")
            assert len([line for line in told if line.startswith("Ollama")]) == 1
            await d.pilot.press("enter")
            await d.until(lambda: "Choose a model" in d.screen and "gemma3" in d.screen)
            await d.pilot.press("down", "enter")
            await d.until(lambda: d.app.controller.conversation)
        assert service.requests[-1].json["model"] == "gemma3"
    assert 'model = "gemma3"' in (home / "config.toml").read_text()


@pytest.mark.usefixtures("alone")
async def test_the_demo_can_be_chosen_instead(room: Room, home: Path):
    def played(asker: Asker) -> Conversation:
        return room.build(asker, SessionChoice())

    closed: list[bool] = []
    demo = UiOptions(
        open_first=played,
        open_other=lambda *_: played(_[0]),
        is_stored=False,
        close=lambda: closed.append(True),
    )
    setup, refusals = ProviderSetup(home / "config.toml"), [NoProvider("none.")]
    async with running_app(
        room, opens=False, setup=lambda: setup, refusals=refusals, demo=lambda: demo
    ) as d:
        await d.until(lambda: d.app.picker.has_focus)
        await d.type("without a model")
        await d.pilot.press("enter")
        await d.until(lambda: d.app.controller.conversation)
        assert d.opened == [] and not d.app.session_opener.start.is_stored
        d.app.session_opener.start.close()
    assert closed == [True]
    assert not (home / "config.toml").exists()


@pytest.mark.usefixtures("alone")
async def test_who_gives_the_set_up_up_is_asked_again_by_enter(room: Room):
    refusals = [NoProvider("no provider is configured."), NoProvider("none.")]
    async with running_app(room, opens=False, setup=ProviderSetup, refusals=refusals) as d:
        await d.until(lambda: d.app.picker.has_focus)
        await d.pilot.press("escape")
        await d.until(lambda: "Nothing was changed." in d.text and d.app.composer.has_focus)
        await d.type("hello")
        await d.pilot.press("enter")
        await d.until(lambda: d.app.picker.has_focus)
        await d.pilot.press("escape")
        await d.until(lambda: d.app.composer.text == "hello")


async def test_without_a_provider_and_without_set_up_the_program_ends_saying_so(room: Room):
    async with running_app(
        room, opens=False, refusals=[NoProvider("no provider is configured.")]
    ) as d:
        await d.until(lambda: not d.app.is_running)
        assert str(d.app.failure) == "no provider is configured."


async def test_a_session_that_cannot_be_opened_is_told_and_no_empty_one_begins(room: Room):
    async with running_app(room, opens=False, resumes="nowhere") as d:
        await d.until(lambda: not d.app.is_running)
        assert "This project has no session 'nowhere'." in str(d.app.failure)
        assert d.opened == []
    assert not list(room.state_dir.glob("sessions/*/*.jsonl"))


async def test_a_configuration_error_ends_the_program_with_that_error(room: Room):
    async with running_app(
        room, opens=False, refusals=[ConfigError("line 3: no setting `x`.")]
    ) as d:
        await d.until(lambda: not d.app.is_running)
        assert str(d.app.failure) == "line 3: no setting `x`."
