"""Sending, steering, queueing and interrupting on the screen."""

import asyncio
import threading

import pytest

from dirge_py.providers.scripted import Reply
from dirge_py.testing import ScriptedModel
from dirge_py.types.events import AgentEnd
from dirge_py.ui.options import UiSettings
from dirge_py.ui.terminal.clipboard import last_copy_file
from tests.support.app_driver import WAITING_COMMAND, AppDriver, running_app
from tests.support.project import ScriptedProject, on_first

ANSWER = "The build fails because of **one** missing file."


def long_command(project: ScriptedProject) -> ScriptedModel:
    return project.model.will_call("bash", command=WAITING_COMMAND)


async def working(driver: AppDriver) -> None:
    await driver.until(lambda: "\n   cc a.c" in driver.screen)


async def test_prompt_and_answer_are_shown(project: ScriptedProject):
    project.model.will_say(ANSWER)
    async with running_app(project) as driver:
        await driver.type("why?")
        await driver.pilot.press("enter")
        await driver.until(lambda: "missing file" in driver.text)
        await driver.idle()

        assert project.prompts_of_call() == ["why?"]
        assert "› why?" in driver.text
        assert driver.app.composer.text == ""


async def test_enter_during_run_steers_and_delivery_is_shown(project: ScriptedProject):
    long_command(project).will_say("All done.")
    async with running_app(project, mode="yolo") as driver:
        await driver.send("build it")
        await working(driver)
        await driver.send("look at CI first")
        await driver.until(lambda: "q:1" in driver.screen)
        assert "steers next: look at CI first" in driver.screen

        driver.release_command()
        await driver.idle()

        assert "q:1" not in driver.screen
        assert "steered in → delivered at turn 2" in driver.text
        assert "look at CI first" in project.prompts_of_call(1)[-1]


async def test_resumed_steering_message_is_not_shown_as_just_delivered(
    project: ScriptedProject,
):
    long_command(project).will_say("All done.")
    async with running_app(project, mode="yolo") as driver:
        await driver.send("build it")
        await working(driver)
        await driver.send("look at CI first")
        driver.release_command()
        await driver.idle()
        stored = driver.conversation.session_id or ""

    async with running_app(project, resumes=stored) as driver:
        assert "› look at CI first\n  steered in\n" in driver.text
        assert "delivered" not in driver.text


async def test_tab_during_run_queues_follow_up(project: ScriptedProject):
    long_command(project).will_say("All done.").will_say(ANSWER)
    async with running_app(project, mode="yolo") as driver:
        await driver.send("build it")
        await working(driver)
        driver.app.composer.put("then write a test")
        await driver.pilot.press("tab")
        await driver.until(lambda: "when done: then write a test" in driver.screen)
        driver.release_command()
        await driver.idle()
        await driver.until(lambda: "queued → delivered at turn 3" in driver.text)

        assert driver.text.index("All done.") < driver.text.index("then write a test")
        assert project.prompts_of_call()[-1] == "then write a test"


async def test_follow_up_submitted_as_run_ends_starts_next_run(project: ScriptedProject):
    project.model.will_say("Almost.").will_say(ANSWER)
    async with running_app(project) as driver:
        driver.conversation.subscribe(
            on_first(AgentEnd, lambda: driver.conversation.follow_up("then explain"))
        )
        await driver.send("build it")
        await driver.until(lambda: "missing file" in driver.text)

        assert project.prompts_of_call() == ["build it", "then explain"]


async def test_hint_shows_keys_available_during_run(project: ScriptedProject):
    long_command(project)
    async with running_app(project, mode="yolo") as driver:
        await driver.send("build it")
        await working(driver)
        hint = "Esc to interrupt · Enter to steer · Tab to queue"
        assert hint in driver.screen
        await driver.send("and hurry")
        await driver.until(lambda: "Esc to interrupt · Up to edit it" in driver.screen)
        await driver.pilot.press("escape")
        await driver.idle()
        assert hint not in driver.screen


@pytest.mark.parametrize("draft", ["", "half a thou"])
async def test_esc_interrupts_run_and_returns_queue_to_input(project: ScriptedProject, draft: str):
    long_command(project)
    async with running_app(project, mode="yolo") as driver:
        await driver.send("build it")
        await working(driver)
        await driver.send("and hurry")
        await driver.until(lambda: driver.conversation.queued())
        driver.app.composer.put(draft)
        await driver.pilot.press("escape")
        await driver.idle()

        assert driver.app.composer.text == "\n".join(part for part in ("and hurry", draft) if part)
        assert driver.conversation.queued() == []
        assert "interrupted" in driver.text
        assert "Interrupted." in driver.text


async def test_prompt_after_interrupt_is_sent(project: ScriptedProject):
    long_command(project).will_say(ANSWER)
    async with running_app(project, mode="yolo") as driver:
        await driver.send("build it")
        await working(driver)
        await driver.pilot.press("escape")
        await driver.idle()
        await driver.send("again")
        await driver.until(lambda: "missing file" in driver.text)


async def test_up_on_empty_input_takes_queued_prompt_back(project: ScriptedProject):
    long_command(project)
    async with running_app(project, mode="yolo") as driver:
        await driver.send("build it")
        await working(driver)
        await driver.send("and hurry")
        await driver.until(lambda: driver.conversation.queued())
        await driver.pilot.press("up")
        await driver.until(lambda: driver.app.composer.text == "and hurry")

        assert driver.conversation.queued() == []
        assert driver.app.controller.is_running


async def test_ctrl_c_clears_then_interrupts_then_quits(project: ScriptedProject):
    long_command(project)
    async with running_app(project, mode="yolo") as driver:
        await driver.send("build it")
        await working(driver)
        driver.app.composer.put("draft")
        await driver.pilot.press("ctrl+c")
        await driver.until(lambda: driver.app.composer.text == "")
        assert driver.app.controller.is_running
        await driver.pilot.press("ctrl+c")
        await driver.until(lambda: not driver.app.controller.is_running)
        assert driver.app.is_running
        await driver.pilot.press("ctrl+c")
        await driver.until(lambda: not driver.app.is_running)


async def test_ctrl_c_on_empty_input_explains_second_ctrl_c(
    project: ScriptedProject,
):
    async with running_app(project) as driver:
        await driver.pilot.press("ctrl+c")
        await driver.until(lambda: "Press Ctrl+C again to quit" in driver.screen)

        assert driver.app.is_running


async def test_ctrl_c_copies_selection_and_keeps_input(project: ScriptedProject):
    async with running_app(project) as driver:
        driver.app.composer.put("keep this")
        driver.app.composer.select_all()
        await driver.pilot.press("ctrl+c")
        await driver.until(lambda: "Sent to the terminal, unverified." in driver.screen)
        assert last_copy_file().read_text() == "keep this"
        assert driver.app.composer.text == "keep this"


async def test_ctrl_d_quits_on_empty_input_and_deletes_otherwise(project: ScriptedProject):
    async with running_app(project) as driver:
        driver.app.composer.put("ab")
        driver.app.composer.move_cursor((0, 0))
        await driver.pilot.press("ctrl+d")
        assert driver.app.composer.text == "b"
        await driver.pilot.press("ctrl+d", "ctrl+d")
        await driver.until(lambda: not driver.app.is_running)


async def test_first_ctrl_d_during_a_run_asks_and_second_quits(project: ScriptedProject):
    project.model.will_call("bash", command=WAITING_COMMAND)
    async with running_app(project, mode="yolo") as driver:
        await driver.send("go")
        await driver.until(lambda: driver.app.controller.is_running)
        await driver.pilot.press("ctrl+d")
        await driver.until(lambda: "Press Ctrl+D again to stop and quit." in driver.screen)
        assert driver.app.is_running
        await driver.pilot.press("ctrl+d")
        await driver.until(lambda: not driver.app.is_running)


async def test_shift_tab_cycles_standard_accept_plan(project: ScriptedProject):
    async with running_app(project) as driver:
        seen = []
        for _ in range(3):
            await driver.pilot.press("shift+tab")
            seen.append(driver.conversation.settings.mode)
            await driver.until(lambda: f"Mode {seen[-1]}: " in driver.screen)
        assert seen == ["accept", "plan", "standard"]


async def test_prompt_with_failed_attachment_returns_to_input(project: ScriptedProject):
    (project.folder / "big.txt").write_bytes(b"\xff\x00" * 100)
    async with running_app(project) as driver:
        await driver.send("read @big.txt please")
        await driver.until(lambda: "✗" in driver.text)

        assert driver.app.composer.text == "read @big.txt please"
        assert driver.sent == []


async def test_attachments_are_listed_below_prompt(project: ScriptedProject):
    (project.folder / "notes.txt").write_text("remember the milk\n")
    async with running_app(project) as driver:
        await driver.send("what is in @notes.txt ?")
        await driver.idle()

        assert "  + notes.txt" in driver.text
        assert "remember the milk" in "".join(map(str, project.model.seen[0].messages))


async def test_resumed_conversation_is_drawn_as_it_was_live(project: ScriptedProject):
    (project.folder / "x.txt").write_text("first\n")
    project.model.will_call("read", path="x.txt").will_say(ANSWER)
    async with running_app(project) as driver:
        await driver.send("what is this?")
        await driver.idle()
        before, stored = driver.text, driver.conversation.session_id or ""

    async with running_app(project, resumes=stored) as driver:
        # The usage summary is shown only when the run ends.
        said = before[before.index("›") : before.index("\n\n2 turns")]
        assert said in driver.text
        assert "Resumed this session with fake/gpt-4o, mode standard." in driver.text
        await driver.pilot.press("up")
        assert driver.app.composer.text == "what is this?"


async def test_new_conversation_shows_model_mode_and_folder(project: ScriptedProject):
    (project.folder / "AGENTS.md").write_text("Use tabs.\n")
    async with running_app(project) as driver:
        for fact in ("dirge ", "fake/gpt-4o", "~/project", "standard", "AGENTS.md", "/help"):
            assert fact in driver.text


async def test_prompt_sent_before_conversation_opens_is_sent_afterwards(project: ScriptedProject):
    settings_read = threading.Event()

    def prepare() -> UiSettings:
        settings_read.wait(10)
        return UiSettings()

    project.model.will_say(ANSWER)
    async with running_app(project, opens=False, prepare=prepare) as driver:
        await driver.send("why?")
        await driver.until(lambda: driver.app.composer.text == "")
        assert driver.opened == []
        settings_read.set()
        await driver.until(lambda: "missing file" in driver.text)
        assert project.prompts_of_call() == ["why?"]


async def test_prompt_of_command_line_is_sent(project: ScriptedProject):
    project.model.will_say(ANSWER)
    async with running_app(project, first_prompt="why?") as driver:
        await driver.until(lambda: "missing file" in driver.text)


async def test_ctrl_o_toggles_full_output(project: ScriptedProject):
    project.model.will_call("bash", command="seq 1 20").will_say("ok", thinking="hm\nlet me see")
    async with running_app(project, mode="yolo", size=(80, 60)) as driver:
        await driver.send("go")
        await driver.idle()
        assert "seq 1 20\n  … 16 earlier lines\n  17\n" in driver.text
        assert "let me see" not in driver.text
        await driver.pilot.press("ctrl+o")
        assert "  3\n" in driver.text
        assert "let me see" in driver.text
        await driver.pilot.press("ctrl+o")
        assert "16 earlier lines" in driver.text


async def test_click_unfolds_one_block(project: ScriptedProject):
    project.model.will_call("bash", command="seq -f a%g 9").will_call(
        "bash", command="seq -f b%g 9"
    )
    async with running_app(project, mode="yolo", size=(80, 50)) as driver:
        await driver.send("go")
        await driver.idle()
        row = next(n for n, line in enumerate(driver.screen.splitlines()) if line.strip() == "a9")
        await driver.pilot.click("#transcript", offset=(5, row))
        await driver.until(lambda: "  a2" in driver.text)
        assert "  b2" not in driver.text


async def test_edit_is_shown_as_numbered_diff(project: ScriptedProject):
    (project.folder / "x.py").write_text("keep\nold\n")
    project.model.will_call("read", path="x.py")
    project.model.will_call("edit", path="x.py", old_text="old", new_text="new")
    async with running_app(project) as driver:
        await driver.send("go")
        await driver.idle()
        assert "2 -old" in driver.text
        assert "2 +new" in driver.text
        assert "+1 −1" in driver.text


async def test_scrolled_back_view_stays_while_text_streams(project: ScriptedProject):
    gate = asyncio.Event()
    first = "\n\n".join(f"paragraph {n}" for n in range(60))
    later = "\n\n".join(f"later {n}" for n in range(60))
    project.model.will_say(first, hold=gate.wait).will_say(later)
    async with running_app(project) as driver:
        await driver.send("go")
        await driver.until(lambda: "paragraph 59" in driver.screen)
        driver.conversation.follow_up("go on")
        await driver.pilot.press("pageup")
        await driver.until(lambda: "paragraph 59" not in driver.screen)
        before = [line[:70].rstrip() for line in driver.screen.splitlines()[:15]]
        gate.set()
        await driver.idle()

        assert [line[:70].rstrip() for line in driver.screen.splitlines()[:15]] == before
        await driver.pilot.press("ctrl+end")
        await driver.until(lambda: "later 59" in driver.screen)


@pytest.mark.parametrize("size", [(20, 5), (1, 1), (500, 4), (10, 80)])
async def test_app_works_at_any_terminal_size(project: ScriptedProject, size: tuple[int, int]):
    long_command(project).will_say(ANSWER)
    async with running_app(project, mode="yolo", size=size) as driver:
        await driver.type("go")
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.app.feed.has_calls_running)
        await driver.send("more")
        await driver.until(lambda: driver.conversation.queued())
        driver.release_command()
        await driver.idle()
        assert driver.sent == ["go", "more"]


async def test_long_draft_leaves_status_line_visible_on_small_screen(project: ScriptedProject):
    async with running_app(project, size=(20, 5)) as driver:
        driver.app.composer.put("\n".join(f"line {n}" for n in range(9)))
        await driver.until(lambda: "line 8" in driver.screen)
        assert "ready" in driver.screen.splitlines()[4]


async def test_many_resizes_during_stream_lose_no_text(project: ScriptedProject):
    fences = "```python\nprint('open fence\n\n| a | b |\n" * 50
    project.model.will(Reply(text=fences, chunk_chars=50, pause_s=0.001))
    async with running_app(project) as driver:
        await driver.send("go")
        for width, height in [(200, 50), (1, 1), (100, 3), (37, 11), (500, 200), (80, 24)]:
            await driver.pilot.resize_terminal(width, height)
        await driver.idle()
        assert "print('open fence" in driver.text


async def test_show_thinking_setting_shows_thinking(project: ScriptedProject):
    project.model.will_say("ok", thinking="hm\nlet me see")
    async with running_app(project, prepare=lambda: UiSettings(show_thinking=True)) as driver:
        await driver.send("go")
        await driver.idle()
        assert "let me see" in driver.text


async def test_control_characters_in_answers_and_output_do_not_reach_screen(
    project: ScriptedProject,
):
    evil = "\x1b]0;title\x07\x1b[2J\x1b[31m\x00\x9b5mred\u202e\r\nend"
    (project.folder / "evil").write_bytes(evil.encode())
    project.model.will_call_all(("bash", {"command": "cat evil"}), text=evil).will_say(
        "[b]x[/b] \x1bc"
    )
    async with running_app(project, mode="yolo") as driver:
        await driver.send("go")
        await driver.idle()
        assert "[b]x[/b]" in driver.text
        assert not set("\x00\x07\x1b\x9b\u202e\r") & set(driver.screen)


async def test_idle_app_never_calls_model(project: ScriptedProject):
    project.model.will_say(ANSWER)
    async with running_app(project) as driver:
        await driver.send("why?")
        await driver.idle()
        asked = len(project.model.seen)
        await driver.type("a draft")
        for focus in (False, True):
            driver.app.app_focus = focus
            await driver.pilot.pause()
        await driver.pilot.resize_terminal(60, 20)
        await driver.send("/status")
        await driver.send("/clear")
        await driver.until(lambda: len(driver.opened) == 2)
        await driver.idle()
        assert len(project.model.seen) == asked == 1
