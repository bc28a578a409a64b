"""`/why` for past decisions, and `/allow`."""

import pytest

from dirge_py.slash.permission import allow, why
from dirge_py.types.errors import UsageError
from dirge_py.types.questions import PermissionAnswer
from tests.support.project import ScriptedProject


class RecordingFront:
    def __init__(self) -> None:
        self.shown: list[str] = []

    def show(self, text: str, *, tone: str = "plain") -> None:
        self.shown.append(text)


async def test_why_lists_past_decisions_and_explains_one(project: ScriptedProject) -> None:
    project.user.answer = PermissionAnswer(effect="deny", comment="not now")
    project.model.will_call("list_dir", path=".").will_call("bash", command="make x").will_say("ok")
    screen = RecordingFront()

    async with project.open() as conversation:
        await why.run("", conversation, screen)  # type: ignore[arg-type]
        await conversation.send("go")
        await why.run("", conversation, screen)  # type: ignore[arg-type]
        await why.run(" 2 ", conversation, screen)  # type: ignore[arg-type]
        for no_decision in ("9", "²"):
            with pytest.raises(UsageError):
                await why.run(no_decision, conversation, screen)  # type: ignore[arg-type]
        await why.run("bash make x", conversation, screen)  # type: ignore[arg-type]
        with pytest.raises(UsageError):
            await why.run("bash", conversation, screen)  # type: ignore[arg-type]

    nothing, listing, one, now = screen.shown
    assert nothing == "No decisions yet."
    assert [line.split()[:3] for line in listing.splitlines()[1:3]] == [
        ["1", "allow", "list_dir"], ["2", "deny", "bash"],
    ]  # fmt: skip
    assert one.splitlines()[1] == "deny: not now [answer]"
    assert "the rules said ask: " in one
    assert "execute make x" in one
    assert now.startswith("ask: ")


async def test_allow_adds_lists_and_removes_grants(project: ScriptedProject) -> None:
    screen = RecordingFront()

    async with project.open() as conversation:
        await allow.run("add 'execute:make *'", conversation, screen)  # type: ignore[arg-type]
        await allow.run("", conversation, screen)  # type: ignore[arg-type]
        for no_grant in ("9", "²"):
            with pytest.raises(UsageError):
                await allow.run(f"remove {no_grant}", conversation, screen)  # type: ignore[arg-type]
        assert [str(grant) for grant in conversation.settings.grants] == ["execute:make *"]
        await allow.run("remove 1", conversation, screen)  # type: ignore[arg-type]

    assert "1  execute:make *" in screen.shown[1]
    assert "Mode standard: edits workspace files; asks before commands" in screen.shown[1]
    assert "Nothing is allowed" in screen.shown[2]


async def test_allow_rule_for_protected_path_is_refused(
    project: ScriptedProject,
) -> None:
    screen = RecordingFront()
    async with project.open() as conversation:
        with pytest.raises(UsageError, match=r"allow nothing: \.git is protected"):
            await allow.run("add edit:.git/**", conversation, screen)  # type: ignore[arg-type]
        assert conversation.settings.grants == ()
