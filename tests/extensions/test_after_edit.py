"""`[[after_edit]]`: commands after edits of the model."""

import re

from dirge_py.types.messages import ToolResultMessage
from tests.support.project import ScriptedProject
from tests.support.typed_commands import run_command

QUIET = "[loop.gates]\nverifier = 0\nresume = 0\n"
FORMAT = "sed -i s/bad/good/ {path}"
TABLES = f"""{QUIET}
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


async def test_command_runs_once_the_rule_in_its_notice_is_stored(project: ScriptedProject):
    project.configure(QUIET + '[[after_edit]]\nmatch = "*.py"\ncommand = "touch ran {path}"\n')
    project.model.will_call("write", path="a.py", content="x\n").will_say("ok")
    project.model.will_call("write", path="b.py", content="x\n").will_say("ok")
    async with project.open() as conversation:
        seen: list[str] = []
        conversation.subscribe(lambda event: seen.append(str(getattr(event, "content", ""))))
        await conversation.send("go")
        assert not (project.folder / "ran").exists()
        [notice] = [text for text in seen if "[[after_edit]] `touch ran a.py` was not run" in text]
        await run_command(re.findall("`(/allow add .*)`", notice)[0], conversation)
        await conversation.send("go on")
        assert (project.folder / "ran").exists()


async def test_file_name_is_never_an_option(project: ScriptedProject):
    project.configure(QUIET + '[[after_edit]]\nmatch = "*.py"\ncommand = "cat {path}; false"\n')
    project.model.will_call("write", path="--help.py", content="mine\n").will_say("ok")
    async with project.open() as conversation:
        conversation.settings.set_mode("yolo")
        await conversation.send("go")
    assert "`cat ./--help.py; false` failed (exit 1).]\nmine" in tool_results(project)[0]
