"""Calls as other agents make them, with the real tools."""

import pytest

from dirge_py.types.messages import AssistantMessage, ToolResultMessage
from dirge_py.types.outcomes import Done
from tests.support.project import ScriptedProject


async def result_of(project: ScriptedProject, name: str, **arguments: object) -> ToolResultMessage:
    """The result of one call, in a run without questions."""
    project.model.will_call(name, **arguments).will_say("done")
    async with project.open() as conversation:
        conversation.settings.set_mode("yolo")
        assert isinstance(await conversation.send("go"), Done)
        [result] = [m for m in conversation.messages if isinstance(m, ToolResultMessage)]
    return result


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("Read", {"file_path": "a.txt", "offset": 1, "limit": 5}, "one"),
        ("read_file", {"absolute_path": "a.txt"}, "one"),
        ("Bash", {"command": "cat a.txt", "description": "Show it", "timeout": 30_000}, "one"),
        ("shell", {"command": ["bash", "-lc", "cat a.txt | tr o 0"], "workdir": "."}, "0ne"),
        ("shell", {"command": ["cat a.txt | tr o 0"]}, "0ne"),
        ("shell", {"command": ["echo", "a  b", "*"]}, "a  b *"),
        ("run_shell_command", {"command": "cat a.txt", "directory": "."}, "one"),
        ("Grep", {"pattern": "on", "glob": "*.txt", "output_mode": "content"}, "a.txt"),
        ("search_file_content", {"pattern": "on", "include": "*.txt"}, "a.txt"),
        ("Glob", {"pattern": "*.txt"}, "a.txt"),
        ("LS", {"path": "."}, "a.txt"),
        ("list_directory", {"dir_path": "."}, "a.txt"),
    ],
)
async def test_tool_names_of_other_agents_read_and_run_as_requested(
    project: ScriptedProject, name: str, arguments: dict[str, object], words: str
) -> None:
    (project.folder / "a.txt").write_text("one\n")
    result = await result_of(project, name, **arguments)
    assert (result.is_error, words in result.text) == (False, True), result.text


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("Write", {"file_path": "new.txt", "content": "two\n"}),
        ("write_file", {"file_path": "new.txt", "content": "two\n"}),
    ],
)
async def test_tool_names_of_other_agents_write_a_file(
    project: ScriptedProject, name: str, arguments: dict[str, object]
) -> None:
    result = await result_of(project, name, **arguments)
    assert not result.is_error, result.text
    assert (project.folder / "new.txt").read_text() == "two\n"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("Edit", {"file_path": "a.txt", "old_string": "one", "new_string": "two"}),
        ("replace", {"file_path": "a.txt", "old_string": "one", "new_string": "two"}),
        (
            "MultiEdit",
            {"file_path": "a.txt", "edits": [{"old_string": "one", "new_string": "two"}]},
        ),
    ],
)
async def test_tool_names_of_other_agents_edit_a_file(
    project: ScriptedProject, name: str, arguments: dict[str, object]
) -> None:
    (project.folder / "a.txt").write_text("one\n")
    project.model.will_call("read", path="a.txt")
    project.model.will_call(name, **arguments).will_say("done")

    async with project.open() as conversation:
        conversation.settings.set_mode("yolo")
        await conversation.send("go")

    assert (project.folder / "a.txt").read_text() == "two\n"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        (
            "TodoWrite",
            {
                "todos": [
                    {"content": "look", "status": "completed", "activeForm": "Looking"},
                    {"content": "write", "status": "in_progress", "activeForm": "Writing"},
                ]
            },
        ),
        (
            "update_plan",
            {
                "explanation": "next step",
                "plan": [
                    {"step": "look", "status": "completed"},
                    {"step": "write", "status": "in_progress"},
                ],
            },
        ),
        (
            "write_todos",
            {
                "todos": [
                    {"description": "look", "status": "completed"},
                    {"description": "write", "status": "in_progress"},
                ]
            },
        ),
    ],
)
async def test_todo_items_without_ids_are_numbered(
    project: ScriptedProject, name: str, arguments: dict[str, object]
) -> None:
    result = await result_of(project, name, **arguments)
    assert result.details["items"] == [
        {"id": "1", "text": "look", "status": "done"},
        {"id": "2", "text": "write", "status": "in_progress"},
    ]


async def test_update_plan_with_text_instead_of_a_list_is_invalid(project: ScriptedProject) -> None:
    result = await result_of(project, "update_plan", plan="first look, then write")
    assert (result.is_error, result.details["outcome"]) == (True, "invalid")


async def test_permission_rules_match_the_resolved_tool_name(project: ScriptedProject) -> None:
    rule = '[[permission.rule]]\nop = "execute"\nmatch = "touch *"\neffect = "deny"\n'
    project.configure(rule)
    result = await result_of(project, "Bash", command="touch made.txt")
    assert result.details["outcome"] == "denied"
    assert not (project.folder / "made.txt").exists()


async def test_session_stores_the_resolved_tool_name(project: ScriptedProject) -> None:
    (project.folder / "a.txt").write_text("one\n")
    await result_of(project, "Read", file_path="a.txt")

    assert '"Read"' not in project.journal.read_text()
    async with project.open("newest") as conversation:
        [name] = [
            call.name
            for message in conversation.messages
            if isinstance(message, AssistantMessage)
            for call in message.calls
        ]
    assert name == "read"
