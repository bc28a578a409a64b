"""The composer: lines, history, pastes, suggestions."""

import re

from textual import events

from tests.support.app_driver import running_app
from tests.support.project import ScriptedProject


async def test_four_keys_insert_a_newline(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.pilot.press("a", "ctrl+j", "b", "alt+enter", "c", "shift+enter", "d")
        await driver.pilot.press("backslash", "enter", "e")
        assert driver.app.composer.text == "a\nb\nc\nd\ne"
        assert driver.sent == []


async def test_text_typed_after_enter_belongs_to_next_prompt(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.type("one")
        driver.app.composer.key_action_submit()
        driver.app.composer.insert("two")
        await driver.until(lambda: driver.sent)
        assert driver.sent == ["one"]
        assert driver.app.composer.text == "two"


async def test_pasted_newlines_do_not_submit(project: ScriptedProject):
    async with running_app(project) as driver:
        driver.app.composer.post_message(events.Paste("a\r\nb\r\nc\r\n"))
        await driver.until(lambda: driver.app.composer.text)
        assert driver.app.composer.text == "a\nb\nc\n"
        assert driver.sent == []


async def test_large_paste_is_shown_as_placeholder_and_sent_in_full(project: ScriptedProject):
    text = "\n".join(f"line {n}" for n in range(12))
    async with running_app(project) as driver:
        await driver.paste(text)
        assert driver.app.composer.text == "[12 lines pasted]"
        await driver.type(" why")
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.sent)
        assert driver.sent == [f"{text} why"]


async def test_long_pasted_line_is_shown_as_placeholder(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.paste("x" * 300_000)
        assert driver.app.composer.text == "[300000 characters pasted]"
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.sent)
        assert driver.sent == ["x" * 300_000]


async def test_truncated_paste_is_reported(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.paste("line\n" * 1_000_000)
        await driver.until(lambda: "Only the first MiB of the paste was inserted." in driver.text)


async def test_placeholder_recalled_from_history_is_sent_in_full(
    project: ScriptedProject,
):
    text = "\n".join(f"line {n}" for n in range(12))
    async with running_app(project) as driver:
        await driver.paste(text)
        await driver.pilot.press("enter")
        await driver.idle()
        await driver.pilot.press("up")
        await driver.until(lambda: driver.app.composer.text == "[12 lines pasted]")
        await driver.pilot.press("enter")
        await driver.until(lambda: len(driver.sent) == 2)
        assert driver.sent[1] == text


async def test_backspace_deletes_whole_placeholder(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.type("see ")
        await driver.paste("1\n2\n3\n4\n5")
        await driver.pilot.press("backspace")
        assert driver.app.composer.text == "see "


async def test_pasting_same_text_again_replaces_placeholder_by_text(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.paste("1\n2\n3\n4\n5")
        await driver.paste("1\n2\n3\n4\n5")
        assert driver.app.composer.text == "1\n2\n3\n4\n5"


async def test_paste_strips_escape_codes_and_lone_surrogates(
    project: ScriptedProject,
):
    async with running_app(project) as driver:
        await driver.paste("a\x1b]0;title\x07b\ud800")
        assert driver.app.composer.text == "ab\ufffd"


async def test_up_moves_by_line_before_it_recalls_history(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.send("first")
        await driver.idle()
        driver.app.composer.put("one\ntwo")
        await driver.pilot.press("up")
        assert driver.app.composer.text == "one\ntwo"
        await driver.pilot.press("up")
        assert driver.app.composer.text == "first"
        await driver.pilot.press("down")
        assert driver.app.composer.text == "one\ntwo"


async def test_cut_text_can_be_yanked(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.type("one two")
        await driver.pilot.press("ctrl+w", "ctrl+y", "ctrl+y")
        assert driver.app.composer.text == "one twotwo"
        await driver.pilot.press("ctrl+u")
        assert driver.app.composer.text == ""


async def test_tab_cycles_through_command_proposals(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.type("/mo")
        await driver.until(lambda: driver.app.proposals.is_open)
        await driver.pilot.press("tab")
        first = driver.app.composer.text
        await driver.pilot.press("tab")
        assert (first, driver.app.composer.text) == ("/mode ", "/model ")


async def test_esc_closes_proposals_and_keeps_text(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.type("/mo")
        await driver.until(lambda: driver.app.proposals.is_open)
        await driver.pilot.press("escape")
        assert not driver.app.proposals.is_open
        assert driver.app.composer.text == "/mo"


async def test_enter_on_a_guessed_command_only_inserts_it(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.type("/cmpct")
        await driver.until(lambda: driver.app.proposals.is_open)
        await driver.pilot.press("enter")
        assert driver.app.composer.text == "/compact"
        await driver.pilot.press("enter")
        await driver.until(lambda: "Nothing to compact" in driver.text)
        assert driver.app.composer.text == ""


async def test_palette_finds_a_command_by_letters_in_order(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.pilot.press("f1")
        await driver.until(lambda: driver.app.picker.is_open)
        await driver.type("/cmpct")
        await driver.until(lambda: len(driver.app.picker.choices) == 1)
        assert driver.app.picker.choices[0].id == "/compact"


async def test_at_sign_proposes_files_not_ignored_by_git(project: ScriptedProject):
    (project.folder / "src").mkdir()
    (project.folder / "src" / "parser.py").write_text("")
    (project.folder / "secret.log").write_text("")
    (project.folder / ".gitignore").write_text("*.log\n")
    async with running_app(project) as driver:
        await driver.type("look at @")
        await driver.until(lambda: driver.app.proposals.is_open)
        assert {c.label for c in driver.app.proposals.choices} == {"src/", "src/parser.py"}
        await driver.type("prs")
        await driver.until(
            lambda: [c.label for c in driver.app.proposals.choices] == ["src/parser.py"]
        )
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.app.composer.text == "look at @src/parser.py ")
        assert driver.sent == []


async def test_ctrl_r_searches_history_while_typing(project: ScriptedProject):
    async with running_app(project) as driver:
        for prompt in ("fix the parser", "write docs", "test the parser"):
            await driver.send(prompt)
            await driver.idle()
        await driver.type("my draft")
        await driver.pilot.press("ctrl+r")
        await driver.type("pars")
        assert driver.app.composer.text == "test the parser"
        await driver.until(lambda: "Search prompts: pars" in driver.screen)
        await driver.pilot.press("ctrl+r")
        assert driver.app.composer.text == "fix the parser"
        await driver.pilot.press("ctrl+s")
        assert driver.app.composer.text == "test the parser"
        await driver.pilot.press("enter")
        await driver.until(lambda: "Search prompts" not in driver.screen)
        assert (driver.app.composer.text, len(driver.sent)) == ("test the parser", 3)
        await driver.pilot.press("ctrl+underscore")
        assert driver.app.composer.text == "my draft"


async def test_esc_cancels_history_search_and_restores_draft(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.send("fix the parser")
        await driver.idle()
        await driver.type("my draft")
        await driver.pilot.press("left", "left", "ctrl+r", "f", "backspace", "f", "escape", "x")
        assert driver.app.composer.text == "my draxft"


async def test_other_key_accepts_found_prompt_and_runs_its_action(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.send("fix the parser")
        await driver.idle()
        await driver.pilot.press("ctrl+r", "f", "home", "x")
        assert driver.app.composer.text == "xfix the parser"


async def test_history_search_without_match_keeps_draft(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.type("my draft")
        await driver.pilot.press("ctrl+r", "z")
        await driver.until(lambda: "Search prompts: no match: z" in driver.screen)
        assert driver.app.composer.draft == "my draft"
        await driver.pilot.press("enter")
        assert driver.app.composer.text == "my draft"


async def test_up_without_earlier_prompts_leaves_the_input_usable(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.pilot.press("up", "ctrl+u", "up", "down", "h", "up", "i")
        assert driver.app.composer.text == "hi"
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.sent == ["hi"])


async def test_history_search_shows_no_prompt_that_does_not_match(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.send("fix the parser")
        await driver.idle()
        await driver.pilot.press("ctrl+r", "f", "ctrl+r")
        await driver.until(lambda: "Search prompts: no other match: f" in driver.screen)
        assert driver.app.composer.text == "fix the parser"
        await driver.pilot.press("z")
        await driver.until(lambda: "Search prompts: no match: fz" in driver.screen)
        assert driver.app.composer.text == ""
        await driver.pilot.press("backspace")
        assert driver.app.composer.text == "fix the parser"


async def test_list_of_commands_is_aligned_and_counts_those_out_of_view(project: ScriptedProject):
    async with running_app(project, size=(120, 40)) as driver:
        await driver.type("/")
        await driver.until(lambda: driver.app.proposals.is_open)
        lines = [line for line in driver.screen.splitlines() if line.startswith(("   /", " ▸ /"))]
        count = len(driver.app.proposals.choices)
        assert lines[0].rstrip().endswith(f" 1/{count}")
        assert len({re.match(r"...\S+ +", line).end() for line in lines}) == 1
        await driver.pilot.press("down")
        await driver.until(lambda: f" 2/{count}" in driver.screen)


async def test_wide_characters_can_be_typed_and_sent(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.pilot.press("日", "本", "é")
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.sent)
        assert driver.sent == ["日本é"]


async def test_tab_sends_nothing_while_nothing_runs(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.type("half a promp")
        await driver.pilot.press("tab")
        await driver.idle()
        assert driver.app.composer.text == "half a promp"
        assert driver.sent == []
