"""The `todo` tool: keeps a todo list."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from dirge_py.lib.text import plural
from dirge_py.tools.arguments import ToolArgs
from dirge_py.tools.base import SessionTool, ToolContext, rename_keys
from dirge_py.tools.todo_list import TodoItem, TodoStatus
from dirge_py.types.errors import ToolFailed
from dirge_py.types.tools import LoopToolResult, text_result

MOST_ITEMS = 50

_MARKS: dict[TodoStatus, str] = {"done": "[x]", "in_progress": "[>]", "pending": "[ ]"}
_OTHER_STATUSES = {
    **dict.fromkeys(("completed", "complete", "finished"), "done"),
    **dict.fromkeys(("in-progress", "in progress", "doing", "active"), "in_progress"),
    **dict.fromkeys(("todo", "open"), "pending"),
}
"""Words that models use for the statuses."""
_ITEM_NAMES = {
    **dict.fromkeys(("content", "title", "task", "step", "description"), "text"),
    "state": "status",
}
"""Names that other agents use for these properties."""


def _known_status(value: Any) -> Any:
    return _OTHER_STATUSES.get(value.lower(), value.lower()) if isinstance(value, str) else value


def _as_text(value: Any) -> Any:
    return str(value) if type(value) is int else value


class TodoItemArgs(ToolArgs):
    id: Annotated[str, BeforeValidator(_as_text), Field(min_length=1, max_length=40)] = Field(
        description="Short and unique, such as 1."
    )
    text: str | None = Field(None, max_length=500, description="What is to be done.")
    status: Annotated[TodoStatus, BeforeValidator(_known_status)] | None = None


class TodoArgs(ToolArgs):
    items: list[TodoItemArgs] | None = Field(None, max_length=MOST_ITEMS)
    merge: bool = Field(False, description="Change or add these items, keep the others.")


class TodoTool(SessionTool[TodoArgs]):
    name = "todo"
    label = "Todo"
    args = TodoArgs
    mode = "sequential"
    needs = ("todo",)

    def prepare(self, arguments: Any) -> Any:
        arguments = rename_keys(arguments, dict.fromkeys(("todos", "tasks", "plan"), "items"))
        if not isinstance(arguments, dict) or not isinstance(arguments.get("items"), list):
            return arguments
        items = [rename_keys(each, _ITEM_NAMES) for each in arguments["items"]]
        has_no_ids = all(isinstance(item, dict) and "id" not in item for item in items)
        if has_no_ids and not arguments.get("merge"):
            # Lists of other agents have no ids and are always whole.
            items = [{"id": str(number), **item} for number, item in enumerate(items, 1)]
        return {**arguments, "items": items}

    async def run(self, args: TodoArgs, ctx: ToolContext) -> LoopToolResult:
        todo = ctx.services.todo
        assert todo is not None
        if args.items is not None:
            todo.put(_changed_items(todo.items, args))
        return text_result(_report(todo.items), items=todo.stored())


TOOL = TodoTool()


def _changed_items(current: Sequence[TodoItem], args: TodoArgs) -> list[TodoItem]:
    changes = args.items or ()
    times = Counter(item.id for item in changes)
    if repeated := [item_id for item_id, number in times.items() if number > 1]:
        raise ToolFailed(f"Ids that come twice: {_list_ids(repeated)}. Nothing was changed.")
    items = {item.id: item for item in current} if args.merge else {}
    nameless = [item.id for item in changes if item.id not in items and not _text_of(item)]
    if nameless and not args.merge:
        raise ToolFailed(
            f"Items without `text`: {_list_ids(nameless)}. Nothing was changed. Give each its "
            "text, or set `merge` to change items that are on the list."
        )
    if nameless:
        known = f"On the list: {_list_ids(list(items))}." if items else "The list is empty."
        raise ToolFailed(
            f"There is no item {_list_ids(nameless)}. Nothing was changed. {known} "
            "A new item needs `text`."
        )
    for item in changes:
        old = items.get(item.id) or TodoItem(id=item.id, text="")
        text, status = _text_of(item) or old.text, item.status or old.status
        items[item.id] = TodoItem(id=item.id, text=text, status=status)
    if len(items) > MOST_ITEMS:
        raise ToolFailed(
            f"That would be {len(items)} items, and at most {MOST_ITEMS} are allowed. Nothing was "
            "changed. Combine several into one, or replace the list without the done items."
        )
    return list(items.values())


def _text_of(item: TodoItemArgs) -> str:
    return " ".join((item.text or "").split())


def _report(items: Sequence[TodoItem]) -> str:
    if not items:
        return "The todo list is empty."
    counts = Counter(item.status for item in items)
    parts = [f"{counts[each]} {each.replace('_', ' ')}" for each in _MARKS if counts[each]]
    lines = [f"{plural(len(items), 'item')}: {', '.join(parts)}."]
    lines += [f"{_MARKS[item.status]} {item.id}: {item.text}" for item in items]
    if counts["in_progress"] > 1:
        lines.append("More than one is in progress: finish all but one, or set them to pending.")
    return "\n".join(lines)


def _list_ids(ids: Sequence[str]) -> str:
    return ", ".join(f"`{item_id}`" for item_id in ids)
