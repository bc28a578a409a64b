"""Slash commands typed into the UI."""

from pathlib import Path

from textual.widgets import Input

from dirge_py.errors import ConfigError, NoProvider
from dirge_py.permission.decision import explain
from dirge_py.ui.start import Looks
from dirge_py.wiring.setup import ProviderSetup
from tests.conversation.room import Room
from tests.providers.server import FakeService, Raw, Say
from tests.ui.desk import HELD, Desk, desk


async def test_help_lists_every_command_own_name_and_key_in_force(room: Room):
    looks = Looks(
        keys={"toggle_all": ["ctrl-t"], "page-up": ["none"]}, aliases={"/m": "/model small"}
    )
    async with desk(room, prepare=lambda: looks) as d:
        await d.send("/help")
        await d.until(lambda: "/help" in d.text and "Keys" in d.text)
        for command in d.app.front.commands:
            assert f"/{command.name}" in d.text
        assert "/m  /model small" in d.text
        assert "Ctrl+T" in d.text
        assert "Ctrl+O" not in d.text
        assert "PageUp" not in d.text
        assert "PageDown" in d.text


async def test_an_unknown_command_stays_in_the_input_with_a_suggestion(room: Room):
    async with desk(room) as d:
        await d.send("/modell gpt-4.1")
        await d.until(lambda: "Did you mean /model?" in d.text)
        assert d.app.composer.text == "/modell gpt-4.1"


async def test_a_command_that_breaks_is_told_and_ends_nothing(room: Room, monkeypatch):
    def broken() -> None:
        raise RuntimeError("no such luck")

    async with desk(room) as d:
        monkeypatch.setattr(d.talk, "context_report", broken)
        await d.send("/context")
        await d.until(lambda: "RuntimeError: no such luck" in d.text)
        assert d.app.composer.text == "/context"
        assert d.app.is_running


async def test_a_path_is_a_prompt_and_two_slashes_escape(room: Room):
    async with desk(room) as d:
        await d.send("/usr/bin/env is missing")
        await d.idle()
        await d.send("//model is a command")
        await d.until(lambda: len(d.sent) == 2)
        assert d.sent == ["/usr/bin/env is missing", "/model is a command"]


async def test_model_without_argument_lets_pick(room: Room):
    async with desk(room) as d:
        await d.send("/model")
        await d.until(lambda: d.app.picker.has_focus)
        assert "▸ fake/gpt-4o" in d.screen
        await d.pilot.press("down", "enter")
        await d.until(lambda: d.talk.model == "fake/gpt-4.1")
        assert d.app.composer.has_focus


async def test_an_own_name_runs_what_it_stands_for(room: Room):
    async with desk(room, prepare=lambda: Looks(aliases={"/m": "/model gpt-4.1"})) as d:
        await d.send("/m")
        await d.until(lambda: d.talk.model == "fake/gpt-4.1")


async def test_what_is_odd_about_the_settings_is_said_at_the_start(room: Room):
    looks = Looks(keys={"fly": ["f1"]}, aliases={"/quit": "/clear", "/x": "/nothing"})
    async with desk(room, prepare=lambda: looks, theme="neon") as d:
        await d.until(lambda: "[ui]" in d.text)
        assert "! [keys]: there is no action 'fly'." in d.text
        assert "! [aliases]: /quit is now /clear, no longer the built-in command." in d.text
        assert "! [aliases]: /x: There is no command /nothing." in d.text
        assert "! [ui]: there is no theme 'neon', only dark, " in d.text


async def test_a_model_that_is_not_there_changes_nothing(room: Room):
    room.configure('[providers.bare]\ntype = "openai"\nbase_url = "http://127.0.0.1:9/v1"\n')
    async with desk(room) as d:
        await d.send("/model bare")
        await d.until(lambda: "✗" in d.text)
        assert d.talk.model == "fake/gpt-4o"


async def test_a_mode_is_told_in_the_words_of_the_list(room: Room):
    async with desk(room) as d:
        await d.send("/mode accept")
        await d.until(lambda: d.talk.mode == "accept")
        assert "as standard, and also memory and similar without asking" in d.text
        await d.send("/mode yolo")
        await d.until(lambda: "asks nothing; deny rules still hold" in d.text)


async def test_why_asks_the_engine_itself(room: Room):
    async with desk(room) as d:
        await d.send("/why read /etc/hosts")
        await d.until(lambda: "ask: " in d.text)
        told = explain(d.talk.why("read", "/etc/hosts"), "read", "/etc/hosts")
        for line in told.splitlines():
            assert line.strip() in d.text
        assert not room.model.seen


async def test_grants_can_be_listed_added_removed_and_cleared(room: Room):
    async with desk(room) as d:
        await d.send("/allow add execute:make *")
        await d.until(lambda: d.talk.grants)
        await d.send("/allow remove 9")
        await d.until(lambda: "There is no grant 9" in d.text)
        assert [str(grant) for grant in d.talk.grants] == ["execute:make *"]
        d.app.composer.put("")
        await d.send("/allow clear")
        await d.until(lambda: not d.talk.grants)


async def test_clear_opens_a_new_session_and_names_the_old_one(room: Room):
    async with desk(room) as d:
        first = d.talk
        await d.send("hello")
        await d.idle()
        await d.send("/clear")
        await d.until(lambda: len(d.opened) == 2 and "A new session." in d.text)
        assert f"dirge -r {first.session_id}" in d.text
        assert "› hello" not in d.text
        await d.send("and now")
        await d.idle()
        assert d.sent == ["and now"]


async def test_clear_has_to_wait_while_a_run_is_active(room: Room):
    room.model.will_call("bash", command=HELD)
    async with desk(room, mode="yolo") as d:
        await d.send("go")
        await d.until(lambda: d.app.talk.is_running)
        await d.send("/clear")
        await d.until(lambda: "has to wait" in d.text)
        assert d.app.composer.text == "/clear"
        assert len(d.opened) == 1


async def test_sessions_lets_go_on_in_another_one(room: Room):
    room.model.will_say("It is a parser.")
    async with desk(room) as d:
        await d.send("what is this?")
        await d.idle()
        first = d.talk.session_id
        await d.send("/clear")
        await d.until(lambda: len(d.opened) == 2)
        await d.send("/sessions")
        await d.until(lambda: d.app.picker.has_focus)
        assert "what is this?" in d.screen
        await d.pilot.press("w", "h", "a", "t", "enter")
        await d.until(lambda: len(d.opened) == 3 and "It is a parser." in d.text)
        assert d.talk.session_id == first


async def test_quit_ends_the_program(room: Room):
    async with desk(room) as d:
        await d.send("/exit")
        await d.until(lambda: not d.app.is_running)


async def test_theme_switches_the_colours(room: Room):
    async with desk(room) as d:
        await d.send("/theme light")
        await d.until(lambda: d.app.coloring.theme.name == "light")


# -- without a provider


async def fill_in(d: Desk, url: str) -> None:
    """Choose the first provider, at this address, its usual model, and type a key."""
    await d.until(lambda: d.app.picker.has_focus)
    await d.pilot.press("enter")
    await d.until(lambda: "Base URL" in d.screen)
    await d.pilot.press("ctrl+u")
    d.app.line_question.query_one(Input).value = url
    await d.pilot.press("enter")
    await d.until(lambda: "Model id" in d.screen)
    await d.pilot.press("enter")
    await d.until(lambda: d.app.picker.has_focus and "Where is the key?" in d.screen)
    assert "not set" in d.screen
    await d.pilot.press("enter")
    await d.until(lambda: "it is not shown" in d.screen)
    await d.type("sk-1")
    assert "sk-1" not in d.screen
    await d.pilot.press("enter")


async def test_without_a_provider_one_is_set_up_and_the_conversation_opens(room: Room, home: Path):
    refused = Raw(status=401, body='{"error":{"message":"no such key"}}')
    with FakeService([refused, Say(text="ok")]) as service:
        url = service.openai_url
        setup = ProviderSetup(home / "config.toml")
        refusals = [NoProvider("no provider is configured.")]
        async with desk(room, opens=False, setup=lambda: setup, refusals=refusals) as d:
            await fill_in(d, url)
            await d.until(lambda: "did not work" in d.screen)
            assert "401" in d.text
            await d.pilot.press("enter")
            await fill_in(d, url)
            await d.until(lambda: d.app.talk.conversation)
        assert [seen.headers["authorization"] for seen in service.requests] == ["Bearer sk-1"] * 2
    written = (home / "config.toml").read_text()
    assert url in written
    assert "sk-1" not in written
    [key] = [path for path in home.rglob("*") if path.is_file() and path.read_bytes() == b"sk-1\n"]
    assert key.stat().st_mode & 0o777 == 0o600


async def test_who_gives_the_set_up_up_is_asked_again_by_enter(room: Room):
    refusals = [NoProvider("no provider is configured."), NoProvider("none.")]
    async with desk(room, opens=False, setup=ProviderSetup, refusals=refusals) as d:
        await d.until(lambda: d.app.picker.has_focus)
        await d.pilot.press("escape")
        await d.until(lambda: "Nothing was changed." in d.text and d.app.composer.has_focus)
        await d.type("hello")
        await d.pilot.press("enter")
        await d.until(lambda: d.app.picker.has_focus)
        await d.pilot.press("escape")
        await d.until(lambda: d.app.composer.text == "hello")


async def test_without_a_provider_and_without_set_up_the_program_ends_saying_so(room: Room):
    async with desk(room, opens=False, refusals=[NoProvider("no provider is configured.")]) as d:
        await d.until(lambda: not d.app.is_running)
        assert str(d.app.failure) == "no provider is configured."


async def test_a_configuration_error_ends_the_program_with_that_error(room: Room):
    async with desk(room, opens=False, refusals=[ConfigError("line 3: no setting `x`.")]) as d:
        await d.until(lambda: not d.app.is_running)
        assert str(d.app.failure) == "line 3: no setting `x`."
