"""The composer: lines, history, pastes, suggestions."""

from textual import events

from tests.support.app_driver import running_app
from tests.support.project import ScriptedProject


async def test_four_ways_to_a_new_line(project: ScriptedProject):
    async with running_app(project) as d:
        await d.pilot.press("a", "ctrl+j", "b", "alt+enter", "c", "shift+enter", "d")
        await d.pilot.press("backslash", "enter", "e")
        assert d.app.composer.text == "a\nb\nc\nd\ne"
        assert d.sent == []


async def test_what_is_typed_right_after_enter_is_the_next_prompt(project: ScriptedProject):
    async with running_app(project) as d:
        await d.type("one")
        d.app.composer.key_action_submit()
        d.app.composer.insert("two")
        await d.until(lambda: d.sent)
        assert d.sent == ["one"]
        assert d.app.composer.text == "two"


async def test_a_paste_with_newlines_does_not_send(project: ScriptedProject):
    async with running_app(project) as d:
        d.app.composer.post_message(events.Paste("a\r\nb\r\nc\r\n"))
        await d.until(lambda: d.app.composer.text)
        assert d.app.composer.text == "a\nb\nc\n"
        assert d.sent == []


async def test_a_large_paste_is_a_placeholder_and_is_sent_whole(project: ScriptedProject):
    text = "\n".join(f"line {n}" for n in range(12))
    async with running_app(project) as d:
        await d.paste(text)
        assert d.app.composer.text == "[12 lines pasted]"
        await d.type(" why")
        await d.pilot.press("enter")
        await d.until(lambda: d.sent)
        assert d.sent == [f"{text} why"]


async def test_a_long_line_is_a_placeholder_too(project: ScriptedProject):
    async with running_app(project) as d:
        await d.paste("x" * 300_000)
        assert d.app.composer.text == "[300000 characters pasted]"
        await d.pilot.press("enter")
        await d.until(lambda: d.sent)
        assert d.sent == ["x" * 300_000]


async def test_that_a_paste_was_too_much_is_said(project: ScriptedProject):
    async with running_app(project) as d:
        await d.paste("line\n" * 1_000_000)
        await d.until(lambda: "Only the first MiB of the paste was inserted." in d.text)


async def test_a_placeholder_called_back_from_history_still_means_the_same(
    project: ScriptedProject,
):
    text = "\n".join(f"line {n}" for n in range(12))
    async with running_app(project) as d:
        await d.paste(text)
        await d.pilot.press("enter")
        await d.idle()
        await d.pilot.press("up")
        await d.until(lambda: d.app.composer.text == "[12 lines pasted]")
        await d.pilot.press("enter")
        await d.until(lambda: len(d.sent) == 2)
        assert d.sent[1] == text


async def test_backspace_takes_a_placeholder_at_once(project: ScriptedProject):
    async with running_app(project) as d:
        await d.type("see ")
        await d.paste("1\n2\n3\n4\n5")
        await d.pilot.press("backspace")
        assert d.app.composer.text == "see "


async def test_pasting_the_same_again_puts_it_in_as_it_is(project: ScriptedProject):
    async with running_app(project) as d:
        await d.paste("1\n2\n3\n4\n5")
        await d.paste("1\n2\n3\n4\n5")
        assert d.app.composer.text == "1\n2\n3\n4\n5"


async def test_a_paste_cannot_smuggle_terminal_commands_or_lone_surrogates(
    project: ScriptedProject,
):
    async with running_app(project) as d:
        await d.paste("a\x1b]0;title\x07b\ud800")
        assert d.app.composer.text == "ab\ufffd"


async def test_up_moves_by_line_before_it_goes_back_in_history(project: ScriptedProject):
    async with running_app(project) as d:
        await d.send("first")
        await d.idle()
        d.app.composer.put("one\ntwo")
        await d.pilot.press("up")
        assert d.app.composer.text == "one\ntwo"
        await d.pilot.press("up")
        assert d.app.composer.text == "first"
        await d.pilot.press("down")
        assert d.app.composer.text == "one\ntwo"


async def test_what_was_cut_can_be_put_back(project: ScriptedProject):
    async with running_app(project) as d:
        await d.type("one two")
        await d.pilot.press("ctrl+w", "ctrl+y", "ctrl+y")
        assert d.app.composer.text == "one twotwo"
        await d.pilot.press("ctrl+u")
        assert d.app.composer.text == ""


async def test_tab_cycles_through_commands(project: ScriptedProject):
    async with running_app(project) as d:
        await d.type("/mo")
        await d.until(lambda: d.app.proposals.is_open)
        await d.pilot.press("tab")
        first = d.app.composer.text
        await d.pilot.press("tab")
        assert (first, d.app.composer.text) == ("/mode ", "/model ")


async def test_esc_closes_the_proposals_and_keeps_the_text(project: ScriptedProject):
    async with running_app(project) as d:
        await d.type("/mo")
        await d.until(lambda: d.app.proposals.is_open)
        await d.pilot.press("escape")
        assert not d.app.proposals.is_open
        assert d.app.composer.text == "/mo"


async def test_at_proposes_files_that_git_would_not_ignore(project: ScriptedProject):
    (project.folder / "src").mkdir()
    (project.folder / "src" / "parser.py").write_text("")
    (project.folder / "secret.log").write_text("")
    (project.folder / ".gitignore").write_text("*.log\n")
    async with running_app(project) as d:
        await d.type("look at @")
        await d.until(lambda: d.app.proposals.is_open)
        assert {c.label for c in d.app.proposals.choices} == {"src/", "src/parser.py"}
        await d.type("prs")
        await d.until(lambda: [c.label for c in d.app.proposals.choices] == ["src/parser.py"])
        await d.pilot.press("enter")
        await d.until(lambda: d.app.composer.text == "look at @src/parser.py ")
        assert d.sent == []


async def test_history_is_searched_in_place_as_it_is_typed(project: ScriptedProject):
    async with running_app(project) as d:
        for prompt in ("fix the parser", "write docs", "test the parser"):
            await d.send(prompt)
            await d.idle()
        await d.type("my draft")
        await d.pilot.press("ctrl+r")
        await d.type("pars")
        assert d.app.composer.text == "test the parser"
        await d.until(lambda: "(search) pars" in d.screen)
        await d.pilot.press("ctrl+r")
        assert d.app.composer.text == "fix the parser"
        await d.pilot.press("ctrl+s")
        assert d.app.composer.text == "test the parser"
        await d.pilot.press("enter")
        await d.until(lambda: "(search)" not in d.screen)
        assert (d.app.composer.text, len(d.sent)) == ("test the parser", 3)
        await d.pilot.press("ctrl+underscore")
        assert d.app.composer.text == "my draft"


async def test_esc_ends_a_search_and_gives_the_draft_back(project: ScriptedProject):
    async with running_app(project) as d:
        await d.send("fix the parser")
        await d.idle()
        await d.type("my draft")
        await d.pilot.press("left", "left", "ctrl+r", "f", "backspace", "f", "escape", "x")
        assert d.app.composer.text == "my draxft"


async def test_another_key_takes_what_was_found_and_does_its_work(project: ScriptedProject):
    async with running_app(project) as d:
        await d.send("fix the parser")
        await d.idle()
        await d.pilot.press("ctrl+r", "f", "home", "x")
        assert d.app.composer.text == "xfix the parser"


async def test_a_search_that_finds_nothing_says_so_and_keeps_the_draft(project: ScriptedProject):
    async with running_app(project) as d:
        await d.type("my draft")
        await d.pilot.press("ctrl+r", "z")
        await d.until(lambda: "(search) no such prompt: z" in d.screen)
        assert d.app.composer.draft == "my draft"
        await d.pilot.press("enter")
        assert d.app.composer.text == "my draft"


async def test_wide_characters_can_be_typed_and_sent(project: ScriptedProject):
    async with running_app(project) as d:
        await d.pilot.press("日", "本", "é")
        await d.pilot.press("enter")
        await d.until(lambda: d.sent)
        assert d.sent == ["日本é"]
