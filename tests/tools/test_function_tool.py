"""A typed function as a tool: its schema, its claims, its results."""

import asyncio
import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel

from dirge_py.agent_loop.cancellation import timeout_interceptor
from dirge_py.agent_loop.merge import compose
from dirge_py.files.workspace import Workspace
from dirge_py.guards.tool_hooks import hide_unavailable_tools
from dirge_py.testing import EventRecorder, ScriptedModel
from dirge_py.tools.base import ToolContext, ToolServices
from dirge_py.tools.function_tool import FunctionTool, tool
from dirge_py.tools.toolbox import Toolbox, check_result
from dirge_py.types.errors import ModelRetry, ToolFailed
from dirge_py.types.events import LoopEvent, ToolExecutionUpdate
from dirge_py.types.hooks import LoopConfig
from dirge_py.types.tools import (
    Claim,
    LoopTool,
    LoopToolResult,
    Proceed,
    ShellCommand,
    ToolCall,
    structured_result,
    text_result,
)
from tests.support.loop_runs import LoopRun, run_loop
from tests.support.tool_arguments import OperationTool

MakeToolbox = Callable[..., Toolbox]


@pytest.fixture
def make_toolbox(tmp_path: Path) -> Any:
    workspace = Workspace([tmp_path], tmp_path)

    def make(*tools: FunctionTool[..., Any], app: Any = None) -> Toolbox:
        return Toolbox(tools, ToolServices(files=workspace, app=app), str(tmp_path))

    yield make
    workspace.close()


def loop_tool_of(box: Toolbox) -> LoopTool:
    return box.loop_tools[0]


async def run_call(box: Toolbox, name: str, /, **arguments: Any) -> LoopRun:
    """A run in which the model calls the tool once."""
    model = ScriptedModel().will_call(name, **arguments).will_say("done")
    config = LoopConfig(validate=box.validate, interceptors=[check_result])
    return await run_loop(model, "go", tools=box.loop_tools, config=config)


@tool(op="read")
async def lookup(
    key: Annotated[str, "What to look up."], table: Annotated[str, "Where."] = "main"
) -> str:
    """Look up a value by key."""
    return f"{table}[{key}]"


def test_a13_annotations_become_schema(make_toolbox: MakeToolbox) -> None:
    found = loop_tool_of(make_toolbox(lookup))

    assert (found.name, found.description) == ("lookup", "Look up a value by key.")
    assert found.parameters == {
        "additionalProperties": False,
        "properties": {
            "key": {"description": "What to look up.", "type": "string"},
            "table": {"default": "main", "description": "Where.", "type": "string"},
        },
        "required": ["key"],
        "type": "object",
    }


async def test_a13_call_without_required_argument_is_invalid_and_does_not_run(
    make_toolbox: MakeToolbox,
) -> None:
    reached: list[str] = []

    @tool
    async def probe(key: str) -> str:
        reached.append(key)
        return key

    run = await run_call(make_toolbox(probe), "probe", table="x")

    assert run.outcomes == ["invalid"]
    assert "key" in run.results[0].text
    assert reached == []


async def test_a13_string_result_is_returned_unchanged(make_toolbox: MakeToolbox) -> None:
    run = await run_call(make_toolbox(lookup), "lookup", key="a")
    assert run.results[0].text == "main[a]"
    assert run.outcomes == ["ok"]


async def test_result_that_is_not_a_string_becomes_json(make_toolbox: MakeToolbox) -> None:
    class Place(BaseModel):
        city: str
        at: tuple[float, float]

    @tool
    async def locate(name: str) -> Place:
        return Place(city=f"Zürich {name}", at=(47.4, 8.5))

    run = await run_call(make_toolbox(locate), "locate", name="HB")

    assert run.results[0].text == '{"city": "Zürich HB", "at": [47.4, 8.5]}'
    assert run.results[0].details["structured"] == {"city": "Zürich HB", "at": [47.4, 8.5]}


async def test_function_may_return_tool_result(make_toolbox: MakeToolbox) -> None:
    @tool
    async def fail() -> object:
        return text_result("no such row", outcome="error", is_error=True)

    run = await run_call(make_toolbox(fail), "fail")
    assert (run.results[0].text, run.results[0].is_error) == ("no such row", True)


async def test_result_that_is_not_json_is_tool_error(make_toolbox: MakeToolbox) -> None:
    @tool
    async def odd() -> object:
        return object()

    run = await run_call(make_toolbox(odd), "odd")
    assert run.outcomes == ["error"]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ModelRetry("Give a date, as 2026-01-31."), "invalid"),
        (ToolFailed("The table is locked; wait."), "error"),
        (LookupError("no row"), "error"),
    ],
)
async def test_exception_message_is_tool_result(
    make_toolbox: MakeToolbox, error: Exception, outcome: str
) -> None:
    @tool
    async def refuse() -> str:
        raise error

    run = await run_call(make_toolbox(refuse), "refuse")
    assert (run.results[0].text, run.outcomes) == (str(error), [outcome])


async def test_arguments_are_converted_to_annotated_types(make_toolbox: MakeToolbox) -> None:
    class Row(BaseModel):
        id: int

    seen: list[Any] = []

    @tool
    async def put(rows: list[Row], how: Literal["add", "replace"] = "add") -> str:
        seen.extend([rows, how])
        return "ok"

    run = await run_call(make_toolbox(put), "put", rows=[{"id": 1}])

    assert run.outcomes == ["ok"]
    assert seen == [[Row(id=1)], "add"]


async def test_sync_function_runs_in_thread(make_toolbox: MakeToolbox) -> None:
    @tool
    def where(signal: str) -> str:
        return f"{signal} {threading.current_thread() is threading.main_thread()}"

    run = await run_call(make_toolbox(where), "where", signal="x")
    assert run.results[0].text == "x False"


async def test_context_parameter_is_passed_and_not_in_schema(make_toolbox: MakeToolbox) -> None:
    @tool
    async def greet(name: str, ctx: ToolContext) -> str:
        ctx.progress("half-way")
        return f"{ctx.app} {name} {ctx.call_id}"

    box = make_toolbox(greet, app="Hello")
    run = await run_call(box, "greet", name="Ada")

    assert list(loop_tool_of(box).parameters["properties"]) == ["name"]
    assert run.results[0].text == "Hello Ada greet#0"
    updates = [e for e in run.events if e.type == "tool_execution_update"]
    assert len(updates) == 1


async def test_context_parameter_is_found_by_annotation(make_toolbox: MakeToolbox) -> None:
    @tool
    def greet(call: ToolContext) -> str:
        return call.call_id

    run = await run_call(make_toolbox(greet), "greet")
    assert run.results[0].text == "greet#0"


@pytest.mark.parametrize(
    ("op", "resource", "argument", "claim"),
    [
        ("other", None, "x", Claim("other", "act")),
        ("network", None, "x", Claim("network", "act")),
        ("network", "on", "https://example.org:8080/a?b", Claim("network", "example.org")),
        ("network", "on", "example.org", Claim("network", "example.org")),
        # Other URL parsers find another host here than ours.
        (
            "network",
            "on",
            r"http://evil.org\@example.org/",
            Claim("network", r"http://evil.org\@example.org/"),
        ),
        ("network", "on", "http://[::1", Claim("network", "http://[::1")),
        ("execute", "on", "make test", Claim("execute", ShellCommand("make test", "{cwd}"))),
        ("read", None, "x", Claim("read", "{cwd}/act")),
        ("edit", "on", "a/b.txt", Claim("edit", "{cwd}/a/b.txt")),
        ("memory", "on", "notes", Claim("memory", "notes")),
    ],
)
def test_call_claims_operation_on_resource(
    make_toolbox: MakeToolbox,
    tmp_path: Path,
    op: Any,
    resource: str | None,
    argument: str,
    claim: Claim,
) -> None:
    @tool(op=op, resource=resource)
    async def act(on: str) -> str:
        return on

    [claimed] = loop_tool_of(make_toolbox(act)).claims({"on": argument})

    expected = repr(claim).replace("{cwd}", str(tmp_path))
    assert repr(claimed) == expected


def test_name_description_and_mode_can_be_set() -> None:
    @tool(name="find-row", description="Finds it.", mode="sequential")
    async def f(key: str) -> str:
        return key

    assert (f.name, f.description, f.mode) == ("find-row", "Finds it.", "sequential")


async def test_decorated_function_can_still_be_called() -> None:
    assert await lookup("a", table="b") == "b[a]"


def many(*keys: str) -> str:
    return ""


def unnamed(key) -> str:  # type: ignore[no-untyped-def]
    return ""


def strange(key: threading.Thread) -> str:
    return ""


@pytest.mark.parametrize(
    ("function", "why"), [(many, "a name of its own"), (unnamed, "no annotation"), (strange, "")]
)
def test_function_that_cannot_be_a_tool_is_type_error_with_reason(function: Any, why: str) -> None:
    with pytest.raises(TypeError, match=f"`{function.__name__}` cannot be a tool.*{why}"):
        tool(function)


def test_resource_must_be_a_parameter() -> None:
    with pytest.raises(TypeError, match="no parameter 'url'"):

        @tool(op="network", resource="url")
        async def fetch(link: str) -> str:
            return link


def test_invalid_tool_name_is_type_error() -> None:
    with pytest.raises(TypeError, match="cannot be named 'no spaces'"):
        tool(name="no spaces")(lookup)


async def test_a26_unavailable_tool_is_hidden_and_its_call_gives_reason(
    make_toolbox: MakeToolbox,
) -> None:
    state = {"ready": "its service is down"}
    reached: list[str] = []

    @tool(available=lambda: state["ready"] or True)
    async def remote(key: str) -> str:
        reached.append(key)
        return key

    box = make_toolbox(remote, lookup)
    model = ScriptedModel().will_call("remote", key="k").will_say("done")
    config = LoopConfig(validate=box.validate)
    run = await run_loop(
        model, "go", tools=box.loop_tools, config=compose(hide_unavailable_tools(), config=config)
    )

    assert [tool.name for tool in model.seen[0].tools] == ["lookup"]
    assert "its service is down" in run.results[0].text
    assert reached == []

    state["ready"] = ""
    again = await run_call(box, "remote", key="k")
    assert (again.outcomes, reached) == (["ok"], ["k"])


async def test_a14_interceptors_of_tool_run_in_order_for_that_tool_only(
    make_toolbox: MakeToolbox,
) -> None:
    trace: list[str] = []

    async def outer(call: ToolCall, proceed: Proceed) -> LoopToolResult:
        trace.append(f"outer {call.name}")
        result = await proceed()
        trace.append("outer ends")
        return result

    async def inner(call: ToolCall, proceed: Proceed) -> LoopToolResult:
        trace.append("inner")
        return await proceed()

    @tool(around=[outer, inner])
    async def echo(text: str) -> str:
        trace.append("tool")
        return text

    box = make_toolbox(echo, lookup)
    await run_call(box, "echo", text="x")
    await run_call(box, "lookup", key="k")

    assert trace == ["outer echo", "inner", "tool", "outer ends"]
    assert box.loop_tools[0].chain == ["outer", "inner"]


async def test_a16_tool_has_its_own_timeout(make_toolbox: MakeToolbox) -> None:
    @tool(timeout_s=0.05)
    async def slow() -> str:
        await asyncio.Event().wait()
        return "never"

    box = make_toolbox(slow)
    model = ScriptedModel().will_call("slow").will_say("done")
    config = LoopConfig(validate=box.validate, interceptors=[timeout_interceptor(60, {})])
    run = await run_loop(model, "go", tools=box.loop_tools, config=config)

    assert run.outcomes == ["timeout"]
    assert "0.05 s" in run.results[0].text


def exit_process() -> str:
    sys.exit(3)


def raise_stop_iteration() -> str:
    return str(next(iter(())))


class UnprintableError(Exception):
    def __str__(self) -> str:
        return "the order is not ready"

    def __repr__(self) -> str:
        raise ValueError


def fail_unprintably() -> str:
    raise UnprintableError


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (exit_process, "SystemExit"),
        (raise_stop_iteration, "StopIteration"),
        (fail_unprintably, "the order is not ready"),
    ],
)
async def test_exit_or_stop_iteration_in_tool_is_tool_error(
    make_toolbox: MakeToolbox, function: Callable[[], str], error: str
) -> None:
    async with asyncio.timeout(10):
        run = await run_call(make_toolbox(tool(function)), function.__name__)

    assert run.outcomes == ["error"]
    assert error in run.results[0].text


async def test_a27_progress_is_emitted_while_tool_runs(make_toolbox: MakeToolbox) -> None:
    go_on = threading.Event()
    seen: list[object] = []

    @tool
    def count(ctx: ToolContext) -> str:
        ctx.progress("half", 1, 2)
        go_on.wait(10)
        return f"{ctx.session_id}|{ctx.budget_chars}"

    class Watching(EventRecorder):
        def __call__(self, event: LoopEvent) -> None:
            super().__call__(event)
            if isinstance(event, ToolExecutionUpdate):
                seen.append(event.partial_result.details)
                go_on.set()

    box = make_toolbox(count)
    model = ScriptedModel().will_call("count").will_say("done")
    run = await run_loop(
        model,
        "go",
        tools=box.loop_tools,
        config=LoopConfig(validate=box.validate),
        recorder=Watching(),
    )

    assert run.results[0].text == "|80000"
    assert seen == [{"outcome": "ok", "done": 1, "total": 2}]


# -- structured results


class Station(BaseModel):
    city: str
    platforms: int


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.mark.parametrize("schema", [SCHEMA, Station])
async def test_result_matching_output_schema_is_structured_and_json_text(
    make_toolbox: MakeToolbox, schema: Any
) -> None:
    value = {"n": 1} if schema is SCHEMA else Station(city="Oslo", platforms=19)

    @tool(output_schema=schema)
    def look() -> Any:
        """Look."""
        return value

    [result] = (await run_call(make_toolbox(look), "look")).results

    plain = {"n": 1} if schema is SCHEMA else {"city": "Oslo", "platforms": 19}
    assert (result.is_error, result.details["structured"]) == (False, plain)
    assert json.loads(result.text) == plain


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        ({"n": "one"}, "n: 'one' is not of type 'integer'"),
        ({}, "`n` is required"),
        ("some text", "is not of type 'object'"),
        (text_result("no value"), "it has no structured value"),
    ],
)
async def test_result_not_matching_output_schema_is_error_with_full_result(
    make_toolbox: MakeToolbox, returned: Any, words: str
) -> None:
    @tool(output_schema=SCHEMA)
    def look() -> Any:
        """Look."""
        return returned

    [result] = (await run_call(make_toolbox(look), "look")).results

    assert (result.is_error, result.details["outcome"]) == (True, "error")
    assert words in result.text and "The call of `look` was made" in result.text
    shown = returned.text if isinstance(returned, LoopToolResult) else returned
    assert result.text.endswith(shown if isinstance(shown, str) else json.dumps(shown))


async def test_json_string_is_parsed_for_output_schema(make_toolbox: MakeToolbox) -> None:
    @tool(output_schema=SCHEMA)
    def look() -> str:
        """Look."""
        return '{"n": 2}'

    [result] = (await run_call(make_toolbox(look), "look")).results

    assert (result.details["structured"], result.text) == ({"n": 2}, '{"n": 2}')


async def test_string_that_is_not_strict_json_stays_text(make_toolbox: MakeToolbox) -> None:
    @tool(output_schema={"type": "string"})
    def look() -> str:
        """Look."""
        return "NaN"

    [result] = (await run_call(make_toolbox(look), "look")).results

    assert (result.is_error, result.details["structured"]) == (False, "NaN")


async def test_tool_errors_are_not_checked_against_output_schema(make_toolbox: MakeToolbox) -> None:
    @tool(output_schema=SCHEMA)
    def look() -> Any:
        """Look."""
        raise ToolFailed("There is nothing. Look elsewhere.")

    [result] = (await run_call(make_toolbox(look), "look")).results

    assert result.text == "There is nothing. Look elsewhere."


async def test_structured_result_has_its_own_text_for_model(make_toolbox: MakeToolbox) -> None:
    @tool(output_schema=SCHEMA, title="Look around")
    def look() -> LoopToolResult:
        """Look."""
        return structured_result({"n": 3}, "Three of them.")

    box = make_toolbox(look)
    [result] = (await run_call(box, "look")).results

    assert (result.text, result.details["structured"]) == ("Three of them.", {"n": 3})
    assert loop_tool_of(box).label == "Look around"


@pytest.mark.parametrize(
    ("details", "is_error"),
    [({"structured": {"n": 1}}, False), ({"structured": 1}, True), ({}, True)],
)
async def test_output_schema_of_loop_tool_is_checked(
    details: dict[str, Any], is_error: bool
) -> None:
    class Counting(OperationTool):
        output_schema = SCHEMA

        async def execute(self, *args: Any) -> LoopToolResult:
            return text_result("one", **details)

    model = ScriptedModel().will_call("count").will_say("done")
    tool = Counting("count", parameters={"type": "object"}, ops=["read"])
    config = LoopConfig(interceptors=[check_result])
    [result] = (await run_loop(model, "go", tools=[tool], config=config)).results

    assert result.is_error is is_error
    assert ("The call of `count` was made" in result.text) is is_error


def test_invalid_result_limit_is_type_error() -> None:
    with pytest.raises(TypeError, match="`max_result_chars` of `look` must be at least 1"):

        @tool(max_result_chars=0)
        def look() -> str:
            """Look."""
            return ""


def test_invalid_output_schema_is_type_error() -> None:
    with pytest.raises(TypeError, match="The output schema of `look` cannot be used"):

        @tool(output_schema={"type": "objekt"})
        def look() -> Any:
            """Look."""
