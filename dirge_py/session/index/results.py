"""What the index answers, and what a person searches for: as FTS5 and as Python understand it."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.session.index.sources import FileMarks, SessionTotals
from dirge_py.session.store import SessionSummary
from dirge_py.types.errors import UsageError
from dirge_py.types.messages import Usage

MATCHES_PER_SESSION = 3
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
class SearchMatch:
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


def session_from_totals(
    project: str, session_id: str, tally: SessionTotals, marks: FileMarks
) -> IndexedSession:
    """What the records of a session come to. Times they do not tell are those of the files."""
    changed = datetime.fromtimestamp(max(mark.mtime_ns for mark in marks) / 1e9, UTC)
    return IndexedSession(
        project=project,
        id=session_id,
        title=tally.title or tally.first_prompt or "",
        started=_parse_time(tally.created) or changed,
        updated=_parse_time(tally.updated) or changed,
        messages=tally.messages,
        cwd=tally.cwd,
        model=tally.model,
        usage=tally.spending.whole_usage,
        cost_usd=tally.spending.whole_cost_usd,
    )


def session_from_summary(project: str, summary: SessionSummary) -> IndexedSession:
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


def search_match(
    project: str, session_id: str, *, seq: int, at: str, kind: str, marked: str
) -> SearchMatch:
    """A place in a session; `marked` is its snippet with marks around the matches."""
    snippet, matches = extract_matches(marked)
    return SearchMatch(
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


def _parse_time(text: str) -> datetime | None:
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        return None
    return read if read.tzinfo else read.replace(tzinfo=UTC)


MATCH_BEGIN, MATCH_END = "\x02", "\x03"
"""Around a match in a snippet from SQLite; no stored text holds them."""
_WORD = re.compile(r"[^\W_]+")
_AROUND = 60


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """Words that must all occur in one text, each as the beginning of a word there.

    `phrases` are their parts between punctuation, which must follow each other: `a.b` is a, b.
    """

    phrases: tuple[tuple[str, ...], ...]

    @property
    def fts5(self) -> str:
        return " AND ".join('"' + " ".join(phrase) + '" *' for phrase in self.phrases)

    def fits(self, text: str) -> bool:
        return all(pattern.search(text) for pattern in self._patterns())

    def cut(self, text: str) -> str:
        """A piece of the text around the first match, with each match between MARK and UNMARK."""
        spans = sorted(match.span() for p in self._patterns() for match in p.finditer(text))
        first = spans[0][0] if spans else 0
        start, end = max(0, first - _AROUND), min(len(text), first + 2 * _AROUND)
        shown, at = ["…" if start else ""], start
        for begin, stop in spans:
            if at <= begin and stop <= end:
                shown += [text[at:begin], MATCH_BEGIN, text[begin:stop], MATCH_END]
                at = stop
        return "".join([*shown, text[at:end], "…" if end < len(text) else ""])

    def _patterns(self) -> list[re.Pattern[str]]:
        return [
            re.compile(
                r"(?<![^\W_])" + r"[\W_]+".join(map(re.escape, phrase)) + r"[^\W_]*", re.IGNORECASE
            )
            for phrase in self.phrases
        ]


def read_query(words: Sequence[str]) -> SearchQuery:
    """Raises UsageError: there is no letter and no digit in any of the words."""
    phrases = [tuple(_WORD.findall(part)) for word in words for part in word.split()]
    found = tuple(phrase for phrase in phrases if phrase)
    if not found:
        raise UsageError("there is nothing to search for.", hint="Give words with letters in them.")
    return SearchQuery(found)


def extract_matches(snippet: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    """The snippet without marks, and where the matches are in it."""
    text, spans, begin = "", [], 0
    for piece in re.split(f"([{MATCH_BEGIN}{MATCH_END}])", snippet):
        if piece == MATCH_BEGIN:
            begin = len(text)
        elif piece == MATCH_END:
            spans.append((begin, len(text)))
        else:
            text += piece
    return text, tuple(spans)
