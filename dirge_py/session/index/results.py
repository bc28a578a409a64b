"""What the index answers."""

from datetime import UTC, datetime

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.session.index.sources import Marks
from dirge_py.session.index.tally import Tally
from dirge_py.session.index.words import unmarked
from dirge_py.session.listing import SessionSummary
from dirge_py.types.messages import Usage

PER_SESSION = 3
"""How many places of one session a search shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedSession:
    """One session of a list. `messages` counts those of all branches.

    `usage` and `cost_usd` are of all branches, None where unknown; the cost is unknown as soon as a
    service did not tell one price. `project` is the folder of its project.
    """

    project: str
    id: str
    title: str
    started: datetime
    updated: datetime
    messages: int
    cwd: str
    model: str
    usage: Usage | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One place where all the words occur. `matches` are their spans in `snippet`.

    `kind` is prompt, answer, call, result, title or summary; `seq` numbers the record, `at` is when
    it was written (ISO 8601).
    """

    project: str
    session_id: str
    seq: int
    at: str
    kind: str
    snippet: str
    matches: tuple[tuple[int, int], ...] = ()


def from_tally(project: str, session_id: str, tally: Tally, marks: Marks) -> IndexedSession:
    """What the records of a session come to. Times they do not tell are those of the files."""
    changed = datetime.fromtimestamp(max(mark.mtime_ns for mark in marks) / 1e9, UTC)
    return IndexedSession(
        project=project,
        id=session_id,
        title=tally.title or tally.first_prompt or "",
        started=_moment(tally.created) or changed,
        updated=_moment(tally.updated) or changed,
        messages=tally.messages,
        cwd=tally.cwd,
        model=tally.model,
        usage=tally.spending.whole_usage,
        cost_usd=tally.spending.whole_cost_usd,
    )


def from_summary(project: str, summary: SessionSummary) -> IndexedSession:
    """What a look at both ends of a journal tells."""
    return IndexedSession(
        project=project,
        id=summary.id,
        title=summary.title,
        started=summary.started,
        updated=summary.updated,
        messages=summary.messages,
        cwd=summary.cwd,
        model=summary.model,
    )


def found(project: str, session_id: str, *, seq: int, at: str, kind: str, marked: str) -> Found:
    """A place in a session; `marked` is its snippet with marks around the matches."""
    snippet, matches = unmarked(marked)
    return Found(
        project=project,
        session_id=session_id,
        seq=seq,
        at=at,
        kind=kind,
        snippet=snippet,
        matches=matches,
    )


def newest_first(sessions: list[IndexedSession]) -> list[IndexedSession]:
    return sorted(sessions, key=lambda one: (one.updated, one.id), reverse=True)


def _moment(text: str) -> datetime | None:
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        return None
    return read if read.tzinfo else read.replace(tzinfo=UTC)
