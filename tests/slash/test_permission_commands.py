"""/why about what was decided, and /allow."""

from pathlib import Path

import pytest

from dirge_py.slash.permission import allow, why
from dirge_py.types.errors import UsageError
from dirge_py.types.questions import PermissionAnswer
from tests.conversation.room import Room


class Screen:
    def __init__(self) -> None:
        self.shown: list[str] = []

    def show(self, text: str, *, tone: str = "plain") -> None:
        self.shown.append(text)


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Room:
    room = Room(tmp_path)
    monkeypatch.chdir(room.project)
    return room


async def test_why_lists_what_was_decided_and_explains_one(room: Room) -> None:
    room.person.answer = PermissionAnswer(effect="deny", comment="not now")
    room.model.will_call("list_dir", path=".").will_call("bash", command="make x").will_say("ok")
    screen = Screen()

    async with room.open() as talk:
        await why("", talk, screen)  # type: ignore[arg-type]
        await talk.send("go")
        await why("", talk, screen)  # type: ignore[arg-type]
        await why(" 2 ", talk, screen)  # type: ignore[arg-type]
        with pytest.raises(UsageError):
            await why("9", talk, screen)  # type: ignore[arg-type]
        await why("bash make x", talk, screen)  # type: ignore[arg-type]
        with pytest.raises(UsageError):
            await why("bash", talk, screen)  # type: ignore[arg-type]

    nothing, listing, one, now = screen.shown
    assert nothing == "No decisions yet."
    assert [line.split()[:3] for line in listing.splitlines()[1:3]] == [
        ["1", "allow", "list_dir"], ["2", "deny", "bash"],
    ]  # fmt: skip
    assert one.splitlines()[1] == "deny: not now [answer]"
    assert "the rules said ask: " in one
    assert "execute make x" in one
    assert now.splitlines()[1].startswith("ask: ")


async def test_allow_adds_lists_and_takes_back(room: Room) -> None:
    screen = Screen()

    async with room.open() as talk:
        await allow("add 'execute:make *'", talk, screen)  # type: ignore[arg-type]
        await allow("", talk, screen)  # type: ignore[arg-type]
        with pytest.raises(UsageError):
            await allow("remove 9", talk, screen)  # type: ignore[arg-type]
        assert [str(grant) for grant in talk.settings.grants] == ["execute:make *"]
        await allow("remove 1", talk, screen)  # type: ignore[arg-type]

    assert "1  execute:make *" in screen.shown[1]
    assert "Nothing is allowed" in screen.shown[2]


async def test_a_rule_that_could_open_nothing_is_refused_with_the_reason(room: Room) -> None:
    screen = Screen()
    async with room.open() as talk:
        with pytest.raises(UsageError, match=r"allow nothing: \.git is protected"):
            await allow("add edit:.git/**", talk, screen)  # type: ignore[arg-type]
        assert talk.settings.grants == ()
