"""The `todo` tool: keeps a todo list."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from dirge_py.tools.base import SessionTool, ToolArgs, ToolContext, rename_keys
from dirge_py.tools.search.paths import count_noun
from dirge_py.tools.todo_list import TodoItem, TodoStatus
from dirge_py.types.errors import ToolFailed
from dirge_py.types.tools import LoopToolResult, text_result

MOST_ITEMS = 50

_MARKS: dict[TodoStatus, str] = {"done": "[x]", "in_progress": "[>]", "pending": "[ ]"}
_OTHER_STATUSES = {
    "completed": "done",
    "complete": "done",
    "finished": "done",
    "in-progress": "in_progress",
    "in progress": "in_progress",
    "doing": "in_progress",
    "active": "in_progress",
    "todo": "pending",
    "open": "pending",
}


def _as_text(value: Any) -> Any:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if is_number else value


def _known_status(value: Any) -> Any:
    return _OTHER_STATUSES.get(value.lower(), value.lower()) if isinstance(value, str) else value


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
    needs = ("todo",)

    def prepare(self, arguments: Any) -> Any:
        arguments = rename_keys(arguments, {"todos": "items", "tasks": "items"})
        if isinstance(arguments, dict) and isinstance(arguments.get("items"), list):
            names = {"content": "text", "title": "text", "task": "text", "state": "status"}
            return {**arguments, "items": [rename_keys(each, names) for each in arguments["items"]]}
        return arguments

    async def run(self, args: TodoArgs, ctx: ToolContext) -> LoopToolResult:
        todo = ctx.services.todo
        if todo is None:
            raise ToolFailed("There is no todo list here. Keep track in your answers.")
        if args.items is not None:
            todo.put(_merge_items(todo.items, args) if args.merge else _replace_items(args.items))
        return text_result(_report(todo.items), items=todo.stored())


TOOL = TodoTool()


def _replace_items(given: Sequence[TodoItemArgs]) -> list[TodoItem]:
    _check_ids(given)
    nameless = [item.id for item in given if not _text_of(item)]
    if nameless:
        raise ToolFailed(
            f"Items without `text`: {_list_ids(nameless)}. Nothing was changed. Give each its "
            "text, or set `merge` to change items that are on the list."
        )
    return [_item(item) for item in given]


def _merge_items(current: Sequence[TodoItem], args: TodoArgs) -> list[TodoItem]:
    given = args.items or ()
    _check_ids(given)
    merged = {item.id: item for item in current}
    unknown = [item.id for item in given if item.id not in merged and not _text_of(item)]
    if unknown:
        known = f"On the list: {_list_ids(list(merged))}." if merged else "The list is empty."
        raise ToolFailed(
            f"There is no item {_list_ids(unknown)}. Nothing was changed. {known} "
            "A new item needs `text`."
        )
    for item in given:
        old = merged.get(item.id)
        merged[item.id] = _item(item, old)
    if len(merged) > MOST_ITEMS:
        raise ToolFailed(
            f"That would be {len(merged)} items, and {MOST_ITEMS} are the most. Nothing was "
            "changed. Put several into one, or replace the list without what is done."
        )
    return list(merged.values())


def _check_ids(given: Sequence[TodoItemArgs]) -> None:
    ids = Counter(item.id for item in given)
    repeated = [item_id for item_id, times in ids.items() if times > 1]
    if repeated:
        raise ToolFailed(f"Ids that come twice: {_list_ids(repeated)}. Nothing was changed.")


def _item(given: TodoItemArgs, old: TodoItem | None = None) -> TodoItem:
    old = old or TodoItem(id=given.id, text="")
    return TodoItem(id=old.id, text=_text_of(given) or old.text, status=given.status or old.status)


def _text_of(given: TodoItemArgs) -> str:
    return " ".join((given.text or "").split())


def _report(items: Sequence[TodoItem]) -> str:
    if not items:
        return "The todo list is empty."
    counts = Counter(item.status for item in items)
    words = {"done": "done", "in_progress": "in progress", "pending": "pending"}
    parts = [f"{counts[status]} {words[status]}" for status in _MARKS if counts[status]]
    lines = [f"{count_noun(len(items), 'item')}: {', '.join(parts)}."]
    lines += [f"{_MARKS[item.status]} {item.id}: {item.text}" for item in items]
    if counts["in_progress"] > 1:
        lines.append("More than one is in progress: finish or set back all but one.")
    return "\n".join(lines)


def _list_ids(ids: Sequence[str]) -> str:
    return ", ".join(f"`{item_id}`" for item_id in ids)
