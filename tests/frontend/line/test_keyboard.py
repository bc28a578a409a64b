"""Lines typed at a terminal while output appears above them."""

import pytest

from tests.support.app_driver import WAITING_COMMAND
from tests.support.line_driver import Keyboard, LineDriver, keyboard
from tests.support.project import ScriptedProject
from tests.support.truncated_journal import cut_behind


def long_command(project: ScriptedProject) -> LineDriver:
    project.model.will_call("bash", command=WAITING_COMMAND).will_say("All done.")
    return LineDriver(project, mode="yolo")


async def working(keys: Keyboard) -> None:
    await keys.send("build it")
    await keys.tty.until(
        lambda: keys.tty.opened and keys.tty.conversation.environment.shells is not None
    )
    await keys.tty.tells("● bash: ")


async def test_line_sent_during_run_steers_it(project: ScriptedProject) -> None:
    tty = long_command(project)
    async with keyboard(tty) as keys:
        await working(keys)
        await keys.send("look at CI first")
        await tty.tells("Queued to steer the run")
        (project.folder / "go").touch()
        await tty.tells("All done.")

    assert project.prompts_of_call(1)[-1].endswith("\nlook at CI first")
    assert "Steered in: look at CI first\n" in tty.output


async def test_first_greeting_shows_tips_and_what_the_mode_means(project: ScriptedProject) -> None:
    tty = LineDriver(project)
    async with keyboard(tty) as keys:
        await tty.tells("Mode standard: edits workspace files; asks before")
        await tty.tells("@ attaches a file. Ctrl+C interrupts a run.")
        await keys.send("/new")
        await tty.until(lambda: len(tty.opened) == 2)
        await tty.until(lambda: tty.output.count("/help lists") == 2)
    assert tty.output.count("@ attaches a file") == 1


async def test_queue_command_sends_prompt_after_run(project: ScriptedProject) -> None:
    tty = long_command(project)
    project.model.will_say("Tested.")
    async with keyboard(tty) as keys:
        await working(keys)
        await keys.send("/queue then test it")
        await tty.tells("Queued until the run ends: then test it")
        (project.folder / "go").touch()
        await tty.tells("Tested.")

    assert tty.output.index("All done.") < tty.output.index("Queued, delivered now: then test it")


async def test_text_typed_before_question_answers_nothing_and_stays_draft(
    project: ScriptedProject,
) -> None:
    project.model.will_call("bash", command="touch made").will_say("Done.")
    tty = LineDriver(project)
    async with keyboard(tty) as keys:
        await tty.until(lambda: tty.repl.is_ready)
        keys.press("make it\ry")
        await keys.answer("Question: allow bash?", "n")
        await tty.tells("Done.")
        await tty.until(lambda: tty.repl.source.draft == "y")

    assert not (project.folder / "made").exists()


async def test_answer_typed_too_soon_is_ignored(project: ScriptedProject) -> None:
    project.model.will_call("bash", command="touch made").will_say("Done.")
    tty = LineDriver(project)
    async with keyboard(tty, guard_s=60.0) as keys:
        await keys.send("make it")
        await keys.answer("Question: allow bash?", "y")
        await tty.tells("That came too fast to be an answer. Answer again.")
        assert tty.repl.controller.is_asking

    assert not (project.folder / "made").exists()


@pytest.mark.parametrize(
    "sentence", ["please stop", "yes but not to main", "a", "always look first", "p"]
)
async def test_sentence_begun_before_question_answers_nothing(
    project: ScriptedProject, sentence: str
) -> None:
    project.model.will_call("bash", command="touch made").will_say("Done.")
    tty = LineDriver(project)
    async with keyboard(tty) as keys:
        await tty.until(lambda: tty.repl.is_ready)
        keys.press("make it\rwhat is")
        await keys.answer("Question: allow bash?", sentence)
        await tty.until(lambda: "Answer again" in tty.output or "isn't an answer" in tty.output)
        assert tty.repl.controller.is_asking
        await keys.answer("Question: allow bash?", "n")
        await tty.tells("Done.")
        assert tty.repl.source.draft == f"{sentence}\nwhat is"

    assert not (project.folder / "made").exists()


async def test_line_that_is_not_an_answer_stays_draft(project: ScriptedProject) -> None:
    project.model.will_call("bash", command="touch made").will_say("Done.")
    tty = LineDriver(project)
    async with keyboard(tty) as keys:
        await keys.send("make it")
        await keys.answer("Question: allow bash?", "please stop")
        await tty.tells(
            "'please stop' isn't an answer to this question. dirge keeps it as a draft."
        )
        await keys.answer("Question: allow bash?", "")
        await tty.tells("Type one of the answers above.")
        await keys.answer("Question: allow bash?", "n")
        await tty.tells("Done.")
        await tty.until(lambda: tty.repl.source.draft.endswith("please stop"))

    assert not (project.folder / "made").exists()
    assert list(tty.conversation.settings.grants) == []


async def test_grant_for_session_is_reported(project: ScriptedProject) -> None:
    project.model.will_call("bash", command="touch made").will_say("Done.")
    tty = LineDriver(project)
    async with keyboard(tty) as keys:
        await keys.send("make it")
        await keys.answer("Question: allow bash?", "a")
        await tty.tells("Allowed for this session: `execute:touch made`")
        await tty.tells("Done.")


async def test_ctrl_c_at_question_denies_call_and_ends_run(project: ScriptedProject) -> None:
    project.model.will_call("bash", command="touch made").will_say("Never said.")
    tty = LineDriver(project)
    async with keyboard(tty) as keys:
        await keys.send("make it")
        await keys.answer("Question: allow bash?", "\x03")
        await tty.tells("Interrupted.")

    assert not (project.folder / "made").exists()


async def test_ctrl_c_clears_line_then_interrupts_then_quits(project: ScriptedProject) -> None:
    tty = long_command(project)
    async with keyboard(tty) as keys:
        await working(keys)
        keys.press("never mind")
        await tty.until(lambda: tty.repl.source.draft == "never mind")
        keys.press("\x03")
        await tty.until(lambda: tty.repl.source.draft == "")
        assert tty.conversation.is_running
        keys.press("\x03")
        await tty.tells("Interrupted.")
        keys.press("\x03")
        await tty.tells("Press Ctrl+C again to quit.")
        assert not keys.ended.done()
        keys.press("\x03")
        await tty.until(keys.ended.done)


async def test_ctrl_d_on_empty_line_quits(project: ScriptedProject) -> None:
    tty = LineDriver(project)
    async with keyboard(tty) as keys:
        await tty.until(lambda: tty.repl.is_ready)
        keys.press("\x04")
        await tty.until(keys.ended.done)
        assert keys.ended.result() == 0


async def test_first_ctrl_d_during_run_asks_and_second_quits(project: ScriptedProject) -> None:
    tty = long_command(project)
    async with keyboard(tty) as keys:
        await working(keys)
        keys.press("\x04")
        await tty.tells("Press Ctrl+D again to stop and quit.")
        assert not keys.ended.done()
        keys.press("\x04")
        await tty.until(keys.ended.done)


async def test_alt_enter_inserts_newline(project: ScriptedProject) -> None:
    project.model.will_say("Read.")
    tty = LineDriver(project)
    async with keyboard(tty) as keys:
        await tty.until(lambda: tty.repl.is_ready)
        keys.press("one\x1b\rtwo")
        await tty.until(lambda: tty.repl.source.draft == "one\ntwo")
        keys.press("\r")
        await tty.tells("Read.")

    assert project.prompts_of_call() == ["one\ntwo"]


async def test_tab_completes_commands_and_files(project: ScriptedProject) -> None:
    (project.folder / "notes.txt").write_text("a")
    tty = LineDriver(project)
    async with keyboard(tty) as keys:
        await tty.until(lambda: tty.repl.is_ready)
        keys.press("/rema\t")
        await tty.until(lambda: not tty.repl.source.draft.startswith("/rema"))
        keys.press("\x03")
        await tty.until(lambda: tty.repl.source.draft == "")
        keys.press("read @no\t")
        await tty.until(lambda: tty.repl.source.draft == "read @notes.txt")


async def test_draft_is_restored_at_next_start(
    project: ScriptedProject,
) -> None:
    project.model.will_say("Yes.")
    tty = LineDriver(project)
    async with keyboard(tty) as keys:
        await keys.send("well?")
        await tty.until(lambda: "Yes." in tty.output and tty.repl.is_ready)
        keys.press("half a thou")
        await tty.until(lambda: tty.repl.source.draft == "half a thou")
        tty.repl.quit(143)

    later = LineDriver(project, resumes=str(tty.conversation.session_id))
    async with keyboard(later):
        await later.until(lambda: later.repl.source.draft == "half a thou")
        assert "> well?\nYes.\n" in later.output


async def test_up_recalls_prompts_of_project_but_no_answers(
    project: ScriptedProject,
) -> None:
    project.model.will_call("bash", command="touch made").will_say("Done.")
    tty = LineDriver(project)
    async with keyboard(tty) as keys:
        await keys.send("make it")
        await keys.answer("Question: allow bash?", "n")
        await tty.tells("Done.")

    later = LineDriver(project)
    async with keyboard(later) as keys:
        await later.until(lambda: later.repl.is_ready)
        keys.press("\x1b[A")
        await later.until(lambda: later.repl.source.draft == "make it")


async def test_busy_session_can_be_opened_as_copy(project: ScriptedProject) -> None:
    project.model.will_say("because of the linker").will_say("Now this.")
    async with project.open() as other:
        await other.send("why does the build fail?")
        tty = LineDriver(project, resumes=str(other.session_id))
        async with keyboard(tty) as keys:
            await keys.answer("is in use", "1")
            await tty.until(lambda: tty.opened)
            await tty.until(lambda: tty.repl.is_ready)
            await keys.send("and now?")
            await tty.tells("Now this.")
            assert tty.conversation.session_id != other.session_id


async def test_interrupted_run_is_asked_about_on_resume(project: ScriptedProject) -> None:
    project.model.will_call("bash", command="echo ran >> ran.txt").will_say("never said")
    first = LineDriver(project, mode="yolo")
    async with keyboard(first) as keys:
        await keys.send("deploy it")
        await first.tells("never said")
    name = str(first.conversation.session_id)
    cut_behind(project.journal, "tool_started", nth=1)

    project.model.will_say("Looked at it.")
    tty = LineDriver(project, resumes=name)
    async with keyboard(tty) as keys:
        await keys.answer("The last run was cut off", "continue and check first")
        await tty.tells("Looked at it.")

    assert (project.folder / "ran.txt").read_text() == "ran\n"


@pytest.mark.parametrize("answer", ["yes", "no"])
async def test_project_trust_is_asked_before_session_opens(
    project: ScriptedProject, answer: str
) -> None:
    folder = TrustedFolder()
    tty = LineDriver(project)
    async with keyboard(tty, project=lambda: folder) as keys:
        await keys.answer("trust this project?", answer)
        await tty.until(lambda: tty.opened)

    assert folder.answers == [answer == "yes"]
    assert ".dirge/config.toml: settings, 12 bytes, 0123456789ab, new" in tty.output


class TrustedFolder:
    """A project with one file that needs trust."""

    theme = ""

    def __init__(self) -> None:
        from dirge_py.types.questions import ActingFile, TrustOffer

        file = ActingFile(
            path=".dirge/config.toml", kind="settings", size=12, sha256="0123456789abcdef"
        )
        self.offer = TrustOffer(project="/shop", files=(file,), digest="d")
        self.answers: list[bool] = []

    def answer(self, *, is_trusted: bool) -> None:
        self.answers.append(is_trusted)


async def test_step_runs_one_turn_and_waits(project: ScriptedProject) -> None:
    project.model.will_call("ls", path=".").will_say("All done.")
    tty = LineDriver(project)
    async with keyboard(tty) as keys:
        await keys.send("/step look around")
        await tty.tells("Turn 1 has ended; the run needs more.")
        assert len(project.model.seen) == 1
        await keys.send("/step")
        await tty.tells("All done.")
