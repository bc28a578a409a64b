"""Names of tools as models write them."""

import pytest

from dirge_py.testing import ScriptedModel
from dirge_py.types.events import RepairStats, ToolExecutionEnd, ToolExecutionStart
from dirge_py.types.hooks import LoopConfig
from dirge_py.types.messages import AssistantMessage
from tests.support.loop_runs import LoopRun, Tool, run_loop

BUILT_IN = [
    *("read", "write", "edit", "grep", "glob", "list_dir", "find_files", "todo"),
    *("bash", "bash_output", "kill_shell", "webfetch", "websearch"),
]


async def calling(name: str, tools: list[Tool]) -> LoopRun:
    """A run whose model calls `name` once."""
    model = ScriptedModel().will_call(name).will_say("done")
    return await run_loop(model, "go", tools=tools)


def ran(tools: list[Tool]) -> list[str]:
    return [tool.name for tool in tools if tool.ran]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        # another spelling
        ("READ", "read"),
        (" read\n", "read"),
        ("List_Dir", "list_dir"),
        ("list-dir", "list_dir"),
        ("ListDir", "list_dir"),
        # the notation of a service
        ("functions.read", "read"),
        ("functions.read:0", "read"),
        ("default_api.read", "read"),
        ("default_api:read", "read"),
        ("tools.read", "read"),
        ("read<|channel|>commentary", "read"),
        ("functions.Bash", "bash"),
        # Claude Code
        ("Read", "read"),
        ("Bash", "bash"),
        ("Edit", "edit"),
        ("MultiEdit", "edit"),
        ("Write", "write"),
        ("Grep", "grep"),
        ("Glob", "glob"),
        ("LS", "list_dir"),
        ("TodoWrite", "todo"),
        ("WebFetch", "webfetch"),
        ("WebSearch", "websearch"),
        ("BashOutput", "bash_output"),
        ("KillShell", "kill_shell"),
        # Codex
        ("shell", "bash"),
        ("local_shell", "bash"),
        ("update_plan", "todo"),
        # Gemini CLI
        ("run_shell_command", "bash"),
        ("read_file", "read"),
        ("write_file", "write"),
        ("list_directory", "list_dir"),
        ("replace", "edit"),
        ("search_file_content", "grep"),
        ("google_web_search", "websearch"),
        ("web_fetch", "webfetch"),
    ],
)
async def test_tool_name_with_one_meaning_is_resolved_to_that_tool(
    written: str, meant: str
) -> None:
    tools = [Tool(name) for name in BUILT_IN]
    run = await calling(written, tools)
    assert (ran(tools), run.outcomes) == ([meant], ["ok"])


async def test_history_events_and_hooks_contain_the_resolved_tool_name() -> None:
    tool, judged = Tool("bash"), list[str]()
    config = LoopConfig(before_tool_call=lambda _, call: judged.append(call.name))
    model = ScriptedModel().will_call("Bash").will_say("done")

    run = await run_loop(model, "go", tools=[tool], config=config)

    answer = run.new[1]
    assert isinstance(answer, AssistantMessage)
    assert [call.name for call in answer.calls] == ["bash"]
    assert (judged, [result.tool_name for result in run.results]) == (["bash"], ["bash"])
    assert [event.tool_name for event in run.recorder.of(ToolExecutionStart)] == ["bash"]
    assert [event.tool_name for event in run.recorder.of(ToolExecutionEnd)] == ["bash"]
    assert run.recorder.of(RepairStats) == [RepairStats(counts={"tool_name": 1})]


async def test_resolving_a_tool_name_keeps_other_blocks_of_the_answer() -> None:
    model = ScriptedModel().will_call_all(("Read", {"a": 1}), ("echo", {}), text="I look.")
    run = await run_loop(model.will_say("done"), "go", tools=[Tool("read"), Tool()])

    answer = run.new[1]
    assert isinstance(answer, AssistantMessage) and answer.text == "I look."
    assert [(call.name, call.arguments) for call in answer.calls] == [
        ("read", {"a": 1}),
        ("echo", {}),
    ]


@pytest.mark.parametrize("name", ["read_file", "Read", "shell", "update_plan", "list_files"])
async def test_tool_with_the_exact_name_is_preferred(name: str) -> None:
    tools = [*(Tool(each) for each in BUILT_IN), Tool(name)]
    run = await calling(name, tools)
    assert (ran(tools), run.outcomes) == ([name], ["ok"])


@pytest.mark.parametrize(
    ("written", "tools", "words"),
    [
        ("view_file", ["read", "read_file"], "Did you mean `read` or `read_file`?"),
        ("WebFetch", ["webfetch", "web_fetch"], "Did you mean `webfetch` or `web_fetch`?"),
        (
            "read_file",
            ["read", "mcp__fs__read_file"],
            "Did you mean `read` or `mcp__fs__read_file`?",
        ),
        ("open_issue", ["mcp__a__open_issue", "mcp__b__open_issue"], "Did you mean `mcp__a"),
        ("list_files", ["list_dir", "glob", "find_files"], "Did you mean `list_dir` or `glob`?"),
        ("list_files", ["glob", "read"], "Did you mean `glob`?"),
        # An available tool with a related name need not do the same.
        ("run_shell_command", ["shell"], "There are: shell."),
        ("mcp__files__read", ["read", "bash"], "There are: bash, read."),
        (" ", ["read"], "There are: read."),
    ],
)
async def test_ambiguous_tool_name_runs_no_tool(written: str, tools: list[str], words: str) -> None:
    available = [Tool(name) for name in tools]
    run = await calling(written, available)
    assert (ran(available), run.outcomes) == ([], ["unknown_tool"])
    assert words in run.results[0].text
    assert run.results[0].tool_name == written


@pytest.mark.parametrize(
    "written",
    [
        "functions.mcp__github__open_issue",
        "mcp_github_open_issue",
        "github__open_issue",
        "github.open_issue",
        "open_issue",
    ],
)
async def test_server_tool_is_found_without_parts_of_its_prefix(written: str) -> None:
    tools = [Tool("read"), Tool("mcp__github__open_issue")]
    await calling(written, tools)
    assert ran(tools) == ["mcp__github__open_issue"]


async def test_unavailable_tool_is_not_reached_by_another_name() -> None:
    tools = [Tool("read")]
    run = await calling("Write", tools)
    assert (ran(tools), run.outcomes) == ([], ["unknown_tool"])
