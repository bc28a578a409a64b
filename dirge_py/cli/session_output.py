"""What `dirge sessions` prints: tables for people, JSON for programs."""

import json
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.text import clean, format_count, one_line
from dirge_py.lib.text_width import cell_width, cut
from dirge_py.session.history import LoadedSession
from dirge_py.session.ids import short_names
from dirge_py.session.index.session_index import SearchMatch
from dirge_py.session.record import Record
from dirge_py.session.store import SessionSummary
from dirge_py.session.tree import RewindPoint, build_tree, rewind_points
from dirge_py.types.messages import Usage

_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"
_LEAST_TITLE = 20
_PROMPT_CELLS = 100


def list_as_json(found: Iterable[SessionSummary]) -> str:
    return _json({"sessions": [_session(one) for one in found]})


def list_as_text(
    found: Sequence[SessionSummary], names: Mapping[tuple[str, str], str], *, everywhere: bool
) -> str:
    """One line per session. Titles are cut to the width of a terminal, and only there."""
    heads = ["id", "last used", "messages", "cost", "model", "title"]
    rows = [
        [
            names[one.project, one.id],
            _local_time(one.updated),
            str(one.messages),
            _cost(one.cost_usd, known=one.usage is not None),
            _one_line(one.model) or "-",
            _one_line(one.title) or "-",
        ]
        for one in found
    ]
    if everywhere:
        heads.insert(5, "project")
        for row, one in zip(rows, found, strict=True):
            row.insert(5, _one_line(one.project))
    return _table(heads, rows, right={2, 3})


def names_of(found: Sequence[SessionSummary]) -> Mapping[tuple[str, str], str]:
    """What is enough to name each session in its project."""
    names = {}
    for project in {one.project for one in found}:
        short = short_names(one.id for one in found if one.project == project)
        names.update({(project, session_id): name for session_id, name in short.items()})
    return names


def found_as_json(found: Iterable[SearchMatch]) -> str:
    return _json(
        {
            "found": [
                {
                    "project": one.project,
                    "session_id": one.session_id,
                    "seq": one.seq,
                    "at": one.at,
                    "kind": one.kind,
                    "snippet": one.snippet,
                    "matches": [list(span) for span in one.matches],
                }
                for one in found
            ]
        }
    )


def found_as_text(
    found: Sequence[SearchMatch], titles: Mapping[tuple[str, str], str], *, bold: bool
) -> str:
    """The places below the session they are in."""
    lines = []
    before = None
    for one in found:
        session = (one.project, one.session_id)
        if session != before:
            lines += ["", f"{one.session_id}  {_one_line(titles.get(session, ''))}".rstrip()]
            before = session
        lines.append(f"  {_moment(one.at)}  {one.kind:7} {_marked(one, bold=bold)}")
    return "\n".join(lines[1:]) + "\n"


@dataclass(frozen=True, slots=True)
class SessionDetails:
    """One session to show."""

    id: str
    """The id of the session."""
    loaded: LoadedSession
    """What was made of its records."""
    records: Sequence[Record]
    """All its records, in order."""

    def as_text(self) -> str:
        loaded, description = self.loaded, self.loaded.description
        rows = [
            ("title", description.title),
            ("folder", description.cwd),
            ("model", loaded.choices.model),
            ("begun", _moment(description.created)),
            ("last used", _moment(description.updated)),
            ("messages", f"{len(loaded.messages)}, turns: {loaded.turns}"),
            ("tokens", _tokens(loaded.usage)),
            ("cost", _cost(loaded.cost_usd, known=True)),
            ("forked from", description.forked_from),
            ("imported from", _imported_from(self.records)),
        ]
        lines = [self.id, *(f"  {name:13} {_one_line(value)}" for name, value in rows if value)]
        lines += ["", "Prompts", *(f"  {_moment(p.at)}  {_prompt(p.text)}" for p in self._prompts)]
        tips = self._tips()
        if len(tips) > 1:
            lines += ["", "Branches"]
            lines += [f"  {_moment(at)}  {name}  {_prompt(text)}" for name, at, text in tips]
        return "\n".join(lines) + "\n"

    def as_json(self) -> str:
        loaded, description = self.loaded, self.loaded.description
        return _json(
            {
                "id": self.id,
                "title": description.title,
                "cwd": description.cwd,
                "model": loaded.choices.model,
                "created": description.created,
                "updated": description.updated,
                "messages": len(loaded.messages),
                "turns": loaded.turns,
                "usage": _usage(loaded.usage),
                "cost_usd": loaded.cost_usd,
                "forked_from": description.forked_from or None,
                "imported_from": _imported_from(self.records) or None,
                "prompts": [
                    {"record": p.id, "seq": p.seq, "at": p.at, "text": p.text}
                    for p in self._prompts
                ],
                "branches": [
                    {"name": name, "at": at, "last_prompt": text} for name, at, text in self._tips()
                ],
            }
        )

    @property
    def _prompts(self) -> Sequence[RewindPoint]:
        return [point for point in rewind_points(self.records) if point.is_prompt]

    def _tips(self) -> list[tuple[str, str, str]]:
        """Name, time and words of the last node of each branch."""
        tree = build_tree(self.records)
        ends = zip(tree.nodes, tree.names, strict=True)
        return [(name, node.at, node.text) for node, name in ends if not node.below]


def _imported_from(records: Sequence[Record]) -> str:
    """The program and the id it knew the session by; "" for a session of our own."""
    header = records[0].data if records and records[0].type == "session" else None
    origin = header.get("imported_from") if isinstance(header, Mapping) else None
    if not isinstance(origin, Mapping):
        return ""
    return " ".join(str(origin[name]) for name in ("program", "session_id") if origin.get(name))


def _session(one: SessionSummary) -> Mapping[str, Any]:
    return {
        "project": one.project,
        "id": one.id,
        "title": one.title,
        "started": one.started.isoformat(),
        "updated": one.updated.isoformat(),
        "messages": one.messages,
        "cwd": one.cwd,
        "model": one.model,
        "usage": _usage(one.usage) if one.usage is not None else None,
        "cost_usd": one.cost_usd,
    }


def _usage(usage: Usage) -> Mapping[str, int]:
    return {
        "input": usage.input,
        "output": usage.output,
        "cache_read": usage.cache_read,
        "cache_write": usage.cache_write,
    }


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, right: set[int]) -> str:
    columns = list(zip(heads, *rows, strict=True))
    widths = [max(map(cell_width, column)) for column in columns[:-1]]
    room = None
    if sys.stdout.isatty():
        room = max(_LEAST_TITLE, shutil.get_terminal_size().columns - sum(widths) - 2 * len(widths))
    lines = []
    for row in (heads, *rows):
        cells = [
            _padded(cell, width, right=number in right)
            for number, (cell, width) in enumerate(zip(row, widths, strict=False))
        ]
        lines.append("  ".join([*cells, cut(row[-1], room) if room else row[-1]]))
    return "\n".join(lines) + "\n"


def _padded(cell: str, width: int, *, right: bool) -> str:
    blanks = " " * (width - cell_width(cell))
    return blanks + cell if right else cell + blanks


def _marked(one: SearchMatch, *, bold: bool) -> str:
    if not bold:
        return clean(one.snippet)
    text, at = "", 0
    for start, end in one.matches:
        text += clean(one.snippet[at:start]) + _BOLD + clean(one.snippet[start:end]) + _PLAIN
        at = end
    return text + clean(one.snippet[at:])


def _tokens(usage: Usage) -> str:
    return f"{format_count(usage.input)} in, {format_count(usage.output)} out"


def _cost(cost_usd: float | None, *, known: bool) -> str:
    """`?` where a price is unknown, `-` where nobody has added up."""
    if cost_usd is None:
        return "?" if known else "-"
    return f"${cost_usd:.2f}" if cost_usd >= 0.01 or not cost_usd else f"${cost_usd:.4f}"


def _local_time(moment: datetime) -> str:
    return f"{moment.astimezone():%Y-%m-%d %H:%M}"


def _moment(text: str) -> str:
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        return _one_line(text)
    return _local_time(read if read.tzinfo else read.replace(tzinfo=UTC))


def _prompt(text: str) -> str:
    return _one_line(one_line(text, _PROMPT_CELLS))


def _one_line(text: str) -> str:
    return " ".join(clean(text).split())


def _json(value: Any) -> str:
    # Escaped beyond ASCII: it may be looked at on a terminal, too.
    return json.dumps(value) + "\n"
