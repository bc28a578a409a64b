import pytest

from dirge_py.types.errors import ConfigError
from dirge_py.types.messages import ToolResultMessage
from tests.support.project import ScriptedProject


def results(conversation) -> list[str]:
    return [m.text for m in conversation.messages if isinstance(m, ToolResultMessage)]


async def test_call_over_the_limit_of_its_tool_is_refused_and_other_tools_run(
    project: ScriptedProject,
) -> None:
    project.configure("[tools]\nmost_calls = { list_dir = 2 }\n")
    for name in ("a", "b", "c"):
        (project.folder / name).mkdir()
        project.model.will_call("list_dir", path=name)
    project.model.will_call("glob", pattern="*").will_say("Done.")
    async with project.open() as conversation:
        await conversation.send("look")

    *ran, refused, found = results(conversation)
    assert refused == (
        "Not run: `list_dir` may be called 2 times in one run, and was. "
        "Don't call it again: continue with what you have, or use another tool."
    )
    assert not [text for text in (*ran, found) if "Not run" in text]
    # The list of tools stays unchanged, so that the service's cache stays valid.
    first, *later = [seen.tools for seen in project.model.seen]
    assert all(tools == first for tools in later)


async def test_tool_call_limit_is_per_run_and_counts_each_call_of_a_batch(
    project: ScriptedProject,
) -> None:
    project.configure("[tools]\nmost_calls = { list_dir = 1 }\n")
    (project.folder / "a").mkdir()
    for _ in range(2):
        project.model.will_call_all(("list_dir", {"path": "."}), ("list_dir", {"path": "a"}))
        project.model.will_say("Done.")
    async with project.open() as conversation:
        await conversation.send("look")
        await conversation.send("look again")

    refused = [text.startswith("Not run") for text in results(conversation)]
    assert refused == [False, True, False, True]


async def test_limit_for_an_unknown_tool_suggests_the_nearest_name(
    project: ScriptedProject,
) -> None:
    project.configure("[tools]\nmost_calls = { webserch = 1 }\n")
    with pytest.raises(ConfigError) as error:
        async with project.open():
            pass
    assert error.value.hint == "Did you mean `websearch`?"
