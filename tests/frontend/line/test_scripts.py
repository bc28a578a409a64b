"""A script of lines on stdin: prompts, commands and answers."""

import pytest

from dirge_py.types.messages import UserMessage
from tests.support.line_driver import LineDriver, play
from tests.support.project import ScriptedProject


def sent(tty: LineDriver) -> list[str]:
    return [m.text for m in tty.conversation.messages if isinstance(m, UserMessage)]


async def test_each_script_line_is_sent_after_previous_run(
    project: ScriptedProject,
) -> None:
    project.model.will_say("One.").will_say("Two.")
    tty = LineDriver(project)

    assert await play(tty, "first\n\nsecond") == 0

    assert project.prompts_of_call() == ["first", "second"]
    order = [tty.output.index(text) for text in ("> first\n", "One.\n", "> second\n", "Two.\n")]
    assert order == sorted(order)


@pytest.mark.parametrize(
    ("script", "ran"),
    [
        ("make it\ny\n", True),
        ("make it\nn too early\n", False),
        ("make it\n", False),
        ("make it\nand then rest\n", False),
    ],
    ids=["yes", "no", "end-of-input", "another-prompt"],
)
async def test_question_is_answered_by_next_line_or_denied(
    project: ScriptedProject, script: str, ran: bool
) -> None:
    project.model.will_call("bash", command="touch made").will_say("Done.").will_say("Resting.")
    tty = LineDriver(project)

    await play(tty, script)

    assert (project.folder / "made").exists() == ran
    assert "| touch made\n" in tty.output
    assert "storing execute:touch made\n" in tty.output


async def test_comment_of_denial_reaches_model(project: ScriptedProject) -> None:
    project.model.will_call("bash", command="touch made").will_say("Fine.")

    tty = LineDriver(project)
    await play(tty, "make it\nn, too early\n")

    [result] = [m for m in tty.conversation.messages if m.role == "toolResult"]
    assert "too early" in result.text


async def test_line_that_is_not_an_answer_becomes_next_prompt(project: ScriptedProject) -> None:
    project.model.will_call("bash", command="touch made").will_say("Done.").will_say("Resting.")
    tty = LineDriver(project)

    await play(tty, "make it\nand then rest\n")

    assert sent(tty) == ["make it", "and then rest"]


async def test_rule_written_in_answer_is_stored(project: ScriptedProject) -> None:
    project.model.will_call("bash", command="touch made").will_call("bash", command="touch more")
    project.model.will_say("Done.")
    tty = LineDriver(project)

    await play(tty, "make it\nr\nexecute:make *\nr\nexecute:touch m*\na\n")

    assert "This rule doesn't cover the call itself." in tty.output
    assert "Allowed for this session: `execute:touch m*`" in tty.output
    assert sorted(path.name for path in project.folder.iterdir()) == ["made", "more"]


async def test_command_written_in_answer_runs_and_model_is_told(project: ScriptedProject) -> None:
    project.model.will_call("bash", command="touch made").will_say("Done.")
    tty = LineDriver(project)

    await play(tty, "make it\ne\ntouch mine\n")

    [result] = [m for m in tty.conversation.messages if m.role == "toolResult"]
    assert "This ran instead: touch mine" in result.text
    assert [path.name for path in project.folder.iterdir()] == ["mine"]


async def test_all_listed_calls_are_allowed_by_one_answer(project: ScriptedProject) -> None:
    calls = [("bash", {"command": f"touch {name}"}) for name in ("one", "two", "three")]
    project.model.will_call_all(*calls).will_say("Done.")
    tty = LineDriver(project)

    await play(tty, "make them\nall\n")

    assert "all: allow all 3 calls once" in tty.output
    assert sorted(path.name for path in project.folder.iterdir()) == ["one", "three", "two"]


async def test_session_grant_stores_shown_rule(project: ScriptedProject) -> None:
    project.model.will_call("bash", command="touch made").will_say("Done.")
    project.model.will_call("bash", command="touch made").will_say("Again.")
    tty = LineDriver(project)

    await play(tty, "make it\na\nmake it again\n")

    assert [str(rule) for rule in tty.conversation.settings.grants] == ["execute:touch made"]
    assert tty.output.count("Question:") == 1


async def test_command_output_is_printed_and_choices_are_picked_by_number(
    project: ScriptedProject,
) -> None:
    tty = LineDriver(project)

    await play(tty, "/mode\n4\n/mode nonsense\n")

    assert tty.conversation.settings.mode == "plan"
    assert "Error:" in tty.output


async def test_failed_last_run_gives_exit_code_1(project: ScriptedProject) -> None:
    project.model.will_fail("the key is wrong")
    tty = LineDriver(project)

    assert await play(tty, "why?\n") == 1
    assert "the key is wrong" in tty.output


async def test_quit_ends_script_early(project: ScriptedProject) -> None:
    tty = LineDriver(project)

    assert await play(tty, "/quit\nnever sent\n") == 0
    assert sent(tty) == []
