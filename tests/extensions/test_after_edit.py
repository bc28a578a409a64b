"""`[[after_edit]]`: commands after edits of the model."""

from dirge_py.types.messages import ToolResultMessage
from tests.support.project import ScriptedProject

FORMAT = "sed -i s/bad/good/ {path}"
TABLES = f"""
[loop.gates]
verifier = 0
resume = 0

[[after_edit]]
match = "*.py"
command = "{FORMAT}"

[[after_edit]]
match = ["src/**", "*.py"]
command = "test ! -e {{path}} || {{ echo line 1 is wrong; false; }}"
"""


def tool_results(project: ScriptedProject) -> list[str]:
    messages = project.model.seen[-1].messages
    return [m.text for m in messages if isinstance(m, ToolResultMessage)]


async def test_failures_and_changes_of_commands_are_added_to_the_result(project: ScriptedProject):
    project.configure(TABLES)
    project.model.will_call("write", path="a.py", content="bad\n")
    project.model.will_call("edit", path="a.py", old_text="good", new_text="best").will_say("ok")
    project.model.will_call("write", path="notes.txt", content="bad\n").will_say("ok")
    async with project.open() as conversation:
        conversation.settings.set_mode("yolo")
        await conversation.send("go")
        written, edited = tool_results(project)
        assert "`sed -i s/bad/good/ a.py` changed the file" in written
        assert "-bad" in written
        assert "+good" in written
        assert "failed (exit 1).]\nline 1 is wrong" in written
        # The change counts as read, so the next edit works.
        assert (project.folder / "a.py").read_text() == "best\n"
        assert "failed (exit 1)" in edited

        await conversation.send("go on")
        assert "After the edit" not in tool_results(project)[-1]
        assert (project.folder / "notes.txt").read_text() == "bad\n"


async def test_command_that_the_rules_do_not_allow_is_not_run(project: ScriptedProject):
    project.configure('[[after_edit]]\nmatch = "*.py"\ncommand = "touch ran"\n')
    project.model.will_call("write", path="a.py", content="x\n").will_say("ok")
    async with project.open() as conversation:
        seen: list[str] = []
        conversation.subscribe(lambda event: seen.append(str(getattr(event, "content", ""))))
        await conversation.send("go")
    assert not (project.folder / "ran").exists()
    assert any("[[after_edit]] `touch ran` was not run" in text for text in seen)
