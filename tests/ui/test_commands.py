"""Slash commands typed into the UI."""

from dirge_py.errors import ConfigError, NoProvider, ProviderError
from dirge_py.wiring.offers import Draft, Offer
from tests.ui.desk import desk
from tests.ui.fake import Play


async def test_help_lists_every_command_and_the_keys_in_force():
    async with desk(start={"keys": {"toggle_all": ["ctrl-t"], "page-up": ["none"]}}) as d:
        await d.until(lambda: d.opened)
        await d.send("/help")
        await d.until(lambda: "/help" in d.text and "Keys" in d.text)
        for command in d.app.front.commands:
            assert f"/{command.name}" in d.text
        assert "Ctrl+T" in d.text
        assert "Ctrl+O" not in d.text
        assert "Pageup" not in d.text


async def test_an_unknown_command_stays_in_the_input_with_a_suggestion():
    async with desk() as d:
        await d.send("/modell work/model-b")
        await d.until(lambda: "Did you mean /model?" in d.text)
        assert d.app.composer.text == "/modell work/model-b"


async def test_a_path_is_a_prompt_and_two_slashes_escape():
    async with desk() as d:
        await d.send("/usr/bin/env is missing")
        await d.idle()
        await d.send("//model is a command")
        await d.until(lambda: len(d.talk.sent) == 2)
        assert d.talk.sent == ["/usr/bin/env is missing", "/model is a command"]


async def test_model_without_argument_lets_pick():
    async with desk() as d:
        await d.send("/model")
        await d.until(lambda: d.app.picker.has_focus)
        assert "▸ work/model-a" in d.screen
        await d.pilot.press("down", "enter")
        await d.until(lambda: d.talk.model == "work/model-b")
        assert d.app.composer.has_focus


async def test_a_model_that_is_not_there_changes_nothing():
    async with desk() as d:
        await d.send("/model claude-x")
        await d.until(lambda: "There is no model" in d.text)
        assert d.talk.model == "work/model-a"


async def test_grants_can_be_listed_added_removed_and_cleared():
    async with desk() as d:
        await d.send("/allow add execute:make *")
        await d.until(lambda: d.talk.grants)
        await d.send("/allow remove 9")
        await d.until(lambda: "There is no grant 9" in d.text)
        assert [grant.text for grant in d.talk.grants] == ["execute:make *"]
        d.app.composer.put("")
        await d.send("/allow clear")
        await d.until(lambda: not d.talk.grants)


async def test_clear_opens_a_new_session_and_names_the_old_one():
    async with desk() as d:
        first = d.talk
        await d.send("/clear")
        await d.until(lambda: len(d.opened) == 2)
        await d.until(lambda: first.is_closed)
        assert "dirge -r s-1" in d.text


async def test_clear_has_to_wait_while_a_run_is_active():
    async def script(play: Play) -> None:
        await play.run.signal.wait()

    async with desk(script) as d:
        await d.send("go")
        await d.until(lambda: d.app.talk.is_running)
        await d.send("/clear")
        await d.until(lambda: "has to wait" in d.text)
        assert d.app.composer.text == "/clear"
        assert len(d.opened) == 1


async def test_quit_ends_the_program():
    async with desk() as d:
        await d.send("/exit")
        await d.until(lambda: not d.app.is_running)


async def test_theme_switches_the_colours():
    async with desk() as d:
        await d.send("/theme light")
        await d.until(lambda: d.app.theme == "dirge-light")


class Service:
    """A set-up service that keeps what it was given; the first request fails if so wished."""

    def __init__(self, *, refuses: int = 0) -> None:
        self.refuses = refuses
        self.saved: list[Draft] = []

    def offers(self) -> list[Offer]:
        return [
            Offer(type="anthropic", label="Anthropic", key_env=("NO_SUCH_KEY",), model="claude-x"),
            Offer(type="ollama", label="Ollama", base_url="http://127.0.0.1", needs_key=False),
        ]

    async def try_out(self, draft: Draft) -> str:
        if self.refuses:
            self.refuses -= 1
            raise ProviderError("refused the key (401).", kind="auth")
        return "It answered."

    def save(self, draft: Draft) -> str:
        self.saved.append(draft)
        return "/home/u/.config/dirge/config.toml"


async def test_without_a_provider_one_is_set_up_and_the_conversation_opens():
    service = Service(refuses=1)
    refusals = [NoProvider("no provider is configured.")]
    async with desk(start={"setup": service}, refusals=refusals) as d:
        await d.until(lambda: d.app.picker.has_focus)
        await d.pilot.press("enter")
        await d.until(lambda: "Base URL" in d.screen)
        await d.pilot.press("enter")
        await d.until(lambda: "Model id" in d.screen)
        await d.pilot.press("enter")
        await d.until(lambda: d.app.picker.has_focus)
        assert "not set" in d.screen
        await d.pilot.press("enter")
        await d.until(lambda: "it is not shown" in d.screen)
        await d.pilot.press("s", "k", "minus", "1")
        assert "sk-1" not in d.screen
        await d.pilot.press("enter")
        await d.until(lambda: "did not work" in d.screen)
        assert "refused the key (401)." in d.text
        await d.pilot.press("down", "enter")
        await d.until(lambda: d.opened)
        assert service.saved == [Draft(type="anthropic", model="claude-x", key="sk-1")]


async def test_without_a_provider_and_without_set_up_the_program_ends_saying_so():
    async with desk(refusals=[NoProvider("no provider is configured.")]) as d:
        await d.until(lambda: not d.app.is_running)
        assert d.app.return_code == 2


async def test_a_configuration_error_ends_the_program_with_that_error():
    async with desk(refusals=[ConfigError("line 3: no setting `modle`.")]) as d:
        await d.until(lambda: not d.app.is_running)
        assert str(d.app.failure) == "line 3: no setting `modle`."
