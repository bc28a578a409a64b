"""The points of a session that a person can go back to: its prompts, and where they went before."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass as mutable
from dataclasses import field
from typing import Any, Literal

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.session.codec import decode_message
from dirge_py.session.record import Record
from dirge_py.session.tree import branch, with_parents
from dirge_py.types.errors import SessionError
from dirge_py.types.messages import (
    AssistantMessage,
    Message,
    TextBlock,
    ToolResultMessage,
    UserMessage,
)

MOVE = "move"
"""The type of the record of a move: {"why", "from", "to", "what", "tree_before", "tree_after",
"kept"}. `from` and `to` are records; behind `to` the branch goes on."""

_TYPED = frozenset({"user", "steering", "follow_up"})
_SAID = frozenset({"user", "assistant"})
_LEAST_ID = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A message to go to. `id` is its record; `at` is ISO 8601; `text` is what was said, as typed.

    `before` is the record that the branch goes on from when the message is to be left out, `after`
    when it is the last one: behind the answers to its calls. `run_id` is the run that it opened, ""
    where it came in the middle of one.
    """

    id: str
    seq: int
    at: str
    role: Literal["user", "assistant"]
    text: str
    before: str
    after: str
    run_id: str = ""

    @property
    def is_prompt(self) -> bool:
        return self.role == "user"


@mutable(slots=True, kw_only=True)
class Node:
    """A line of the tree: a prompt, or a move to another place. `above` is an index, None at roots.

    `tip` is the last record before the next node: where the answer to the prompt ends.
    """

    id: str
    kind: Literal["prompt", "move"]
    at: str
    text: str
    above: int | None
    tip: str
    below: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTree:
    """Every branch of a session; `here` is the index of the node the conversation stands behind.

    `names` are the shortest distinct beginnings of the nodes' ids, in their order.
    """

    nodes: tuple[Node, ...] = ()
    here: int | None = None
    names: tuple[str, ...] = ()

    def find(self, name: str) -> Node:
        """The node whose id begins so. Raises SessionError: none, or several."""
        found = [node for node in self.nodes if name and node.id.startswith(name)]
        if len(found) == 1:
            return found[0]
        raise SessionError(
            f"{name!r} is no point of this session."
            if not found
            else f"{name!r} fits {len(found)} points of this session.",
            hint="/tree lists them with their ids.",
        )


def points(records: Sequence[Record]) -> list[Point]:
    """What was typed and answered on the current branch, oldest first.

    Messages that a hook put in the place of others are none: they have no record of their own.
    """
    path = branch(records)
    found: list[Point] = []
    opened: Record | None = None
    before_run = ""
    for place, record in enumerate(path):
        if record.type == "run_start":
            opened, before_run = record, path[place - 1].id if place else ""
            continue
        message = message_of(record)
        if message is None:
            continue
        if isinstance(message, UserMessage) and message.origin in _TYPED:
            run_id = _text(opened, "run_id") if opened is not None else ""
            before = before_run if opened is not None else ""
            found.append(_point(path, place, message, before=before, run_id=run_id))
        elif isinstance(message, AssistantMessage) and message.origin == "model":
            found.append(_point(path, place, message))
        opened = None
    return found


def last_move(records: Sequence[Record]) -> Record | None:
    """The move that can be taken back: nothing was said since, and it was not taken back yet."""
    for record in reversed(branch(records)):
        if record.type in ("run_start", "context") or is_said(record):
            return None
        if record.type == MOVE and _text(record, "why") not in ("", "redo"):
            return record
    return None


def tree_of(records: Sequence[Record]) -> SessionTree:
    """Every prompt and every move of the session, and how they hang together."""
    nodes: list[Node] = []
    owner: dict[str, int | None] = {}
    for record, above in with_parents(records):
        at = owner[above.id] if above is not None else None
        if record.type == MOVE and at is not None and _is_bare(nodes[at]):
            nodes[at].text = told_by(record, records)
        elif (node := _node(record, at, records)) is not None:
            nodes.append(node)
            at = len(nodes) - 1
            if node.above is not None:
                nodes[node.above].below.append(at)
        if at is not None:
            nodes[at].tip = record.id
        owner[record.id] = at
    here = owner[records[-1].id] if records else None
    return SessionTree(nodes=tuple(nodes), here=here, names=_names([node.id for node in nodes]))


def told_by(move: Record, records: Sequence[Record]) -> str:
    """A move in a few words."""
    why = _text(move, "why") or MOVE
    what = ", files only" if _text(move, "what") == "files" else ""
    about = _text(move, "point")
    for record in records if about else ():
        if record.id == about and isinstance(message := message_of(record), UserMessage):
            return f"{why}{what}: {one_line(typed(message))}"
    return f"{why}{what}"


def message_of(record: Record) -> Message | None:
    """The message that a record holds, if it is one that can be read."""
    if record.type != "message":
        return None
    try:
        return decode_message(record.data)
    except ValueError:
        return None


def is_said(record: Record) -> bool:
    """Whether a person or a model said something with it."""
    told = record.data if record.type == "message" else None
    return isinstance(told, Mapping) and told.get("role") in _SAID


def typed(message: UserMessage) -> str:
    """What the person wrote, without what was attached to it."""
    return next((block.text for block in message.content if isinstance(block, TextBlock)), "")


def one_line(text: str, most: int = 60) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"


def _point(
    path: Sequence[Record],
    place: int,
    message: UserMessage | AssistantMessage,
    *,
    before: str = "",
    run_id: str = "",
) -> Point:
    record = path[place]
    is_prompt = isinstance(message, UserMessage)
    return Point(
        id=record.id,
        seq=record.seq,
        at=record.ts,
        role="user" if is_prompt else "assistant",
        text=typed(message) if isinstance(message, UserMessage) else message.text,
        before=before or (path[place - 1].id if place else ""),
        after=record.id if is_prompt else _behind_results(path, place),
        run_id=run_id,
    )


def _behind_results(path: Sequence[Record], place: int) -> str:
    """The last record that answers a call of the message at `place`, or that message."""
    last = path[place].id
    for record in path[place + 1 :]:
        message = message_of(record)
        if isinstance(message, ToolResultMessage):
            last = record.id
        elif message is not None or record.type in ("run_start", "context", MOVE):
            break
    return last


def _node(record: Record, at: int | None, records: Sequence[Record]) -> Node | None:
    message = message_of(record)
    if isinstance(message, UserMessage) and message.origin in _TYPED:
        kind: Literal["prompt", "move"] = "prompt"
        text = one_line(typed(message))
    elif record.type in ("branch", MOVE):
        kind, text = "move", told_by(record, records) if record.type == MOVE else ""
    else:
        return None
    return Node(id=record.id, kind=kind, at=record.ts, text=text, above=at, tip=record.id)


def _is_bare(node: Node) -> bool:
    """Whether it is a branch of which nothing has been told yet."""
    return node.kind == "move" and not node.text


def _names(ids: Sequence[str]) -> tuple[str, ...]:
    ordered = sorted(ids)
    longest = {
        one: max(
            (_shared(one, other) for other in (*ordered[at - 1 : at], *ordered[at + 1 : at + 2])),
            default=0,
        )
        for at, one in enumerate(ordered)
    }
    return tuple(one[: max(_LEAST_ID, longest[one] + 1)] for one in ids)


def _shared(one: str, other: str) -> int:
    same = 0
    while same < min(len(one), len(other)) and one[same] == other[same]:
        same += 1
    return same


def _text(record: Record, name: str) -> str:
    value: Any = record.data.get(name) if isinstance(record.data, Mapping) else None
    return value if isinstance(value, str) else ""
