"""The `plugins` list of a prompt, in a conversation as the product builds it."""

from pathlib import Path
from textwrap import dedent

import pytest

from dirge_py.context.prompts import PromptBook, prompts_in_bytes
from dirge_py.conversation.conversation import Conversation
from dirge_py.testing import EventRecorder
from dirge_py.types.errors import ConfigError
from dirge_py.types.events import SystemNotice
from dirge_py.types.messages import ToolResultMessage
from dirge_py.types.questions import PermissionAnswer
from tests.support.project import ScriptedProject

LOUD = '''
def register(dirge):
    @dirge.on("before_prompt_build")
    def shout(sections):
        return dirge.prompt(append="SHOUT.")

    @dirge.on("before_tool_call")
    async def keep_out(info, call):
        return dirge.refuse("Not while loud.") if call.name == "list_dir" else None

    @dirge.tool
    async def horn(key: str) -> str:
        """Blow the horn."""
        return f"blew {key}"
'''


@pytest.fixture
def loud(project: ScriptedProject) -> ScriptedProject:
    """A project with one plugin, whose user allows every request."""
    config = project.folder.parent / "config"
    write(config / "plugins" / "loud.py", LOUD)
    for name, plugins in (("quiet", "[]"), ("noisy", "[loud]"), ("typo", "[lout]")):
        write(config / "prompts" / f"{name}.md", f"---\nplugins: {plugins}\n---\nBe {name}.")
    project.user.answer = PermissionAnswer(effect="allow")
    return project


def write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(dedent(text))


def results(conversation: Conversation) -> list[str]:
    return [m.text for m in conversation.messages if isinstance(m, ToolResultMessage)]


async def run(project: ScriptedProject, conversation: Conversation) -> tuple[str, bool, list[str]]:
    """The system prompt, whether the plugin's tool was offered, and the results of two calls."""
    project.model.will_call_all(("list_dir", {"path": "."}), ("horn", {"key": "x"}))
    project.model.will_say("Done.")
    before = len(results(conversation))
    await conversation.send("go")
    seen = project.model.seen[-2]
    is_offered = "horn" in [tool.name for tool in seen.tools]
    return str(seen.system_prompt), is_offered, results(conversation)[before:]


async def test_prompt_with_empty_plugins_list_turns_user_plugins_off(
    loud: ScriptedProject,
) -> None:
    async with loud.open() as conversation:
        for prompt in (None, "noisy"):
            conversation.settings.choose_prompt(prompt)
            sections, is_offered, answers = await run(loud, conversation)
            assert "SHOUT." in sections
            assert is_offered
            assert answers == ["Not while loud.", "blew x"]

        conversation.settings.choose_prompt("quiet")
        sections, is_offered, answers = await run(loud, conversation)
        assert "SHOUT." not in sections
        assert not is_offered
        assert "Not while loud." not in answers[0]
        assert answers[1].startswith("`horn` is not available: its plugin is off now.")


async def test_unknown_plugin_in_a_prompt_is_reported_with_the_nearest_name(
    loud: ScriptedProject,
) -> None:
    recorder = EventRecorder()
    async with loud.open() as conversation:
        conversation.subscribe(recorder)
        conversation.settings.choose_prompt("typo")
        await run(loud, conversation)
    notices = [notice.content for notice in recorder.of(SystemNotice)]
    text = "The prompt typo names the plugin `lout`, which doesn't exist. Did you mean `loud`?"
    assert text in notices


async def test_prompt_may_name_tools_of_plugins_however_similar_to_built_in_ones(
    loud: ScriptedProject,
) -> None:
    config = loud.folder.parent / "config"
    write(config / "plugins" / "reading.py", LOUD.replace("horn", "Reader"))
    heads = {"tools": "allow_tools: [Reader, horn]", "typo": "deny_tools: [horm]"}
    for name, head in {**heads, "gone": "allow_tools: [read, deploy]"}.items():
        write(config / "prompts" / f"{name}.md", f"---\n{head}\n---\nBe {name}.")
    recorder = EventRecorder()
    async with loud.open() as conversation:
        conversation.subscribe(recorder)
        conversation.settings.choose_prompt("tools")
        loud.model.will_call("Reader", key="x").will_say("Done.")
        await conversation.send("go")
        assert [tool.name for tool in loud.model.seen[0].tools] == ["horn", "Reader"]
        assert results(conversation) == ["blew x"]

        with pytest.raises(ConfigError) as raised:
            conversation.settings.choose_prompt("typo")
        assert raised.value.hint == "Did you mean `horn`?"

        conversation.settings.choose_prompt("gone")
        loud.model.will_say("Done.")
        await conversation.send("go")
    [notice] = [n.content for n in recorder.of(SystemNotice) if "gone" in n.content]
    assert "The prompt gone names tools that don't exist: `deploy`. There are: " in notice
    assert "glob, grep, horn, " in notice


def test_project_prompt_cannot_turn_off_user_plugins() -> None:
    files = prompts_in_bytes({"p/x.md": b"---\nplugins: []\n---\nQuiet."})
    with pytest.raises(ConfigError, match="a project's prompt cannot choose your `plugins`"):
        PromptBook(files).choose("x")
