"""`dirge sessions list|show|search|export|repair|delete|import`: tables for people, or JSON."""

import json
import os
import shlex
import shutil
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from dirge_py.cli.arguments import SESSIONS_VERBS, build_sessions_parser, parse_words
from dirge_py.cli.flags import print_error, project_folder
from dirge_py.config.paths import state_dir
from dirge_py.config.services import SERVICES
from dirge_py.files.atomic import atomic_write
from dirge_py.lib.paths import from_home
from dirge_py.lib.redaction import Redactor, secret_values
from dirge_py.lib.text import clean, format_count, one_line
from dirge_py.lib.text_width import align_columns, cut
from dirge_py.lib.version import __version__
from dirge_py.session.codec import usage_counts
from dirge_py.session.history import replay
from dirge_py.session.ids import project_root, short_names
from dirge_py.session.import_export.import_session import import_session, read_external
from dirge_py.session.index.session_index import SearchMatch, SessionIndex
from dirge_py.session.index.sources import DAMAGED
from dirge_py.session.journal import describe_damage, repair_session
from dirge_py.session.record import Record
from dirge_py.session.store import KEPT_IN_TRASH, SessionSummary, Store, Trash
from dirge_py.session.tree import build_tree, rewind_points
from dirge_py.types.errors import DirgeError, SessionError, UsageError

_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"
_LEAST_TITLE = 20
_PROMPT_CHARS = 100


def sessions_fits(rest: Sequence[str]) -> bool:
    """Whether the words after `sessions` are its own; `sessions are lost` is a prompt."""
    return not rest or rest[0] in SESSIONS_VERBS or rest[0].startswith("-")


def sessions(rest: Sequence[str]) -> int:
    """Run a verb, by default `list`; returns the exit code. Raises DirgeError."""
    verb = rest[0] if rest and rest[0] in SESSIONS_VERBS else ""
    flags = parse_words(build_sessions_parser(verb or "list"), rest[bool(verb) :], "words")
    # Don't read the settings: an error in them must not hide sessions.
    store = Store(state_dir(), project_root(project_folder(flags)), app_version=__version__)
    run, missing, hint = _RUN[flags.verb]
    if missing and not flags.words:
        raise UsageError(missing, hint=hint)
    return run(flags, store)


def _list(flags: Namespace, store: Store) -> int:
    if flags.words:
        raise UsageError(
            "`dirge sessions list` takes no arguments.",
            hint="To find sessions by text: `dirge sessions search WORDS`.",
        )
    Trash(state_dir()).empty_old()
    every = _index(store).sessions(everywhere=flags.everywhere)
    found = every[: int(flags.n)] if flags.n else every
    if flags.json:
        rows = [asdict(s) | {"usage": s.usage and usage_counts(s.usage)} for s in found]
        _write_json({"sessions": rows})
    elif found:
        _write(_list_text(found, every, everywhere=flags.everywhere))
    else:
        where = "" if flags.everywhere else " of this project"
        _write(f"There are no stored sessions{where}.\n")
    return 0


def _list_text(
    found: Sequence[SessionSummary], every: Sequence[SessionSummary], *, everywhere: bool
) -> str:
    names = {}
    for project in {session.project for session in every}:
        short = short_names(session.id for session in every if session.project == project)
        names.update({(project, session_id): name for session_id, name in short.items()})
    rows = [["id", "last used", "messages", "cost", "model", *["project"] * everywhere, "title"]]
    for session in found:
        title = DAMAGED * session.is_damaged + (_clean_line(session.title) or "-")
        rows.append(
            [
                names[session.project, session.id],
                f"{session.updated.astimezone():%Y-%m-%d %H:%M}",
                str(session.messages),
                _cost(session.cost_usd, known=session.usage is not None),
                _clean_line(session.model) or "-",
                *[_clean_line(session.project)] * everywhere,
                title,
            ]
        )
    lines = align_columns(rows, right=(2, 3))
    if sys.stdout.isatty():
        least = lines[0].rindex("title") + _LEAST_TITLE
        width = max(shutil.get_terminal_size().columns, least)
        lines = [cut(line, width) for line in lines]
    return "\n".join(lines) + "\n"


def _show(flags: Namespace, store: Store) -> int:
    session_id = _only_session(flags, store)
    files = store.read_files(session_id)
    records = files.scan.records
    damage = describe_damage(files, store.folder / f"{session_id}.jsonl")
    loaded = replay(records)
    description, usage = loaded.description, loaded.usage
    prompts = [point for point in rewind_points(records) if point.is_prompt]
    tree = build_tree(records)
    nodes = zip(tree.names, tree.nodes, strict=True)
    facts: dict[str, Any] = {
        "id": session_id,
        "title": description.title,
        "cwd": description.cwd,
        "model": loaded.choices.model,
        "created": description.created,
        "updated": description.updated,
        "messages": len(loaded.messages),
        "turns": loaded.turns,
        "usage": usage_counts(usage),
        "cost_usd": loaded.cost_usd,
        "forked_from": description.forked_from or None,
        "imported_from": _imported_from(records) or None,
        "is_damaged": bool(damage),
        "damage": damage or None,
        "prompts": [{"record": p.id, "seq": p.seq, "at": p.at, "text": p.text} for p in prompts],
        "branches": [
            {"name": name, "at": tip.at, "last_prompt": tip.text}
            for name, tip in nodes
            if not tip.below
        ],
    }
    if flags.json:
        _write_json(facts)
        return 0
    rows = {
        "title": facts["title"],
        "folder": facts["cwd"],
        "model": facts["model"],
        "begun": _moment(description.created),
        "last used": _moment(description.updated),
        "messages": f"{len(loaded.messages)}, turns: {loaded.turns}",
        "tokens": f"{format_count(usage.input)} in, {format_count(usage.output)} out",
        "cost": _cost(loaded.cost_usd, known=True),
        "forked from": facts["forked_from"],
        "imported from": facts["imported_from"],
        "damaged": damage,
    }
    lines = [session_id]
    lines += [f"  {name:13} {_clean_line(value)}" for name, value in rows.items() if value]
    lines += ["", "Prompts", *(f"  {_moment(p.at)}  {_prompt(p.text)}" for p in prompts)]
    if len(tips := facts["branches"]) > 1:
        lines += ["", "Branches"]
        row = "  {}  {}  {}".format
        lines += [row(_moment(t["at"]), t["name"], _prompt(t["last_prompt"])) for t in tips]
    _write("\n".join(lines) + "\n")
    return 0


def _imported_from(records: Sequence[Record]) -> str:
    """The program and the id of the session there; "" for a session of dirge."""
    header = records[0].data if records and records[0].type == "session" else None
    origin = header.get("imported_from") if isinstance(header, Mapping) else None
    if not isinstance(origin, Mapping):
        return ""
    return " ".join(str(origin[name]) for name in ("program", "session_id") if origin.get(name))


def _search(flags: Namespace, store: Store) -> int:
    index = _index(store)
    matches = index.search(flags.words, everywhere=flags.everywhere, limit=flags.n)
    if flags.json:
        _write_json({"found": [asdict(match) for match in matches]})
    elif matches:
        sessions = index.sessions(everywhere=flags.everywhere)
        titles = {(session.project, session.id): session.title for session in sessions}
        bold = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        lines = []
        for session, group in groupby(matches, lambda match: (match.project, match.session_id)):
            lines += ["", f"{session[1]}  {_clean_line(titles.get(session, ''))}".rstrip()]
            for match in group:
                lines.append(f"  {_moment(match.at)}  {match.kind:7} {_snippet(match, bold=bold)}")
        _write("\n".join(lines[1:]) + "\n")
    if matches:
        return 0
    words = clean(" ".join(flags.words))
    where = "any project" if flags.everywhere else "this project"
    hint = "" if flags.everywhere else "`--all` searches every project."
    raise SessionError(f"No message in {where} contains all of {words!r}.", hint=hint)


def _snippet(match: SearchMatch, *, bold: bool) -> str:
    text, at = "", 0
    for start, end in match.matches if bold else ():
        text += clean(match.snippet[at:start]) + _BOLD + clean(match.snippet[start:end]) + _PLAIN
        at = end
    return text + clean(match.snippet[at:])


def _export(flags: Namespace, store: Store) -> int:
    from dirge_py.session.import_export.export import exported_session, render_export

    session_id = _only_session(flags, store)
    records = store.events_since(session_id, 0)
    text = render_export(exported_session(session_id, replay(records), records), flags.format)
    if flags.output_file is None:
        _write(text)
    else:
        atomic_write(flags.output_file, text.encode("utf-8", "replace"))
    return 0


def _only_session(flags: Namespace, store: Store) -> str:
    if len(flags.words) != 1:
        text = f"`dirge sessions {flags.verb}` takes one id."
        raise UsageError(text, hint="`dirge sessions` lists them.")
    return store.find(flags.words[0])


def _index(store: Store) -> SessionIndex:
    return SessionIndex(state_dir(), store.folder.name)


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _write_json(value: Any) -> None:
    # Escaped beyond ASCII: it may be looked at on a terminal, too.
    _write(json.dumps(value, default=datetime.isoformat) + "\n")


def _cost(cost_usd: float | None, *, known: bool) -> str:
    """The cost as text: `?` if a price is unknown, `-` if the tokens are."""
    if cost_usd is None:
        return "?" if known else "-"
    return f"${cost_usd:.4f}" if 0 < cost_usd < 0.01 else f"${cost_usd:.2f}"


def _moment(text: str) -> str:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return _clean_line(text)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return f"{moment.astimezone():%Y-%m-%d %H:%M}"


def _clean_line(text: str) -> str:
    return " ".join(clean(text).split())


def _prompt(text: str) -> str:
    return _clean_line(one_line(text, _PROMPT_CHARS))


def _repair(flags: Namespace, store: Store) -> int:
    if bool(flags.words) == flags.everywhere:
        raise UsageError("repair needs a session.", hint="Name it, or add --all.")
    exit_code = 0
    paths = [store.folder / f"{store.find(name)}.jsonl" for name in flags.words]
    if flags.everywhere:
        paths = sorted((state_dir() / "sessions").glob("*/*.jsonl"))
    for path in paths:
        try:
            _report(path.stem, repair_session(path))
        except DirgeError as error:
            _report(path.stem, [f"not repaired: {error.message}"])
            exit_code = 1
    count = _index(store).rebuild()
    text = "Cannot build the index; lists are read from the journals."
    _write((text if count is None else f"The index was rebuilt: {count} sessions.") + "\n")
    return exit_code


def _delete(flags: Namespace, store: Store) -> int:
    trash = Trash(state_dir())
    trash.empty_old()

    def delete(session_id: str) -> None:
        trash.add(store, session_id)
        undo = f"`dirge sessions delete --undo {session_id}` restores it"
        _report(session_id, [f"deleted; for {KEPT_IN_TRASH.days} days {undo}"])

    def restore(name: str) -> None:
        session_id = trash.restore(store, name)
        _report(session_id, [f"restored; `dirge -r {session_id}` opens it"])

    if flags.undo:
        return _for_each(flags.words, restore)
    ids = list(dict.fromkeys(store.find(name) for name in flags.words))
    if flags.yes or _confirmed(store, ids):
        return _for_each(ids, delete)
    _write("Nothing was deleted.\n")
    return 1


def _import(flags: Namespace, store: Store) -> int:
    usual = [name for service in SERVICES for name in service.key_env]
    redact = Redactor(secret_values(os.environ, usual)).redact

    def import_file(name: str) -> None:
        """Import one file into the project it was made in, else into the current one."""
        external = read_external(from_home(name), flags.program)
        target = store
        if os.path.isabs(external.cwd) and os.path.isdir(external.cwd):
            target = Store(state_dir(), project_root(Path(external.cwd)), app_version=__version__)
        session_id, is_known = import_session(external, target, redact=redact)
        lines = ["was already imported; nothing changed"]
        if not is_known:
            count = sum(1 for _ in external.messages())
            lines = [f"imported from {external.program}, {count} messages"]
            lines += [f"left out: {n} {what}" for what, n in sorted((+external.left_out).items())]
        elsewhere = f" -C {shlex.quote(external.cwd)}" if target.folder != store.folder else ""
        lines.append(f"`dirge{elsewhere} -r {session_id}` opens it")
        _report(session_id, lines)

    return _for_each(flags.words, import_file)


def _confirmed(store: Store, ids: Sequence[str]) -> bool:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        text = "`dirge sessions delete` asks first, so it needs a terminal."
        raise UsageError(text, hint="Without one, add --yes.")
    titles = {summary.id: summary.title for summary in store.list()}
    for session_id in ids:
        _report(session_id, [titles.get(session_id, "")])
    try:
        answer = input(f"Delete {'it' if len(ids) == 1 else f'these {len(ids)}'}? [y/N] ")
    except EOFError:
        return False
    return answer.strip().lower() in ("y", "yes")


def _for_each(names: Iterable[str], act: Callable[[str], None]) -> int:
    """Call `act` with each name; prints errors and continues. Returns the exit code."""
    exit_code = 0
    for name in names:
        try:
            act(name)
        except DirgeError as error:
            print_error(error)
            exit_code = 1
    return exit_code


def _report(session_id: str, lines: Iterable[str]) -> None:
    text = f"\n{' ' * (len(session_id) + 2)}".join(lines)
    _write(clean(f"{session_id}  {text}\n"))


_IMPORT_HINT = "As in `dirge sessions import ~/.claude/projects/*/*.jsonl`."
_RUN: Mapping[str, tuple[Callable[[Namespace, Store], int], str, str]] = {
    "list": (_list, "", ""),
    "show": (_show, "", ""),
    "search": (_search, "search needs words to find.", "As in `dirge sessions search flaky test`."),
    "export": (_export, "", ""),
    "repair": (_repair, "", ""),
    "delete": (_delete, "delete needs a session.", "`dirge sessions` lists them."),
    "import": (_import, "import needs files.", _IMPORT_HINT),
}
"""The function of each verb, and the error and hint if it needs words and there are none."""
