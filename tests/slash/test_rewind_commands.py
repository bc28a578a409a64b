"""`/rewind`, `/undo`, `/redo`, `/retry`, `/tree`, `/fork`, `/clone`, `/sessions`, as typed."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from dirge_py import slash
from dirge_py.conversation.conversation import Conversation
from dirge_py.frontend.print.print_mode import PrintFront
from dirge_py.session.tree import SessionTree, TreeNode
from dirge_py.slash.base import Choice, Unsupported
from dirge_py.slash.registry import discover
from dirge_py.slash.rewind import draw_tree
from dirge_py.types.errors import DirgeError, UsageError
from dirge_py.types.questions import Question, QuestionAnswer
from tests.conversation.room import Room
from tests.session.rewind.kept import desk

COMMANDS = discover(slash)


class Screen(PrintFront):
    """A front end behind which somebody picks the line with a word, and options by their label."""

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


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Room:
    room = Room(tmp_path)
    monkeypatch.chdir(room.project)
    return room


async def run(line: str, talk: Conversation, *answers: str | Sequence[str] | None) -> Screen:
    screen = Screen(*answers)
    typed = COMMANDS.read(line)
    assert typed is not None
    await COMMANDS.run(typed, talk, screen)
    assert screen.answers == []
    return screen


async def test_rewind_shows_what_would_change_and_does_what_is_chosen(room: Room) -> None:
    async with desk(room) as d:
        d.edit(a="one\n", mine="one\n")
        await d.prompt("the first", "printf 'two\\nthree\\n' > a; echo x > b")
        d.edit(mine="my own\n")
        await d.prompt("the second", "echo y >> mine")

        screen = await run("/rewind", d.talk, "the first", "conversation and files", ["mine"])

        assert screen.asked[0] == "(current) | stay here"
        assert screen.asked[1].startswith("the second | just now, 1 file changed since")
        preview = screen.asked[3]
        assert "8 messages stay on another branch" in preview
        assert "  ~ a  +1 -2" in preview
        assert "  - b" in preview
        assert "Changed by you since, and kept unless you choose them:\n  ~ mine" in preview
        assert screen.input == "the first"
        assert "3 files put back: a, b, mine" in screen.text
        assert d.files == {"a": "one\n", "mine": "one\n"}


@pytest.mark.parametrize("answers", [("(current)",), (None,), ("one", "cancel"), ("one", None)])
async def test_who_would_rather_stay_stays(room: Room, answers: tuple[str | None, ...]) -> None:
    async with room.open() as talk:
        room.model.will_say("yes")
        await talk.send("one")
        screen = await run("/rewind", talk, *answers)
        assert (len(talk.messages), screen.input) == (2, "")


async def test_undo_asks_once_if_files_change_and_not_otherwise(room: Room) -> None:
    async with desk(room) as d:
        await d.prompt("make it", "echo x > a")
        assert (await run("/undo", d.talk, "cancel")).input == ""
        assert d.files == {"a": "x\n"}

        screen = await run("/undo", d.talk, "go back")
        assert (screen.input, d.files) == ("make it", {})
        assert "1 file put back: a" in screen.text

        screen = await run("/redo", d.talk)
        assert d.files == {"a": "x\n"}
        await d.prompt("only talk")
        assert (await run("/retry", d.talk)).input == "only talk"


async def test_n_goes_back_so_many_prompts(room: Room) -> None:
    async with room.open() as talk:
        for prompt in ("one", "two", "three"):
            room.model.will_say("yes")
            await talk.send(prompt)
        with pytest.raises(UsageError, match="1 to 3"):
            await run("/rewind 4", talk)
        screen = await run("/rewind 2", talk, "only the conversation")
        assert (screen.input, len(talk.messages)) == ("two", 2)


@pytest.mark.parametrize("line", ["/rewind", "/rewind 7", "/undo", "/retry", "/fork", "/clone"])
async def test_where_nothing_was_said_there_is_nothing_to_go_back_to(room: Room, line: str) -> None:
    async with room.open() as talk:
        with pytest.raises(DirgeError, match="here is nothing to go back to"):
            await run(line, talk)


@pytest.mark.parametrize("number", ["0", "3", "one", "9" * 5000])
async def test_there_are_only_so_many_prompts_to_go_back(room: Room, number: str) -> None:
    room.model.will_say("a").will_say("b")
    async with room.open() as talk:
        for prompt in ("one", "two"):
            await talk.send(prompt)
        with pytest.raises(UsageError, match="1 to 2"):
            await run(f"/rewind {number}", talk)


async def test_fork_and_clone_take_an_id_or_let_pick(room: Room) -> None:
    async with room.open() as talk:
        for prompt in ("one", "two"):
            room.model.will_say(f"re {prompt}")
            await talk.send(prompt)
        shown = (await run("/tree", talk)).text.splitlines()
        assert (await run("/branch", talk, "two")).input == "two"
        assert len(talk.messages) == 2
        text = (await run(f"/tree {shown[1].split()[1]}", talk)).text
        assert text.startswith("The session is at that point now.")
        assert len(talk.messages) == 4
        await run("/clone", talk, "re one")
        assert len(talk.messages) == 2
        with pytest.raises(DirgeError, match="no message 'zzz'"):
            await run("/clone zzz", talk)


async def test_the_tree_marks_where_you_are_and_sets_in_what_was_left(room: Room) -> None:
    async with room.open() as talk:
        for prompt in ("one", "two\x1b[31m"):
            room.model.will_say("yes")
            await talk.send(prompt)
        await talk.timeline.undo()
        room.model.will_say("yes")
        await talk.send("other")

        lines = (await run("/tree", talk)).text.splitlines()

        names = talk.timeline.tree().names
        assert [line.split()[0] for line in lines[:3]] == list(names[:3])
        texts = [line[2 + len(names[0]) + 2 :].removesuffix("  just now") for line in lines]
        assert [text.strip() for text in texts[:1]] == ["one"]
        assert texts[1].startswith("├─ two")
        assert "\x1b" not in "".join(lines)
        assert texts[2].startswith("↩ undo: two")
        assert lines[3].startswith("▸ ")
        assert "other" in lines[3]


def test_a_thousand_branches_are_drawn_without_running_out_of_stack_or_width() -> None:
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
async def test_nothing_moves_during_a_run(room: Room, line: str) -> None:
    async with room.open() as talk:
        room.model.will_say("yes")
        run_of_it = talk.send("one")
        with pytest.raises(UsageError, match="has to wait"):
            await run(line, talk)
        await run_of_it


async def test_sessions_takes_an_id_or_words_of_a_title(room: Room) -> None:
    ids: list[str] = []
    for prompt in ("mend the parser", "write the docs"):
        async with room.open() as talk:
            room.model.will_say("yes")
            await talk.send(prompt)
            ids.append(talk.session_id or "")
    async with room.open() as talk:
        for line, answers in ((f"/sessions {ids[0]}", ()), ("/resume PARSER mend", ("parser",))):
            screen = Screen(*answers)
            typed = COMMANDS.read(line)
            assert typed is not None
            with pytest.raises(Unsupported):
                await COMMANDS.run(typed, talk, screen)
            assert screen.opened == ids[0]
        assert "title contains 'nothing'" in (await run("/sessions nothing", talk)).text


async def test_e11_the_current_session_is_deleted_and_a_fresh_one_begins(room: Room) -> None:
    class Leaving(Screen):
        async def open(self, session_id: str | None) -> Conversation:
            assert session_id is None
            await talk.close()
            self.opened = "new"
            return talk

    async with room.open() as talk:
        room.model.will_say("yes")
        await talk.send("mend the parser")
        gone = talk.session_id or ""
        assert (await run("/sessions delete", talk, "keep it")).text == "Nothing was deleted."
        assert f"▸ {gone}" in (await run("/sessions list", talk)).text
        assert gone in (await run("/sessions current", talk)).text

        screen = Leaving("delete it")
        typed = COMMANDS.read(f"/sessions delete {gone}")
        assert typed is not None
        await COMMANDS.run(typed, talk, screen)

        assert "mend the parser" in screen.asked[0]
        assert screen.opened == "new"
        assert f"--undo {gone}" in screen.text
        assert "no stored sessions" in (await run("/sessions list", talk)).text


async def test_another_session_is_deleted_and_this_one_stays(room: Room) -> None:
    async with room.open() as talk:
        room.model.will_say("yes")
        await talk.send("one")
        other = talk.session_id or ""
    async with room.open() as talk:
        room.model.will_say("yes")
        await talk.send("two")
        screen = await run(f"/sessions delete {other}", talk, "delete it")

        assert screen.opened == ""
        assert [one.id for one in talk.session.list_sessions()] == [talk.session_id]
        with pytest.raises(DirgeError, match="no session 'nowhere'"):
            await run("/sessions delete nowhere", talk)


async def test_during_a_run_sessions_are_only_listed(room: Room) -> None:
    async with room.open() as talk:
        room.model.will_say("yes")
        run_of_it = talk.send("one")
        assert await run("/sessions", talk)
        with pytest.raises(UsageError, match="has to wait"):
            await run(f"/sessions {talk.session_id}", talk)
        await run_of_it
