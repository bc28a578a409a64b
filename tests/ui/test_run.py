"""Sending, steering, queueing and interrupting, as seen on the screen."""

import asyncio

import pytest

from dirge_py.calls import text_result
from dirge_py.messages import user_text
from tests.ui.desk import desk
from tests.ui.fake import Play


async def answer(play: Play) -> None:
    play.say("The build fails because of **one** missing file.")


class Held:
    """A run that waits in a tool call until the gate is opened."""

    def __init__(self) -> None:
        self.gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def script(self, play: Play) -> None:
        await play.tool("bash", {"command": "make"}, "built", gate=self.gate, progress="cc a.c")
        play.say("All done.")


async def test_a_sent_prompt_and_its_answer_are_on_the_screen():
    async with desk(answer) as d:
        await d.type("why?")
        await d.pilot.press("enter")
        await d.until(lambda: "missing file" in d.text)
        await d.idle()

        assert d.talk.sent == ["why?"]
        assert "› why?" in d.text
        assert d.app.composer.text == ""


async def test_enter_during_a_run_steers_and_the_delivery_is_shown():
    held = Held()
    async with desk(held.script) as d:
        await d.send("build it")
        await d.until(lambda: "cc a.c" in d.text)
        await d.send("look at CI first")
        await d.until(lambda: "q:1" in d.screen)
        assert "steers next: look at CI first" in d.screen

        held.gate.set_result(None)
        await d.idle()

        assert "q:1" not in d.screen
        assert "steered in, delivered at turn 2" in d.text


async def test_tab_during_a_run_queues_for_after_it():
    held = Held()
    async with desk(held.script) as d:
        await d.send("build it")
        await d.until(lambda: d.app.talk.is_running)
        d.app.composer.put("then write a test")
        await d.pilot.press("tab")
        await d.until(lambda: "when done: then write a test" in d.screen)

        assert [item.kind for item in d.talk.queue] == ["follow_up"]


async def test_what_is_typed_too_late_for_the_run_starts_the_next_one():
    held = Held()
    async with desk(held.script, answer) as d:
        await d.send("build it")
        await d.until(lambda: d.app.talk.is_running)
        d.app.composer.put("then explain")
        await d.pilot.press("tab")
        await d.until(lambda: d.talk.queue)
        held.gate.set_result(None)
        await d.until(lambda: "missing file" in d.text)

        assert d.talk.sent == ["build it", "then explain"]


@pytest.mark.parametrize("draft", ["", "half a thou"])
async def test_esc_interrupts_even_with_a_queue_which_returns_to_the_input(draft: str):
    held = Held()
    async with desk(held.script) as d:
        await d.send("build it")
        await d.until(lambda: "cc a.c" in d.text)
        await d.send("and hurry")
        await d.until(lambda: d.talk.queue)
        d.app.composer.put(draft)
        await d.pilot.press("escape")
        await d.idle()

        assert d.app.composer.text == "\n".join(part for part in ("and hurry", draft) if part)
        assert d.talk.queue == []
        assert "interrupted" in d.text
        assert "Interrupted." in d.text


async def test_the_first_prompt_after_an_interrupt_is_sent():
    held = Held()
    async with desk(held.script, answer) as d:
        await d.send("build it")
        await d.until(lambda: "cc a.c" in d.text)
        await d.pilot.press("escape")
        await d.idle()
        await d.send("again")
        await d.until(lambda: "missing file" in d.text)


async def test_up_on_empty_input_takes_the_queue_back():
    held = Held()
    async with desk(held.script) as d:
        await d.send("build it")
        await d.until(lambda: d.app.talk.is_running)
        await d.send("and hurry")
        await d.until(lambda: d.talk.queue)
        await d.pilot.press("up")
        await d.until(lambda: d.app.composer.text == "and hurry")

        assert d.talk.queue == []
        assert d.app.talk.is_running


async def test_ctrl_c_clears_then_interrupts_then_quits():
    held = Held()
    async with desk(held.script) as d:
        await d.send("build it")
        await d.until(lambda: "cc a.c" in d.text)
        d.app.composer.put("draft")
        await d.pilot.press("ctrl+c")
        await d.until(lambda: d.app.composer.text == "")
        assert d.app.talk.is_running
        await d.pilot.press("ctrl+c")
        await d.until(lambda: not d.app.talk.is_running)
        assert d.app.is_running
        await d.pilot.press("ctrl+c")
        await d.until(lambda: not d.app.is_running)


async def test_one_ctrl_c_on_an_empty_screen_only_says_what_another_would_do():
    async with desk() as d:
        await d.pilot.press("ctrl+c")
        await d.until(lambda: "Ctrl+C again quits" in d.screen)

        assert d.app.is_running


async def test_ctrl_c_copies_what_is_selected_and_nothing_else():
    async with desk() as d:
        d.app.composer.put("keep this")
        d.app.composer.select_all()
        await d.pilot.press("ctrl+c")
        await d.until(lambda: d.app.clipboard == "keep this")
        assert d.app.composer.text == "keep this"


async def test_ctrl_d_quits_on_empty_input_and_else_deletes():
    async with desk() as d:
        d.app.composer.put("ab")
        d.app.composer.move_cursor((0, 0))
        await d.pilot.press("ctrl+d")
        assert d.app.composer.text == "b"
        await d.pilot.press("ctrl+d", "ctrl+d")
        await d.until(lambda: not d.app.is_running)


async def test_shift_tab_cycles_standard_accept_plan():
    async with desk() as d:
        seen = []
        for _ in range(3):
            await d.pilot.press("shift+tab")
            seen.append(d.talk.mode)
        assert seen == ["accept", "plan", "standard"]


async def test_a_prompt_whose_attachment_fails_is_back_in_the_input():
    async with desk() as d:
        await d.send("read @missing/ please")
        await d.until(lambda: "cannot be attached" in d.text)

        assert d.app.composer.text == "read @missing/ please"
        assert d.talk.sent == []


async def test_a_stored_conversation_is_shown_and_says_which_instructions_were_read():
    history = [user_text("what is this?")]
    async with desk(
        messages=history, instruction_files=["AGENTS.md"], notices=["2 calls healed"]
    ) as d:
        assert "› what is this?" in d.text
        assert "Instructions read: AGENTS.md" in d.text
        assert "2 calls healed" in d.text


async def test_the_first_prompt_of_the_command_line_is_sent():
    async with desk(answer, start={"first_prompt": "why?"}) as d:
        await d.until(lambda: d.opened and "missing file" in d.text)


async def test_output_is_short_until_ctrl_o_and_short_again_after():
    async def script(play: Play) -> None:
        output = "\n".join(f"line {n}" for n in range(20))
        await play.tool("bash", {"command": "seq"}, output)
        play.say("ok", thinking="hm\nlet me see")

    async with desk(script, size=(80, 60)) as d:
        await d.send("go")
        await d.idle()
        assert "16 more lines" in d.text
        assert "line 19" not in d.text
        assert "let me see" not in d.text
        await d.pilot.press("ctrl+o")
        assert "line 19" in d.text
        assert "let me see" in d.text
        await d.pilot.press("ctrl+o")
        assert "16 more lines" in d.text


async def test_a_click_opens_one_block():
    async def script(play: Play) -> None:
        await play.tool("bash", {"command": "a"}, "\n".join(f"a{n}" for n in range(9)))
        await play.tool("bash", {"command": "b"}, "\n".join(f"b{n}" for n in range(9)))

    async with desk(script, size=(80, 50)) as d:
        await d.send("go")
        await d.idle()
        row = d.screen.splitlines().index(next(x for x in d.screen.splitlines() if "a1" in x))
        await d.pilot.click("#transcript", offset=(5, row))
        await d.until(lambda: "a8" in d.text)
        assert "b8" not in d.text


async def test_a_change_is_shown_as_a_numbered_diff():
    diff = "--- a/x.py\n+++ b/x.py\n@@ -7,2 +7,2 @@\n keep\n-old\n+new\n"

    async def script(play: Play) -> None:
        await play.tool("edit", {"path": "x.py"}, text_result("edited", diff=diff, path="x.py"))

    async with desk(script) as d:
        await d.send("go")
        await d.idle()
        assert "8 -old" in d.text
        assert "8 +new" in d.text
        assert "+1 −1" in d.text


async def test_who_reads_back_stays_there_while_text_streams():
    gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    first = "\n\n".join(f"paragraph {n}" for n in range(60))
    later = "\n\n".join(f"later {n}" for n in range(60))

    async def script(play: Play) -> None:
        play.begin()
        play.stream(first)
        await gate
        play.stream(later)
        play.end(first + later)

    async with desk(script) as d:
        await d.send("go")
        await d.until(lambda: "paragraph 59" in d.screen)
        await d.pilot.press("pageup")
        await d.until(lambda: "paragraph 59" not in d.screen)
        before = [line[:70].rstrip() for line in d.screen.splitlines()[:15]]
        gate.set_result(None)
        await d.idle()

        assert [line[:70].rstrip() for line in d.screen.splitlines()[:15]] == before
        await d.pilot.press("ctrl+end")
        await d.until(lambda: "later 59" in d.screen)


@pytest.mark.parametrize("size", [(20, 5), (1, 1), (500, 4), (10, 80)])
async def test_any_size_of_terminal_is_usable(size: tuple[int, int]):
    held = Held()
    async with desk(held.script, answer, size=size) as d:
        await d.type("go")
        await d.pilot.press("enter")
        await d.until(lambda: d.app.talk.is_running)
        await d.send("more")
        held.gate.set_result(None)
        await d.idle()
        assert d.talk.sent == ["go"]


async def test_a_storm_of_resizes_during_a_stream_breaks_nothing():
    async def script(play: Play) -> None:
        play.say("```python\nprint('open fence\n\n| a | b |\n" * 50, pieces=40)

    async with desk(script) as d:
        await d.send("go")
        for width, height in [(200, 50), (1, 1), (100, 3), (37, 11), (500, 200), (80, 24)]:
            await d.pilot.resize_terminal(width, height)
        await d.idle()
        assert "print('open fence" in d.text


async def test_thinking_is_shown_at_once_if_the_settings_say_so():
    async def script(play: Play) -> None:
        play.say("ok", thinking="hm\nlet me see")

    async with desk(script, start={"show_thinking": True}) as d:
        await d.send("go")
        await d.idle()
        assert "let me see" in d.text
