"""Sending, steering, queueing and interrupting, as seen on the screen."""

import asyncio
import threading

import pytest

from dirge_py.providers.scripted import Reply
from dirge_py.testing import ScriptedModel
from dirge_py.types.events import AgentEnd
from dirge_py.ui.options import UiSettings
from dirge_py.ui.terminal.clipboard import last_copy_file
from tests.conversation.room import Room, when
from tests.ui.running_app import HELD, RunningApp, running_app

ANSWER = "The build fails because of **one** missing file."


def long_command(room: Room) -> ScriptedModel:
    return room.model.will_call("bash", command=HELD)


async def working(d: RunningApp) -> None:
    await d.until(lambda: "\n   cc a.c" in d.screen)


async def test_a_sent_prompt_and_its_answer_are_on_the_screen(room: Room):
    room.model.will_say(ANSWER)
    async with running_app(room) as d:
        await d.type("why?")
        await d.pilot.press("enter")
        await d.until(lambda: "missing file" in d.text)
        await d.idle()

        assert room.heard() == ["why?"]
        assert "› why?" in d.text
        assert d.app.composer.text == ""


async def test_enter_during_a_run_steers_and_the_delivery_is_shown(room: Room):
    long_command(room).will_say("All done.")
    async with running_app(room, mode="yolo") as d:
        await d.send("build it")
        await working(d)
        await d.send("look at CI first")
        await d.until(lambda: "q:1" in d.screen)
        assert "steers next: look at CI first" in d.screen

        d.release_command()
        await d.idle()

        assert "q:1" not in d.screen
        assert "steered in → delivered at turn 2" in d.text
        assert "look at CI first" in room.heard(1)[-1]


async def test_what_was_steered_in_long_ago_is_not_said_to_be_delivered_now(room: Room):
    long_command(room).will_say("All done.")
    async with running_app(room, mode="yolo") as d:
        await d.send("build it")
        await working(d)
        await d.send("look at CI first")
        d.release_command()
        await d.idle()
        stored = d.conversation.session_id or ""

    async with running_app(room, resumes=stored) as d:
        assert "› look at CI first\n  steered in\n" in d.text
        assert "delivered" not in d.text


async def test_tab_during_a_run_queues_for_after_it(room: Room):
    long_command(room).will_say("All done.").will_say(ANSWER)
    async with running_app(room, mode="yolo") as d:
        await d.send("build it")
        await working(d)
        d.app.composer.put("then write a test")
        await d.pilot.press("tab")
        await d.until(lambda: "when done: then write a test" in d.screen)
        d.release_command()
        await d.idle()
        await d.until(lambda: "queued → delivered at turn 3" in d.text)

        assert d.text.index("All done.") < d.text.index("then write a test")
        assert room.heard()[-1] == "then write a test"


async def test_what_is_typed_too_late_for_the_run_starts_the_next_one(room: Room):
    room.model.will_say("Almost.").will_say(ANSWER)
    async with running_app(room) as d:
        d.conversation.subscribe(when(AgentEnd, lambda: d.conversation.follow_up("then explain")))
        await d.send("build it")
        await d.until(lambda: "missing file" in d.text)

        assert room.heard() == ["build it", "then explain"]


async def test_the_hint_tells_what_enter_tab_and_esc_do_during_a_run(room: Room):
    long_command(room)
    async with running_app(room, mode="yolo") as d:
        await d.send("build it")
        await working(d)
        hint = "Esc interrupts · Enter steers · Tab queues for after"
        assert hint in d.screen
        await d.send("and hurry")
        await d.until(lambda: f"{hint} · Up takes back" in d.screen)
        await d.pilot.press("escape")
        await d.idle()
        assert hint not in d.screen


@pytest.mark.parametrize("draft", ["", "half a thou"])
async def test_esc_interrupts_even_with_a_queue_which_returns_to_the_input(room: Room, draft: str):
    long_command(room)
    async with running_app(room, mode="yolo") as d:
        await d.send("build it")
        await working(d)
        await d.send("and hurry")
        await d.until(lambda: d.conversation.queued())
        d.app.composer.put(draft)
        await d.pilot.press("escape")
        await d.idle()

        assert d.app.composer.text == "\n".join(part for part in ("and hurry", draft) if part)
        assert d.conversation.queued() == []
        assert "interrupted" in d.text
        assert "Interrupted." in d.text


async def test_the_first_prompt_after_an_interrupt_is_sent(room: Room):
    long_command(room).will_say(ANSWER)
    async with running_app(room, mode="yolo") as d:
        await d.send("build it")
        await working(d)
        await d.pilot.press("escape")
        await d.idle()
        await d.send("again")
        await d.until(lambda: "missing file" in d.text)


async def test_up_on_empty_input_takes_the_queue_back(room: Room):
    long_command(room)
    async with running_app(room, mode="yolo") as d:
        await d.send("build it")
        await working(d)
        await d.send("and hurry")
        await d.until(lambda: d.conversation.queued())
        await d.pilot.press("up")
        await d.until(lambda: d.app.composer.text == "and hurry")

        assert d.conversation.queued() == []
        assert d.app.controller.is_running


async def test_ctrl_c_clears_then_interrupts_then_quits(room: Room):
    long_command(room)
    async with running_app(room, mode="yolo") as d:
        await d.send("build it")
        await working(d)
        d.app.composer.put("draft")
        await d.pilot.press("ctrl+c")
        await d.until(lambda: d.app.composer.text == "")
        assert d.app.controller.is_running
        await d.pilot.press("ctrl+c")
        await d.until(lambda: not d.app.controller.is_running)
        assert d.app.is_running
        await d.pilot.press("ctrl+c")
        await d.until(lambda: not d.app.is_running)


async def test_one_ctrl_c_on_an_empty_screen_only_says_what_another_would_do(room: Room):
    async with running_app(room) as d:
        await d.pilot.press("ctrl+c")
        await d.until(lambda: "Ctrl+C again quits" in d.screen)

        assert d.app.is_running


async def test_ctrl_c_copies_what_is_selected_and_nothing_else(room: Room):
    async with running_app(room) as d:
        d.app.composer.put("keep this")
        d.app.composer.select_all()
        await d.pilot.press("ctrl+c")
        await d.until(lambda: "Sent to the terminal, unverified." in d.screen)
        assert last_copy_file().read_text() == "keep this"
        assert d.app.composer.text == "keep this"


async def test_ctrl_d_quits_on_empty_input_and_else_deletes(room: Room):
    async with running_app(room) as d:
        d.app.composer.put("ab")
        d.app.composer.move_cursor((0, 0))
        await d.pilot.press("ctrl+d")
        assert d.app.composer.text == "b"
        await d.pilot.press("ctrl+d", "ctrl+d")
        await d.until(lambda: not d.app.is_running)


async def test_shift_tab_cycles_standard_accept_plan(room: Room):
    async with running_app(room) as d:
        seen = []
        for _ in range(3):
            await d.pilot.press("shift+tab")
            seen.append(d.conversation.settings.mode)
        assert seen == ["accept", "plan", "standard"]


async def test_a_prompt_whose_attachment_fails_is_back_in_the_input(room: Room):
    (room.project / "big.txt").write_bytes(b"\xff\x00" * 100)
    async with running_app(room) as d:
        await d.send("read @big.txt please")
        await d.until(lambda: "✗" in d.text)

        assert d.app.composer.text == "read @big.txt please"
        assert d.sent == []


async def test_what_is_attached_is_named_below_the_prompt(room: Room):
    (room.project / "notes.txt").write_text("remember the milk\n")
    async with running_app(room) as d:
        await d.send("what is in @notes.txt ?")
        await d.idle()

        assert "  + notes.txt" in d.text
        assert "remember the milk" in "".join(map(str, room.model.seen[0].messages))


async def test_a_stored_conversation_is_shown_when_it_is_resumed(room: Room):
    (room.project / "x.txt").write_text("first\n")
    room.model.will_call("read", path="x.txt").will_say(ANSWER)
    async with running_app(room) as d:
        await d.send("what is this?")
        await d.idle()
        before, stored = d.text, d.conversation.session_id or ""

    async with running_app(room, resumes=stored) as d:
        # What the run came to is told once, when it ends.
        said = before[before.index("›") : before.index("\n\n2 turns")]
        assert said in d.text
        assert "Back in this session, with fake/gpt-4o, mode standard." in d.text
        await d.pilot.press("up")
        assert d.app.composer.text == "what is this?"


async def test_a_new_conversation_greets_with_what_is_at_work(room: Room):
    (room.project / "AGENTS.md").write_text("Use tabs.\n")
    async with running_app(room) as d:
        for fact in ("dirge ", "fake/gpt-4o", "~/project", "standard", "AGENTS.md", "/help"):
            assert fact in d.text


async def test_what_is_sent_before_the_conversation_is_open_waits_for_it(room: Room):
    settings_read = threading.Event()

    def prepare() -> UiSettings:
        settings_read.wait(10)
        return UiSettings()

    room.model.will_say(ANSWER)
    async with running_app(room, opens=False, prepare=prepare) as d:
        await d.send("why?")
        await d.until(lambda: d.app.composer.text == "")
        assert d.opened == []
        settings_read.set()
        await d.until(lambda: "missing file" in d.text)
        assert room.heard() == ["why?"]


async def test_the_first_prompt_of_the_command_line_is_sent(room: Room):
    room.model.will_say(ANSWER)
    async with running_app(room, first_prompt="why?") as d:
        await d.until(lambda: "missing file" in d.text)


async def test_output_is_short_until_ctrl_o_and_short_again_after(room: Room):
    room.model.will_call("bash", command="seq 1 20").will_say("ok", thinking="hm\nlet me see")
    async with running_app(room, mode="yolo", size=(80, 60)) as d:
        await d.send("go")
        await d.idle()
        assert "seq 1 20\n  … 16 earlier lines\n  17\n" in d.text
        assert "let me see" not in d.text
        await d.pilot.press("ctrl+o")
        assert "  3\n" in d.text
        assert "let me see" in d.text
        await d.pilot.press("ctrl+o")
        assert "16 earlier lines" in d.text


async def test_a_click_opens_one_block(room: Room):
    room.model.will_call("bash", command="seq -f a%g 9").will_call("bash", command="seq -f b%g 9")
    async with running_app(room, mode="yolo", size=(80, 50)) as d:
        await d.send("go")
        await d.idle()
        row = next(n for n, line in enumerate(d.screen.splitlines()) if line.strip() == "a9")
        await d.pilot.click("#transcript", offset=(5, row))
        await d.until(lambda: "  a2" in d.text)
        assert "  b2" not in d.text


async def test_a_change_is_shown_as_a_numbered_diff(room: Room):
    (room.project / "x.py").write_text("keep\nold\n")
    room.model.will_call("read", path="x.py")
    room.model.will_call("edit", path="x.py", old_text="old", new_text="new")
    async with running_app(room) as d:
        await d.send("go")
        await d.idle()
        assert "2 -old" in d.text
        assert "2 +new" in d.text
        assert "+1 −1" in d.text


async def test_who_reads_back_stays_there_while_text_streams(room: Room):
    gate = asyncio.Event()
    first = "\n\n".join(f"paragraph {n}" for n in range(60))
    later = "\n\n".join(f"later {n}" for n in range(60))
    room.model.will_say(first, hold=gate.wait).will_say(later)
    async with running_app(room) as d:
        await d.send("go")
        await d.until(lambda: "paragraph 59" in d.screen)
        d.conversation.follow_up("go on")
        await d.pilot.press("pageup")
        await d.until(lambda: "paragraph 59" not in d.screen)
        before = [line[:70].rstrip() for line in d.screen.splitlines()[:15]]
        gate.set()
        await d.idle()

        assert [line[:70].rstrip() for line in d.screen.splitlines()[:15]] == before
        await d.pilot.press("ctrl+end")
        await d.until(lambda: "later 59" in d.screen)


@pytest.mark.parametrize("size", [(20, 5), (1, 1), (500, 4), (10, 80)])
async def test_any_size_of_terminal_is_usable(room: Room, size: tuple[int, int]):
    long_command(room).will_say(ANSWER)
    async with running_app(room, mode="yolo", size=size) as d:
        await d.type("go")
        await d.pilot.press("enter")
        await d.until(lambda: d.app.has_calls_running)
        await d.send("more")
        await d.until(lambda: d.conversation.queued())
        d.release_command()
        await d.idle()
        assert d.sent == ["go", "more"]


async def test_a_long_draft_leaves_room_on_a_small_screen(room: Room):
    async with running_app(room, size=(20, 5)) as d:
        d.app.composer.put("\n".join(f"line {n}" for n in range(9)))
        await d.until(lambda: "line 8" in d.screen)
        assert "ready" in d.screen.splitlines()[4]


async def test_a_storm_of_resizes_during_a_stream_breaks_nothing(room: Room):
    fences = "```python\nprint('open fence\n\n| a | b |\n" * 50
    room.model.will(Reply(text=fences, chunk_chars=50, pause_s=0.001))
    async with running_app(room) as d:
        await d.send("go")
        for width, height in [(200, 50), (1, 1), (100, 3), (37, 11), (500, 200), (80, 24)]:
            await d.pilot.resize_terminal(width, height)
        await d.idle()
        assert "print('open fence" in d.text


async def test_thinking_is_shown_at_once_if_the_settings_say_so(room: Room):
    room.model.will_say("ok", thinking="hm\nlet me see")
    async with running_app(room, prepare=lambda: UiSettings(show_thinking=True)) as d:
        await d.send("go")
        await d.idle()
        assert "let me see" in d.text


async def test_control_characters_of_a_model_or_a_command_change_nothing_on_the_screen(room: Room):
    evil = "\x1b]0;title\x07\x1b[2J\x1b[31m\x00\x9b5mred\u202e\r\nend"
    (room.project / "evil").write_bytes(evil.encode())
    room.model.will_call_all(("bash", {"command": "cat evil"}), text=evil).will_say(
        "[b]x[/b] \x1bc"
    )
    async with running_app(room, mode="yolo") as d:
        await d.send("go")
        await d.idle()
        assert "[b]x[/b]" in d.text
        assert not set("\x00\x07\x1b\x9b\u202e\r") & set(d.screen)


async def test_while_nobody_asks_nothing_is_asked_of_a_model(room: Room):
    room.model.will_say(ANSWER)
    async with running_app(room) as d:
        await d.send("why?")
        await d.idle()
        asked = len(room.model.seen)
        await d.type("a draft")
        for focus in (False, True):
            d.app.app_focus = focus
            await d.pilot.pause()
        await d.pilot.resize_terminal(60, 20)
        await d.send("/status")
        await d.send("/clear")
        await d.until(lambda: len(d.opened) == 2)
        await d.idle()
        assert len(room.model.seen) == asked == 1
