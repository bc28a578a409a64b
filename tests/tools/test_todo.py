from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.files.workspace import Workspace
from dirge_py.tools.base import ToolServices
from dirge_py.tools.todo import TOOL
from dirge_py.tools.todo_list import TodoItem, TodoList
from dirge_py.tools.toolbox import Toolbox
from dirge_py.types.abort import AbortSignal
from dirge_py.types.tools import Claim
from tests.security.sizes import size


class TodoDriver:
    """The todo tool with its list, called as the loop calls it."""

    def __init__(self, folder: Path):
        self.stored = []
        self.list = TodoList(on_change=self.stored.append)
        self.toolbox = Toolbox(
            [TOOL], ToolServices(files=Workspace([folder], folder), todo=self.list), str(folder)
        )
        (self.tool,) = self.toolbox.loop_tools

    async def call(self, **arguments):
        valid = self.toolbox.validate(self.tool, self.tool.prepare_arguments(arguments))
        return await self.tool.execute("call", valid, AbortSignal(), lambda partial: None)

    async def text(self, *items, **more):
        result = await self.call(items=list(items), **more)
        assert not result.is_error, result.text
        return result.text

    async def refusal(self, *items, **more):
        result = await self.call(items=list(items), **more)
        assert result.is_error, result.text
        return result.text


@pytest.fixture
def driver(tmp_path):
    return TodoDriver(tmp_path)


def item(item_id, text="do it", status="pending"):
    return {"id": item_id, "text": text, "status": status}


async def test_todo_list_is_replaced_and_shown(driver):
    shown = await driver.text(
        item("1", "read", "done"), item("2", "write", "in_progress"), item("3")
    )
    assert shown.splitlines() == [
        "3 items: 1 done, 1 in progress, 1 pending.",
        "[x] 1: read",
        "[>] 2: write",
        "[ ] 3: do it",
    ]
    assert await driver.text(item("9")) == "1 item: 1 pending.\n[ ] 9: do it"
    assert await driver.text() == "The todo list is empty."


async def test_todo_without_arguments_shows_list(driver):
    await driver.text(item("1"))
    assert (await driver.call()).text == "1 item: 1 pending.\n[ ] 1: do it"
    assert len(driver.stored) == 1


async def test_todo_merge_updates_given_adds_new_and_keeps_other_items(driver):
    await driver.text(item("1", "read"), item("2", "write"))
    await driver.text({"id": "1", "status": "done"}, {"id": "3", "text": "send"}, merge=True)
    assert driver.list.items == (
        TodoItem(id="1", text="read", status="done"),
        TodoItem(id="2", text="write"),
        TodoItem(id="3", text="send"),
    )
    await driver.text({"id": "2", "text": "write\nit  all"}, merge=True)
    assert driver.list.items[1] == TodoItem(id="2", text="write it all")


async def test_invalid_ids_are_named_and_list_is_unchanged(driver):
    await driver.text(item("1"))
    before = driver.list.items
    assert "`7`, `8`" in await driver.refusal({"id": "7"}, {"id": "8", "text": " "}, merge=True)
    assert "On the list: `1`" in await driver.refusal({"id": "7"}, merge=True)
    assert "twice: `1`" in await driver.refusal(item("1"), item("1", "again"))
    assert "twice: `1`" in await driver.refusal({"id": "1"}, {"id": "1"}, merge=True)
    assert "without `text`: `1`" in await driver.refusal({"id": "1", "status": "done"})
    assert driver.list.items == before


async def test_merge_into_empty_list_says_list_is_empty(driver):
    assert "The list is empty." in await driver.refusal({"id": "1", "status": "done"}, merge=True)


async def test_several_items_in_progress_give_advice(driver):
    assert "More than one" not in await driver.text(item("1", status="in_progress"))
    text = await driver.text(item("2", status="in_progress"), merge=True)
    assert text.endswith(
        "More than one is in progress: finish all but one, or set them to pending."
    )


async def test_argument_names_of_other_agents_are_accepted(driver):
    await driver.call(todos=[{"id": 1, "content": "read", "status": "Completed"}])
    await driver.call(todos=[{"content": "read", "status": "completed"}])  # numbered from 1
    await driver.call(tasks=[{"id": 2, "title": "b", "state": "in-progress"}], merge=True)
    assert driver.list.items == (
        TodoItem(id="1", text="read", status="done"),
        TodoItem(id="2", text="b", status="in_progress"),
    )


@pytest.mark.parametrize(
    "arguments",
    [
        {"items": "1"},
        {"items": [1]},
        {"items": [{"id": True, "text": "a"}]},
        {"items": [{"id": "", "text": "a"}]},
        {"items": [{"text": "a"}], "merge": True},
        {"items": [{"id": "1", "text": "a"}, {"text": "b"}]},
        {"items": [{"id": "1", "text": "a", "status": "later"}]},
        {"items": [{"id": "1", "text": "a", "status": 5}]},
        {"item": []},
    ],
)
async def test_invalid_arguments_are_rejected(driver, arguments):
    with pytest.raises(ValueError, match="`todo`"):
        await driver.call(**arguments)
    assert driver.stored == []


async def test_d59_more_than_fifty_items_are_refused_and_list_is_unchanged(driver):
    await driver.text(*(item(number) for number in range(1, 51)))
    with pytest.raises(ValueError, match="at most 50"):
        await driver.call(items=[item(number) for number in range(1, 52)])
    assert "51 items, and at most 50 are allowed" in await driver.refusal(item(51), merge=True)
    assert (len(driver.list.items), len(driver.stored)) == (50, 1)


async def test_todo_change_is_stored_once_and_can_be_loaded(driver):
    await driver.text(item("1", "read", "done"), item("2"))
    await driver.text(item("1", "read", "done"), item("2"))
    assert driver.stored == [[item("1", "read", "done"), item("2")]]
    again = TodoList()
    again.load(driver.stored[-1])
    assert again.items == driver.list.items


async def test_todo_result_details_contain_items(driver):
    result = await driver.call(items=[item("1")])
    assert result.details == {"outcome": "ok", "items": [item("1")]}


def test_open_items_start_with_item_in_progress():
    todo = TodoList()
    todo.put(
        [
            TodoItem(id="1", text="a"),
            TodoItem(id="2", text="b", status="done"),
            TodoItem(id="3", text="c", status="in_progress"),
        ]
    )
    assert todo.open_items() == ["c", "a"]


def test_todo_claims_meta_operation(driver):
    assert driver.tool.claims({}) == [Claim("meta", "todo")]


def test_todo_tool_is_not_offered_without_list(tmp_path):
    assert Toolbox([TOOL], ToolServices(files=Workspace([tmp_path], tmp_path)), "/").names == ()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["id", "text", "status", "x"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=size(33, 100))
@given(JSON)
def test_any_stored_value_can_be_loaded(stored):
    received = []
    todo = TodoList(on_change=received.append)
    todo.load(stored)
    assert received == []
    again = TodoList()
    again.load(todo.stored())
    assert again.items == todo.items
    assert len({each.id for each in todo.items}) == len(todo.items)


def test_seeded_list_has_no_open_items_until_model_updates_it() -> None:
    todo = TodoList()
    item = TodoItem(id="1", text="a")
    todo.give([item])
    assert (todo.as_text(), todo.open_items()) == ("[ ] a", [])
    again = TodoList()
    again.load(todo.stored())
    assert again.open_items() == []

    todo.put([item])
    assert todo.open_items() == ["a"]
