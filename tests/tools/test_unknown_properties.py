"""Unknown properties: a call that changes something never runs with a property dropped."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from typing_extensions import TypedDict

from dirge_py.agent_loop import LoopConfig
from dirge_py.agent_loop.tool_calls import prepare_call
from dirge_py.files.workspace import Workspace
from dirge_py.processes.environment import EnvironmentPolicy
from dirge_py.processes.runner import Runner, Shells
from dirge_py.tools.base import Hints, ToolServices
from dirge_py.tools.function_tool import tool
from dirge_py.tools.todo_list import TodoList
from dirge_py.tools.toolbox import Toolbox, discover_tools
from dirge_py.types.messages import ToolCallBlock
from dirge_py.types.tools import ToolCall
from tests.security.sizes import size
from tests.support.loop_runs import run_loop
from tests.support.tool_arguments import asking

BASES: Mapping[str, Mapping[str, Any]] = {
    "write": {"path": "log.txt", "content": "new\n"},
    "edit": {"path": "log.txt", "edits": [{"old_text": "old", "new_text": "new"}]},
    "apply_patch": {"operations": [{"action": "create", "path": "b", "content": "new"}]},
    "bash": {"command": "touch made"},
    "todo": {"items": [{"id": "1", "text": "a", "status": "pending"}]},
    "kill_shell": {"id": "sh1"},
    "bash_output": {"id": "sh1"},
}
NAMES = """mode overwrite append count occurrence position line env stdin host dry_run dryRun force
workdir cwd directory timeout_ms run_in_background description explanation reason title thought
comment note text data file encoding priority activeForm tool_call_id prompt"""
SCALARS = st.none() | st.booleans() | st.integers(-3, 10**6) | st.text(max_size=8)
VALUES = SCALARS | st.lists(SCALARS, max_size=2) | st.dictionaries(st.text(max_size=4), SCALARS)
DECORATIONS = {
    "explanation", "reason", "reasoning", "rationale", "justification", "why", "thought",
    "thoughts", "thinking", "intent", "purpose", "goal", "activeform", "toolcallid",
    "tooluseid", "callid",
}  # fmt: skip
LABELS = {"description", "title", "summary", "instruction", "instructions"}


class ChangingTools:
    """The changing tools in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runner = Runner(EnvironmentPolicy())
        self.services = ToolServices(
            files=Workspace([folder], folder),
            processes=self.runner,
            shells=Shells(self.runner),
            todo=TodoList(),
        )
        self.toolbox = Toolbox(discover_tools(), self.services, str(folder))

    def prepared(self, name: str, arguments: Any, *more: Any) -> ToolCall:
        tools = [*self.toolbox.loop_tools, *Toolbox(more, self.services, "/w").loop_tools]
        block = ToolCallBlock(id="1", name=name, arguments=deepcopy(arguments))
        return prepare_call(block, tools, self.toolbox.validate)


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChangingTools]:
    made = ChangingTools(tmp_path_factory.mktemp("w"))
    yield made
    made.services.files.close()


def with_extra(arguments: Mapping[str, Any], place: int, name: str, value: Any) -> dict[str, Any]:
    """A copy with one more property, at the top (0) or in an item of its list."""
    copy: dict[str, Any] = deepcopy(dict(arguments))
    lists = [each for each in copy.values() if isinstance(each, list)]
    target = lists[0][0] if place and lists else copy
    target.setdefault(name, value)
    return copy


@given(
    st.sampled_from(sorted(BASES)), st.integers(0, 1),
    st.sampled_from(NAMES.split()) | st.text(min_size=1, max_size=10), VALUES,
)  # fmt: skip
@settings(max_examples=size(150, 5000), deadline=None)
def test_unknown_property_of_changing_call_is_used_or_rejected_or_decorative(
    tools: ChangingTools, name: str, place: int, extra: str, value: Any
) -> None:
    base = tools.prepared(name, BASES[name])
    assert base.problem is None
    given_arguments = with_extra(BASES[name], place, extra, value)
    call = tools.prepared(name, given_arguments)
    if call.problem is not None or call.arguments != base.arguments:
        return  # refused, or carried into what runs
    plain = extra.replace("_", "").replace("-", "").lower()
    is_same = given_arguments == BASES[name]
    is_top = extra in given_arguments
    allowed = DECORATIONS | (LABELS if is_top and name in ("write", "edit", "bash", "apply_patch")
                             else set())  # fmt: skip
    assert is_same or value is None or (isinstance(value, str) and plain in allowed)


@pytest.mark.parametrize(
    ("name", "extra"),
    [
        ("write", {"overwrite": False}),
        ("write", {"append": True}),
        ("write", {"mode": "a"}),
        ("write", {"encoding": "latin-1"}),
        ("bash", {"env": {"DEBUG": "1"}}),
        ("bash", {"stdin": "yes"}),
        ("bash", {"host": "staging"}),
        ("bash", {"dry_run": "true"}),
        ("bash", {"description": {"dry_run": True}}),
        ("bash", {"cwd": "a", "directory": "b"}),
    ],
)
async def test_call_with_unknown_property_changes_nothing(tmp_path, name, extra):
    kit = ChangingTools(tmp_path)
    log = tmp_path / "log.txt"
    log.write_text("old\n")
    run = await run_loop(
        asking(("read", {"path": "log.txt"}), (name, {**BASES[name], **extra})),
        "go",
        tools=kit.toolbox.loop_tools,
        config=LoopConfig(validate=kit.toolbox.validate),
    )

    assert run.outcomes == ["ok", "invalid"]
    assert log.read_text() == "old\n"
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("extra", [{"count": 0}, {"occurrence": "last"}, {"position": "before"}])
async def test_edit_with_unknown_position_property_changes_nothing(tmp_path, extra):
    kit = ChangingTools(tmp_path)
    (tmp_path / "a").write_text("one\n")
    edit = {"path": "a", "old_text": "one", "new_text": "two", **extra}
    run = await run_loop(
        asking(("read", {"path": "a"}), ("edit", edit)),
        "go",
        tools=kit.toolbox.loop_tools,
        config=LoopConfig(validate=kit.toolbox.validate),
    )

    name = next(iter(extra))
    assert run.results[1].text.startswith(
        f"`edit` has no property `{name}`. Its properties: `path`, `old_text`, `new_text`, "
        "`replace_all`, `edits`. Nothing was run and nothing was changed"
    )
    assert (tmp_path / "a").read_text() == "one\n"


class Item(BaseModel):
    name: str


class Row(TypedDict):
    name: str


@tool
def order(item: Item, rows: list[Row] | None = None, by_shop: dict[str, Item] | None = None) -> str:
    """Order something."""
    return item.name


@tool(op="read", resource="path")
def look(path: str, item: Item | None = None) -> str:
    """Look."""
    return path


@tool(hints=Hints(read_only=True))
def count(item: Item) -> str:
    """Count."""
    return item.name


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        ({"item": {"name": "x", "amount": 0}}, "item.amount"),
        ({"item": {"name": "x"}, "rows": [{"name": "y", "amount": 2}]}, "rows[0].amount"),
        ({"item": {"name": "x"}, "amount": ""}, "amount"),
        ({"item": {"name": "x"}, "by_shop": {"a": {"name": "y", "amount": 2}}}, "by_shop.a.amount"),
    ],
)
def test_unknown_property_of_function_tool_is_rejected_with_path(tools, arguments, place):
    call = tools.prepared("order", arguments, order)
    assert call.problem_text.startswith(f"`order` has no property `{place}`. ")


@pytest.mark.parametrize(("reader", "more"), [(look, {"path": "a"}), (count, {})])
def test_read_only_tool_drops_unknown_property_with_note(tools, reader, more):
    call = tools.prepared(reader.name, {**more, "item": {"name": "x", "amount": 0}}, reader)
    assert call.arguments == {**more, "item": {"name": "x"}}
    assert "ignored `amount`" in call.notes[0]
