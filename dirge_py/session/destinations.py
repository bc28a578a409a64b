"""Where one can go to in a session, told by its records."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.session.file_states import FileState, file_states, state_at, state_before
from dirge_py.session.points import Point, last_move, points, tree_of
from dirge_py.session.record import Record
from dirge_py.types.errors import DirgeError

What: TypeAlias = Literal["both", "conversation", "files"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """Where to go: behind the record `to`, with the files as in `state` (None: nobody knows).

    `text` belongs into the input then. `point` is the record of the message it is about. `what`
    goes there if nobody says otherwise.
    """

    why: str
    to: str
    state: FileState | None = None
    text: str = ""
    point: str = ""
    what: What = "both"


def before_prompt(records: Sequence[Record], prompt: str, *, why: str) -> Destination:
    """Before the prompt of this branch whose id begins so; "" is the last one.

    Raises:
        DirgeError: there is no such prompt.
    """
    prompts = [point for point in points(records) if point.is_prompt]
    if not prompts:
        raise DirgeError("There is nothing to go back to: nothing was said on this branch.")
    point = _chosen(prompts, prompt) if prompt else prompts[-1]
    return Destination(
        why=why,
        to=point.before,
        state=state_before(file_states(records), point),
        text=point.text,
        point=point.id,
    )


def behind_message(records: Sequence[Record], message: str) -> Destination:
    """Where the message of this branch whose id begins so is the last one.

    Raises:
        DirgeError: there is no such message.
    """
    found = points(records)
    if not found:
        raise DirgeError("There is nothing to go back to: nothing was said on this branch.")
    point = _chosen(found, message)
    return _at(records, point.after, why="clone", point=point.id)


def behind_node(records: Sequence[Record], name: str) -> Destination:
    """Behind a node of the tree, of any branch. Raises SessionError: there is none."""
    node = tree_of(records).find(name)
    return _at(records, node.tip, why="switch", point=node.id)


def before_last_move(records: Sequence[Record]) -> Destination:
    """Where the last move was made from.

    Raises:
        DirgeError: there was none, or something was said since.
    """
    move = last_move(records)
    gone_from = move.data.get("from") if move is not None else None
    if move is None or not any(record.id == gone_from for record in records):
        raise DirgeError(
            "there is no move to take back: nobody went anywhere, or something was said since.",
            hint="/tree shows every branch, and goes there.",
        )
    is_talk = move.data.get("what") == "conversation"
    before = move.data.get("tree_before")
    states = [s for s in file_states(records) if s.seq <= move.seq and s.tree == before]
    return Destination(
        why="redo",
        to=str(gone_from),
        state=states[-1] if states else None,
        what="conversation" if is_talk else "both",
    )


def _at(records: Sequence[Record], to: str, *, why: str, point: str) -> Destination:
    seq = next(record.seq for record in records if record.id == to)
    return Destination(why=why, to=to, state=state_at(file_states(records), seq), point=point)


def _chosen(found: Sequence[Point], name: str) -> Point:
    fitting = [point for point in found if point.id.startswith(name)] if name else []
    if len(fitting) == 1:
        return fitting[0]
    raise DirgeError(
        f"there is no message {name!r} on this branch."
        if not fitting
        else f"{name!r} fits {len(fitting)} messages of this branch.",
        hint="/tree lists the prompts with their ids.",
    )
