"""The branches of a session, and the points on them that the user can go back to.

The last record of a journal is the tip of the current branch. To continue from an earlier point, a
`branch` record with that point as its parent is appended; no record is moved or removed.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass as mutable
from dataclasses import field
from typing import Any, Literal

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.text import one_line
from dirge_py.session.codec import decode_message
from dirge_py.session.ids import prefixes
from dirge_py.session.record import Record, text_member
from dirge_py.types.errors import SessionError
from dirge_py.types.messages import (
    TYPED_ORIGINS,
    AssistantMessage,
    Message,
    TextBlock,
    ToolResultMessage,
    UserMessage,
)

SESSION_WIDE = frozenset({"model", "mode", "grant", "setting", "title"})
"""Records of choices for the whole session: the newest counts, on any branch."""
BRANCH_SETTINGS = frozenset({"todo", "plan", "files_read"})
"""Settings that depend on the messages, so each branch has its own."""
UNSENT_SETTINGS = frozenset({"draft", "queue"})
"""Settings that hold unsent input. A fork doesn't copy them, or the input would exist twice."""


def branch(records: Sequence[Record], at: str | None = None) -> list[Record]:
    """The branch up to `at` (None: the last), in order. Raises SessionError: no record `at`."""
    parents = _parents(records)
    here = len(records) - 1
    while at is not None and records[here].id != at:
        here -= 1
        if here < 0:
            raise SessionError(f"The session has no record {at!r}.")
    path = []
    while here >= 0:
        path.append(records[here])
        here = parents[here]
    path.reverse()
    return path


def _parents(records: Sequence[Record]) -> list[int]:
    """The index of each record's parent; -1 for the first one."""
    indexes: dict[str, int] = {}
    parents = []
    for index, record in enumerate(records):
        before = index - 1
        parents.append(before if record.parent is None else indexes.get(record.parent, before))
        indexes[record.id] = index
    return parents


def settings_at(records: Sequence[Record], at: str | None = None) -> Mapping[str, Any]:
    """The settings of the branch that ends `at` a record. Raises as `branch`."""
    return {
        record.data["name"]: record.data.get("value")
        for record in branch(records, at)
        if record.type == "setting" and _setting_name(record)
    }


def records_to_fork(records: Sequence[Record], at: str | None = None) -> list[Record]:
    """The records of a fork `at` a record: its branch, and the choices for the whole session.

    The choices come from all branches: a grant that was withdrawn on another stays withdrawn.
    Unsent input stays with the original.
    """
    path = {record.id for record in branch(records, at)}

    def is_copied(record: Record) -> bool:
        name = _setting_name(record)
        is_of_branch = record.type not in SESSION_WIDE or name in BRANCH_SETTINGS
        return name not in UNSENT_SETTINGS and (
            not is_of_branch or (record.id in path and record.type != "session")
        )

    return list(filter(is_copied, records))


def _setting_name(record: Record) -> str:
    return text_member(record.data, "name") if record.type == "setting" else ""


MOVE_RECORD = "move"
"""The type of the record of a move.

Its data: {"why", "from", "to", "what", "tree_before", "tree_after", "kept"}. `from` and `to` are
records; the branch continues after `to`.
"""
_SAID = frozenset({"user", "assistant"})
_TITLE_CHARS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class RewindPoint:
    """A message of a branch that the user can go to."""

    id: str
    """The id of its record."""
    seq: int
    """The number of its record."""
    at: str
    """When it was recorded (ISO 8601)."""
    role: Literal["user", "assistant"]
    """Who wrote it."""
    text: str
    """Its text, as typed."""
    before: str
    """The record to continue from without the message."""
    after: str
    """The record to continue from if the message is the last one: after its calls' results."""
    run_id: str = ""
    """The run that it started; "" if it came in the middle of one."""

    @property
    def is_prompt(self) -> bool:
        return self.role == "user"


@mutable(slots=True, kw_only=True)
class TreeNode:
    """A node of the tree: a prompt, or a move to another point."""

    id: str
    """The id of its record."""
    kind: Literal["prompt", "move"]
    """What it is."""
    at: str
    """When it was recorded (ISO 8601)."""
    text: str
    """The prompt, or the move in a few words."""
    above: int | None
    """The index of its parent; None for a root."""
    tip: str
    """The last record before the next node, where the answer to the prompt ends."""
    below: list[int] = field(default_factory=list)
    """The indexes of its children."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTree:
    """Every branch of a session."""

    nodes: tuple[TreeNode, ...] = ()
    """The prompts and moves, in the order of the journal."""
    here: int | None = None
    """The index of the current node; None without nodes."""
    names: tuple[str, ...] = ()
    """The shortest unique prefixes of the nodes' ids, in the order of `nodes`."""

    def find(self, name: str) -> TreeNode:
        """The node whose id has the prefix `name`. Raises SessionError: none, or several."""
        found = [node for node in self.nodes if name and node.id.startswith(name)]
        if len(found) == 1:
            return found[0]
        what = f"matches {len(found)} points" if found else "is not a point"
        raise SessionError(
            f"{name!r} {what} of this session.", hint="/tree lists them with their ids."
        )


def rewind_points(records: Sequence[Record]) -> list[RewindPoint]:
    """The recorded prompts and answers of the current branch, oldest first."""
    path = branch(records)
    points: list[RewindPoint] = []
    run_id = before_run = ""
    for place, record in enumerate(path):
        before = path[place - 1].id if place else ""
        if record.type == "run_start":
            run_id, before_run = text_member(record.data, "run_id"), before
            continue
        message = message_of(record)
        if message is None:
            continue
        facts: dict[str, Any] = {"id": record.id, "seq": record.seq, "at": record.ts}
        facts["before"] = before
        if isinstance(message, UserMessage) and message.origin in TYPED_ORIGINS:
            facts |= {"before": before_run or before, "run_id": run_id, "after": record.id}
            points.append(RewindPoint(role="user", text=typed_text(message), **facts))
        elif isinstance(message, AssistantMessage) and message.origin == "model":
            after = _last_result(path, place)
            points.append(RewindPoint(role="assistant", text=message.text, after=after, **facts))
        run_id = before_run = ""
    return points


def last_move(records: Sequence[Record]) -> Record | None:
    """The last move if it can be undone: no message follows, and it wasn't undone already."""
    for record in reversed(branch(records)):
        if record.type in ("run_start", "context") or is_said(record):
            return None
        if record.type == MOVE_RECORD and text_member(record.data, "why") not in ("", "redo"):
            return record
    return None


def build_tree(records: Sequence[Record]) -> SessionTree:
    """The tree of all prompts and moves of the session."""
    nodes: list[TreeNode] = []
    owners: list[int | None] = []
    for record, parent in zip(records, _parents(records), strict=True):
        at = owners[parent] if parent >= 0 else None
        is_move = record.type == MOVE_RECORD
        # A branch without a text yet is the one of this move.
        if is_move and at is not None and nodes[at].kind == "move" and not nodes[at].text:
            nodes[at].text = describe_move(record, records)
        elif (node := _tree_node(record, at, records)) is not None:
            nodes.append(node)
            at = len(nodes) - 1
            if node.above is not None:
                nodes[node.above].below.append(at)
        if at is not None:
            nodes[at].tip = record.id
        owners.append(at)
    counts = Counter(prefix for node in nodes for prefix in prefixes(node.id))
    names = tuple(next((p for p in prefixes(n.id) if counts[p] == 1), n.id) for n in nodes)
    return SessionTree(nodes=tuple(nodes), here=owners[-1] if owners else None, names=names)


def describe_move(move: Record, records: Sequence[Record]) -> str:
    """Describe a move in a few words."""
    why = text_member(move.data, "why") or MOVE_RECORD
    what = ", files only" if text_member(move.data, "what") == "files" else ""
    about = text_member(move.data, "point")
    for record in records if about else ():
        if record.id == about and isinstance(message := message_of(record), UserMessage):
            return f"{why}{what}: {one_line(typed_text(message), _TITLE_CHARS)}"
    return f"{why}{what}"


def message_of(record: Record) -> Message | None:
    """The message of a record; None if it holds none, or an unreadable one."""
    if record.type != "message":
        return None
    try:
        return decode_message(record.data)
    except ValueError:
        return None


def is_said(record: Record) -> bool:
    """Whether the record holds a message of the user or a model."""
    return record.type == "message" and text_member(record.data, "role") in _SAID


def typed_text(message: UserMessage) -> str:
    """The text that the user typed, without attachments."""
    return next((block.text for block in message.content if isinstance(block, TextBlock)), "")


def _last_result(path: Sequence[Record], place: int) -> str:
    """The last record with a result for a call of the message at `place`; else that message."""
    last = path[place].id
    for record in path[place + 1 :]:
        message = message_of(record)
        if isinstance(message, ToolResultMessage):
            last = record.id
        elif message is not None or record.type in ("run_start", "context", MOVE_RECORD):
            break
    return last


def _tree_node(record: Record, at: int | None, records: Sequence[Record]) -> TreeNode | None:
    message = message_of(record)
    if isinstance(message, UserMessage) and message.origin in TYPED_ORIGINS:
        kind: Literal["prompt", "move"] = "prompt"
        text = one_line(typed_text(message), _TITLE_CHARS)
    elif record.type in ("branch", MOVE_RECORD):
        kind, text = "move", describe_move(record, records) if record.type == MOVE_RECORD else ""
    else:
        return None
    return TreeNode(id=record.id, kind=kind, at=record.ts, text=text, above=at, tip=record.id)
