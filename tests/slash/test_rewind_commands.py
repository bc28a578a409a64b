"""`/rewind`, `/undo`, `/redo`, `/retry`, `/tree`, `/fork`, `/clone`, `/sessions`, as typed."""

from collections.abc import Sequence

import pytest

from dirge_py import slash
from dirge_py.conversation.conversation import Conversation
from dirge_py.frontend.print.print_mode import PrintFront
from dirge_py.session.tree import SessionTree, TreeNode
from dirge_py.slash.base import Choice, Unsupported
from dirge_py.slash.registry import Registry, discover
from dirge_py.slash.rewind import draw_tree
from dirge_py.types.errors import DirgeError, UsageError
from dirge_py.types.questions import Question, QuestionAnswer
from tests.support.project import ScriptedProject
from tests.support.rewind_driver import rewindable

COMMANDS = Registry(discover(slash))


class PickingFront(PrintFront):
    """A front end that picks the line with a word, and options by label."""

    def __init__(self, *answers: str | Sequence[str] | None) -> None:
        super().__init__(COMMANDS)
        self.answers = list(answers)
        self.asked: list[str] = []
        self.input = ""
        self.opened = ""

    async def pick(self, title: str, choices: Sequence[Choice], *, current: str = "") -> str | None:
        self.asked += [f"{choice.label} | {choice.detail}" for choice in choices]
        word = self.answers.pop(0)
        return next((c.id for c in choices if str(word) in c.label), None) if word else None

    async def form(self, questions: Sequence[Question]) -> Sequence[QuestionAnswer] | None:
        [question] = questions
        self.asked.append(question.question)
        answer = self.answers.pop(0)
        if answer is None:
            return None
        chosen = (answer,) if isinstance(answer, str) else tuple(answer)
        assert set(chosen) <= {option.label for option in question.options}
        return [QuestionAnswer(chosen=chosen)]

    def set_input(self, text: str) -> None:
        self.input = text

    async def open(self, session_id: str | None) -> Conversation:
        self.opened = session_id or ""
        raise Unsupported("switching")

    @property
    def text(self) -> str:
        return "\n".join(self.shown)


async def run(
    line: str, conversation: Conversation, *answers: str | Sequence[str] | None
) -> PickingFront:
    screen = PickingFront(*answers)
    typed = COMMANDS.read(line)
    assert typed is not None
    await COMMANDS.run(typed, conversation, screen)
    assert screen.answers == []
    return screen


async def test_rewind_previews_changes_and_applies_chosen_ones(
    project: ScriptedProject,
) -> None:
    async with rewindable(project) as driver:
        driver.edit(a="one\n", mine="one\n")
        await driver.prompt("the first", "printf 'two\\nthree\\n' > a; echo x > b")
        driver.edit(mine="my own\n")
        await driver.prompt("the second", "echo y >> mine")

        screen = await run(
            "/rewind", driver.conversation, "the first", "conversation and files", ["mine"]
        )

        assert screen.asked[0] == "(current) | stay here"
        assert screen.asked[1].startswith("the second | just now, 1 file changed since")
        preview = screen.asked[3]
        assert "8 messages stay on another branch" in preview
        assert "  ~ a  +1 -2" in preview
        assert "  - b" in preview
        assert "Changed by you since, and kept unless you choose them:\n  ~ mine" in preview
        assert screen.input == "the first"
        assert "3 files restored: a, b, mine" in screen.text
        assert driver.files == {"a": "one\n", "mine": "one\n"}


@pytest.mark.parametrize("answers", [("(current)",), (None,), ("one", "cancel"), ("one", None)])
async def test_cancelled_rewind_changes_nothing(
    project: ScriptedProject, answers: tuple[str | None, ...]
) -> None:
    async with project.open() as conversation:
        project.model.will_say("yes")
        await conversation.send("one")
        screen = await run("/rewind", conversation, *answers)
        assert (len(conversation.messages), screen.input) == (2, "")


async def test_undo_asks_only_if_files_would_change(project: ScriptedProject) -> None:
    async with rewindable(project) as driver:
        await driver.prompt("make it", "echo x > a")
        assert (await run("/undo", driver.conversation, "cancel")).input == ""
        assert driver.files == {"a": "x\n"}

        screen = await run("/undo", driver.conversation, "go back")
        assert (screen.input, driver.files) == ("make it", {})
        assert "1 file restored: a" in screen.text

        screen = await run("/redo", driver.conversation)
        assert driver.files == {"a": "x\n"}
        await driver.prompt("only talk")
        assert (await run("/retry", driver.conversation)).input == "only talk"


async def test_rewind_with_number_goes_back_that_many_prompts(project: ScriptedProject) -> None:
    async with project.open() as conversation:
        for prompt in ("one", "two", "three"):
            project.model.will_say("yes")
            await conversation.send(prompt)
        with pytest.raises(UsageError, match="1 to 3"):
            await run("/rewind 4", conversation)
        screen = await run("/rewind 2", conversation, "only the conversation")
        assert (screen.input, len(conversation.messages)) == ("two", 2)


@pytest.mark.parametrize("line", ["/rewind", "/rewind 7", "/undo", "/retry", "/fork", "/clone"])
async def test_rewind_commands_without_prompts_are_refused(
    project: ScriptedProject, line: str
) -> None:
    async with project.open() as conversation:
        with pytest.raises(DirgeError, match="here is nothing to go back to"):
            await run(line, conversation)


@pytest.mark.parametrize("number", ["0", "3", "one", "9" * 5000])
async def test_rewind_number_out_of_range_is_refused(project: ScriptedProject, number: str) -> None:
    project.model.will_say("a").will_say("b")
    async with project.open() as conversation:
        for prompt in ("one", "two"):
            await conversation.send(prompt)
        with pytest.raises(UsageError, match="1 to 2"):
            await run(f"/rewind {number}", conversation)


async def test_fork_and_clone_accept_id_or_open_picker(project: ScriptedProject) -> None:
    async with project.open() as conversation:
        for prompt in ("one", "two"):
            project.model.will_say(f"re {prompt}")
            await conversation.send(prompt)
        shown = (await run("/tree", conversation)).text.splitlines()
        assert (await run("/branch", conversation, "two")).input == "two"
        assert len(conversation.messages) == 2
        text = (await run(f"/tree {shown[1].split()[1]}", conversation)).text
        assert text.startswith("You are at that point now.")
        assert len(conversation.messages) == 4
        await run("/clone", conversation, "re one")
        assert len(conversation.messages) == 2
        with pytest.raises(DirgeError, match="no message 'zzz'"):
            await run("/clone zzz", conversation)


async def test_tree_marks_current_position_and_indents_abandoned_branches(
    project: ScriptedProject,
) -> None:
    async with project.open() as conversation:
        for prompt in ("one", "two\x1b[31m"):
            project.model.will_say("yes")
            await conversation.send(prompt)
        await conversation.timeline.undo()
        project.model.will_say("yes")
        await conversation.send("other")

        lines = (await run("/tree", conversation)).text.splitlines()

        names = conversation.timeline.tree().names
        assert [line.split()[0] for line in lines[:3]] == list(names[:3])
        texts = [line[2 + len(names[0]) + 2 :].removesuffix("  just now") for line in lines]
        assert [text.strip() for text in texts[:1]] == ["one"]
        assert texts[1].startswith("├─ two")
        assert "\x1b" not in "".join(lines)
        assert texts[2].startswith("↩ undo: two")
        assert lines[3].startswith("▸ ")
        assert "other" in lines[3]


def test_tree_with_thousand_branches_stays_narrow() -> None:
    nodes = []
    for number in range(1000):
        above = None if number == 0 else number - 1 - (number % 2)
        nodes.append(
            TreeNode(
                id=f"{number:012x}",
                kind="move" if number % 2 else "prompt",
                at="",
                text="x",
                above=above if above is None or above >= 0 else 0,
                tip="",
            )
        )
    for number, node in enumerate(nodes):
        if node.above is not None:
            nodes[node.above].below.append(number)
    names = tuple(node.id for node in nodes)

    lines = list(draw_tree(SessionTree(nodes=tuple(nodes), here=999, names=names)))

    assert len(lines) == 1000
    assert max(map(len, lines)) < 40
    assert [line for line in lines if line.startswith("▸")] == [lines[-1]]


@pytest.mark.parametrize("line", ["/rewind", "/undo", "/redo", "/retry", "/fork", "/clone"])
async def test_rewind_commands_have_to_wait_during_a_run(
    project: ScriptedProject, line: str
) -> None:
    async with project.open() as conversation:
        project.model.will_say("yes")
        run_of_it = conversation.send("one")
        with pytest.raises(UsageError, match="has to wait"):
            await run(line, conversation)
        await run_of_it


async def test_sessions_accepts_id_or_words_of_title(project: ScriptedProject) -> None:
    ids: list[str] = []
    for prompt in ("mend the parser", "write the docs"):
        async with project.open() as conversation:
            project.model.will_say("yes")
            await conversation.send(prompt)
            ids.append(conversation.session_id or "")
    async with project.open() as conversation:
        for line, answers in ((f"/sessions {ids[0]}", ()), ("/resume PARSER mend", ("parser",))):
            screen = PickingFront(*answers)
            typed = COMMANDS.read(line)
            assert typed is not None
            with pytest.raises(Unsupported):
                await COMMANDS.run(typed, conversation, screen)
            assert screen.opened == ids[0]
        assert "title contains 'nothing'" in (await run("/sessions nothing", conversation)).text


async def test_damaged_session_is_marked_in_list(
    project: ScriptedProject,
) -> None:
    async with project.open() as conversation:
        project.model.will_say("yes")
        await conversation.send("mend the parser")
        lost = conversation.session_id or ""
    with project.journal.open("ab") as journal:
        journal.write(b"\0" * 40)

    async with project.open() as conversation:
        before = (await run("/sessions list", conversation)).text
    async with project.open("newest") as conversation:
        assert conversation.session_id == lost  # keeps the damaged bytes, and cuts them off
        after = (await run("/sessions list", conversation)).text

    assert f"{lost}  just now  -  2 messages  damaged: mend the parser" in before
    assert f"{lost}  just now  -  2 messages  damaged: mend the parser" in after


async def test_e11_deleting_current_session_opens_new_one(
    project: ScriptedProject,
) -> None:
    class Leaving(PickingFront):
        async def open(self, session_id: str | None) -> Conversation:
            assert session_id is None
            await conversation.close()
            self.opened = "new"
            return conversation

    async with project.open() as conversation:
        project.model.will_say("yes")
        await conversation.send("mend the parser")
        gone = conversation.session_id or ""
        assert (
            await run("/sessions delete", conversation, "keep it")
        ).text == "Nothing was deleted."
        assert f"▸ {gone}" in (await run("/sessions list", conversation)).text
        assert gone in (await run("/sessions current", conversation)).text

        screen = Leaving("delete it")
        typed = COMMANDS.read(f"/sessions delete {gone}")
        assert typed is not None
        await COMMANDS.run(typed, conversation, screen)

        assert "mend the parser" in screen.asked[0]
        assert screen.opened == "new"
        assert f"--undo {gone}" in screen.text
        assert "no stored sessions" in (await run("/sessions list", conversation)).text


async def test_deleting_other_session_keeps_current_one(project: ScriptedProject) -> None:
    async with project.open() as conversation:
        project.model.will_say("yes")
        await conversation.send("one")
        other = conversation.session_id or ""
    async with project.open() as conversation:
        project.model.will_say("yes")
        await conversation.send("two")
        screen = await run(f"/sessions delete {other}", conversation, "delete it")

        assert screen.opened == ""
        assert [one.id for one in conversation.session.list_sessions()] == [conversation.session_id]
        with pytest.raises(DirgeError, match="no session 'nowhere'"):
            await run("/sessions delete nowhere", conversation)


async def test_sessions_can_only_be_listed_during_a_run(project: ScriptedProject) -> None:
    async with project.open() as conversation:
        project.model.will_say("yes")
        run_of_it = conversation.send("one")
        with pytest.raises(UsageError, match="has to wait"):
            await run(f"/sessions {conversation.session_id}", conversation)
        assert await run("/sessions", conversation)
        await run_of_it
