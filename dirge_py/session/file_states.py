"""What a journal tells of the files: in which state they were when, and who changed them since."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.session.points import MOVE, Point
from dirge_py.session.record import Record
from dirge_py.session.snapshots.base import RECORD

ChangedBy = Literal["agent", "person", "move"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileState:
    """A snapshot, and who made the changes between it and the one before.

    `toward` is the tree that a move was about to put back then. `held` are paths that no state
    before this one holds, though they were there: they are here as they were then.
    """

    seq: int
    tree: str
    by: ChangedBy
    at: str = ""
    run_id: str = ""
    toward: str = ""
    left_out: tuple[str, ...] = ()
    held: tuple[str, ...] = ()


def file_states(records: Sequence[Record]) -> list[FileState]:
    """The states of the files, in the order in which they were.

    That order is the one of the file, not of a branch: there is one working tree, whichever branch
    the conversation is on.
    """
    return [state for record in records if (state := _state(record)) is not None]


def cut_move(records: Sequence[Record]) -> FileState | None:
    """The files before a move that was killed while it put them back, if that is the last thing."""
    states = file_states(records)
    last = states[-1] if states else None
    if last is None or not last.toward:
        return None
    is_over = any(record.type == MOVE and record.seq > last.seq for record in records)
    return None if is_over else last


def state_before(states: Sequence[FileState], point: Point) -> FileState | None:
    """The files as they were when a prompt was sent; None if nobody looked.

    The snapshot of a run that a prompt opened may have been recorded only after the prompt.
    """
    opening = next(
        (s for s in states if point.run_id and s.run_id == point.run_id and s.at == "before_run"),
        None,
    )
    return opening if point.run_id else state_at(states, point.seq)


def state_at(states: Sequence[FileState], seq: int) -> FileState | None:
    """The newest state that was recorded up to the record `seq`."""
    return next((state for state in reversed(states) if state.seq <= seq), None)


def _state(record: Record) -> FileState | None:
    match record.type, record.data:
        case str(kind), {"tree": str(tree), "at": str(at), **rest} if kind == RECORD and tree:
            return FileState(
                seq=record.seq,
                tree=tree,
                by="agent" if at == "turn" else "person",
                at=at,
                run_id=_text(rest, "run_id"),
                toward=_text(rest, "toward"),
                left_out=_texts(rest.get("left_out")),
                held=_texts(rest.get("held")),
            )
        case str(kind), {"tree_after": str(tree)} if kind == MOVE and tree:
            return FileState(seq=record.seq, tree=tree, by="move")
        case _:
            return None


def _text(data: Mapping[Any, Any], name: str) -> str:
    value = data.get(name)
    return value if isinstance(value, str) else ""


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(filter(lambda one: isinstance(one, str), value)) if isinstance(value, list) else ()
