"""The todo list of a conversation: written by the model, shown to the user, stored."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, cast, get_args

from dirge_py.lib.lean_dataclass import dataclass

TodoStatus = Literal["pending", "in_progress", "done"]


_MARKS: Mapping[TodoStatus, str] = {"pending": "[ ]", "in_progress": "[~]", "done": "[x]"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TodoItem:
    """One item of the list; `id` is unique in it."""

    id: str
    text: str
    status: TodoStatus = "pending"


StoredItems = Sequence[Mapping[str, str]]


class TodoList:
    """The items in order. `on_change` is called with the stored form after every change."""

    def __init__(self, on_change: Callable[[StoredItems], None] | None = None) -> None:
        self.on_change = on_change
        self._items: tuple[TodoItem, ...] = ()
        self._is_given = False

    @property
    def items(self) -> tuple[TodoItem, ...]:
        return self._items

    def open_items(self) -> list[str]:
        """Return the texts of the open items, those in progress first.

        Empty for a list that was given to the model and not yet changed by it.
        """
        statuses = () if self._is_given else ("in_progress", "pending")
        return [item.text for each in statuses for item in self._items if item.status == each]

    def as_text(self) -> str:
        """Return one line per item with its mark, as `[x] write the test`; "" for an empty list."""
        return "\n".join(f"{_MARKS[item.status]} {item.text}" for item in self._items)

    def put(self, items: Sequence[TodoItem], *, is_given: bool = False) -> None:
        """Replace the whole list. `on_change` is only called if it differs."""
        if (self._items, self._is_given) == (tuple(items), is_given):
            return
        self._items, self._is_given = tuple(items), is_given
        if self.on_change is not None:
            self.on_change(self.stored())

    def give(self, items: Sequence[TodoItem]) -> None:
        """Replace the list with one that the model did not write."""
        self.put(items, is_given=True)

    def stored(self) -> list[dict[str, str]]:
        """Return the items as JSON values."""
        given = {"given": "yes"} if self._is_given else {}
        return [
            {"id": item.id, "text": item.text, "status": item.status, **given}
            for item in self._items
        ]

    def load(self, stored: Any) -> None:
        """Load what `stored` returned. Invalid items are skipped; `on_change` is not called."""
        entries = stored if isinstance(stored, Sequence) and not isinstance(stored, str) else ()
        items = [item for item in map(_load_item, entries) if item is not None]
        self._items = tuple({item.id: item for item in items}.values())
        self._is_given = any(isinstance(e, Mapping) and e.get("given") == "yes" for e in entries)


def _load_item(entry: Any) -> TodoItem | None:
    if not isinstance(entry, Mapping):
        return None
    item_id, text, status = (entry.get(name) for name in ("id", "text", "status"))
    if not (isinstance(item_id, str) and isinstance(text, str) and item_id and text):
        return None
    is_known = status in get_args(TodoStatus)
    return TodoItem(id=item_id, text=text, status=cast(TodoStatus, status)) if is_known else None
