"""`dirge sessions list|show|search|export|repair|delete|import`."""

import os
import shlex
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from dirge_py.cli import session_output
from dirge_py.cli.arguments import SESSIONS_VERBS, build_sessions_parser, parse_words
from dirge_py.config.paths import state_dir
from dirge_py.config.services import SERVICES
from dirge_py.files.atomic import atomic_write
from dirge_py.lib.paths import from_home
from dirge_py.lib.redaction import Redactor, secret_values
from dirge_py.lib.text import clean
from dirge_py.lib.version import __version__
from dirge_py.session.history import replay
from dirge_py.session.ids import project_root
from dirge_py.session.import_export.import_session import import_session, read_external
from dirge_py.session.index.session_index import SessionIndex
from dirge_py.session.journal import RepairReport
from dirge_py.session.journal import repair_session as repaired
from dirge_py.session.store import KEPT_IN_TRASH, Store, Trash
from dirge_py.types.errors import DirgeError, SessionError, UsageError


def sessions_fits(rest: Sequence[str]) -> bool:
    """Whether the words after `sessions` are its own; `sessions are lost` is a prompt."""
    return not rest or rest[0] in SESSIONS_VERBS or rest[0].startswith("-")


def sessions(rest: Sequence[str]) -> int:
    """Do what the verb says, `list` where none is named; returns the exit code.

    Raises:
        UsageError, SessionError, FileError: as the command line tells them.
    """
    verb, words = (
        ("list", rest) if not rest or rest[0] not in SESSIONS_VERBS else (rest[0], rest[1:])
    )
    flags = parse_words(build_sessions_parser(verb), words, "words")
    return _DO[verb](flags, _store(flags))


def _list(flags: Namespace, store: Store) -> int:
    if flags.words:
        raise UsageError("`dirge sessions list` takes no words.", hint="To find some: search.")
    Trash(state_dir()).empty_old()
    every = _index(store).sessions(everywhere=flags.everywhere)
    found = every[: int(flags.n)] if flags.n else every
    if flags.json:
        _write(session_output.list_as_json(found))
    elif found:
        names = session_output.names_of(every)
        _write(session_output.list_as_text(found, names, everywhere=flags.everywhere))
    else:
        where = "" if flags.everywhere else " of this project"
        _write(f"There are no stored sessions{where}.\n")
    return 0


def _show(flags: Namespace, store: Store) -> int:
    session_id = store.find(_only_word(flags))
    records = store.events_since(session_id, 0)
    shown = session_output.SessionDetails(session_id, replay(records), records)
    _write(shown.as_json() if flags.json else shown.as_text())
    return 0


def _search(flags: Namespace, store: Store) -> int:
    if not flags.words:
        raise UsageError("search for what?", hint="As in `dirge sessions search flaky test`.")
    index = _index(store)
    found = index.search(flags.words, everywhere=flags.everywhere, limit=flags.n)
    if flags.json:
        _write(session_output.found_as_json(found))
    elif found:
        titles = {
            (one.project, one.id): one.title for one in index.sessions(everywhere=flags.everywhere)
        }
        bold = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        _write(session_output.found_as_text(found, titles, bold=bold))
    if found:
        return 0
    words = clean(" ".join(flags.words))
    where = "any project" if flags.everywhere else "this project"
    hint = "" if flags.everywhere else "`--all` searches every project."
    raise SessionError(f"No session of {where} has all of {words!r} in one place.", hint=hint)


def _export(flags: Namespace, store: Store) -> int:
    from dirge_py.session.import_export.export import exported_session, render_export

    session_id = store.find(_only_word(flags))
    records = store.events_since(session_id, 0)
    text = render_export(exported_session(session_id, replay(records), records), flags.format)
    if flags.output_file is None:
        _write(text)
    else:
        atomic_write(flags.output_file, text.encode("utf-8", "replace"))
    return 0


def _only_word(flags: Namespace) -> str:
    if len(flags.words) != 1:
        raise UsageError(
            f"`dirge sessions {flags.verb}` takes one id.", hint="`dirge sessions` lists them."
        )
    return str(flags.words[0])


def _index(store: Store) -> SessionIndex:
    return SessionIndex(state_dir(), store.folder.name)


def _store(flags: Namespace) -> Store:
    # Without the settings: a slip in them is no reason not to find a session.
    if flags.cwd is not None and not os.path.isdir(flags.cwd):
        raise UsageError(f"{flags.cwd} cannot be worked in: there is no such folder.")
    cwd = Path(flags.cwd) if flags.cwd is not None else Path.cwd()
    return Store(state_dir(), project_root(cwd), app_version=__version__)


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def repair_sessions(flags: Namespace, store: Store) -> int:
    """Say what is damaged, mend what can be, and make the index anew."""
    if bool(flags.words) == flags.everywhere:
        raise UsageError("repair which session?", hint="Name it, or say --all.")
    exit_code = 0
    for path in _to_repair(flags, store):
        session_id = path.name.removesuffix(".jsonl")
        try:
            _tell(session_id, _repair_lines(repaired(path)))
        except DirgeError as error:
            _tell(session_id, [f"not repaired: {error.message}"])
            exit_code = 1
    count = SessionIndex(state_dir(), store.folder.name).rebuild()
    if count is None:
        sys.stdout.write("The index cannot be made; lists are read from the journals.\n")
    else:
        sys.stdout.write(f"The index was made anew: {count} sessions.\n")
    return exit_code


def delete_sessions(flags: Namespace, store: Store) -> int:
    """Move sessions to the trash, or back."""
    if not flags.words:
        raise UsageError("delete which session?", hint="`dirge sessions` lists them.")
    trash = Trash(state_dir())
    trash.empty_old()
    if flags.undo:
        return _for_each(flags.words, lambda name: _bring_back(trash, store, name))
    ids = list(dict.fromkeys(store.find(name) for name in flags.words))
    if not flags.yes and not _confirmed(store, ids):
        sys.stdout.write("Nothing was deleted.\n")
        return 1
    return _for_each(ids, lambda session_id: _put_away(trash, store, session_id))


def import_sessions(flags: Namespace, store: Store) -> int:
    """Import the files of other programs."""
    if not flags.words:
        raise UsageError(
            "import which files?",
            hint="As in `dirge sessions import ~/.claude/projects/*/*.jsonl`.",
        )
    from dirge_py.cli.sessions import import_file

    return _for_each(flags.words, lambda name: import_file(name, flags.program, store))


def _to_repair(flags: Namespace, store: Store) -> Iterable[Path]:
    if flags.everywhere:
        return sorted((state_dir() / "sessions").glob("*/*.jsonl"))
    return [store.folder / f"{store.find(name)}.jsonl" for name in flags.words]


def _repair_lines(found: RepairReport) -> Iterator[str]:
    if found.is_sound:
        yield f"sound, {found.records} records"
        return
    yield f"{found.records} records can be read"
    if found.torn_bytes and not found.is_newer:
        yield f"an unfinished end of {found.torn_bytes} bytes was cut off"
    if found.damaged_bytes:
        yield f"{found.damaged_bytes} bytes in the middle are no records and are passed over"
    if found.torn_bytes or found.damaged_bytes:
        yield f"the damaged bytes are kept in {str(found.kept)!r}"
    if found.missing_segments:
        names = ", ".join(f"{number:04}.jsonl" for number in found.missing_segments)
        yield f"a part of it is missing: {names}"
    if found.orphans:
        yield f"{found.orphans} records follow a lost one; they are read behind the one before"
    if found.lost_outputs:
        yield f"{found.lost_outputs} large tool results are gone; a remark stands in their place"
    if found.is_newer:
        yield "it was written by a newer dirge and can only be read"


def _put_away(trash: Trash, store: Store, session_id: str) -> None:
    trash.add(store, session_id)
    undo = f"`dirge sessions delete --undo {session_id}` brings it back"
    _tell(session_id, [f"deleted; for {KEPT_IN_TRASH.days} days {undo}"])


def _bring_back(trash: Trash, store: Store, name: str) -> None:
    session_id = trash.restore(store, name)
    _tell(session_id, [f"is back; `dirge -r {session_id}` goes on in it"])


def _confirmed(store: Store, ids: Sequence[str]) -> bool:
    """Whether the person at the terminal wants them deleted."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "`dirge sessions delete` asks in a terminal.", hint="Without one: say --yes."
        )
    titles = {summary.id: summary.title for summary in store.list()}
    for session_id in ids:
        _tell(session_id, [titles.get(session_id, "")])
    try:
        answer = input(f"Delete {'it' if len(ids) == 1 else f'these {len(ids)}'}? [y/N] ")
    except EOFError:
        return False
    return answer.strip().lower() in ("y", "yes")


def _for_each(names: Iterable[str], act: Callable[[str], None]) -> int:
    """Do it with each; what goes wrong with one is told and stops no other. The exit code."""
    exit_code = 0
    for name in names:
        try:
            act(name)
        except DirgeError as error:
            hint = f"  {error.hint}\n" if error.hint else ""
            sys.stderr.write(clean(f"dirge: {error.message}\n{hint}"))
            exit_code = 1
    return exit_code


def _tell(session_id: str, lines: Iterable[str]) -> None:
    told = f"\n{' ' * (len(session_id) + 2)}".join(lines)
    sys.stdout.write(clean(f"{session_id}  {told}\n"))


def import_file(name: str, program: Literal["claude", "codex", "auto"], store: Store) -> None:
    """Import one file, into the project it was made in, and say what came of it.

    Raises:
        SessionError: it holds no session, or cannot be read or stored.
    """
    found = read_external(from_home(name), program)
    target = _project_of(found.cwd, store)
    taken = import_session(found, target, redact=_redactor())
    elsewhere = "" if target.folder == store.folder else f" -C {shlex.quote(found.cwd)}"
    if taken.is_known:
        told = [f"{taken.session_id}  was imported before; nothing was done"]
    else:
        told = [f"{taken.session_id}  imported from {taken.program}, {taken.messages} messages"]
        told += [f"left out: {count} {what}" for what, count in sorted(taken.left_out.items())]
    told.append(f"`dirge{elsewhere} -r {taken.session_id}` goes on in it")
    indent = "\n" + " " * (len(taken.session_id) + 2)
    sys.stdout.write(clean(indent.join(told)) + "\n")


def _project_of(cwd: str, store: Store) -> Store:
    """The sessions of the project around `cwd`; if that is gone, those of the current one."""
    if not os.path.isabs(cwd) or not os.path.isdir(cwd):
        return store
    return Store(state_dir(), project_root(Path(cwd)), app_version=__version__)


def _redactor() -> Callable[[str], str]:
    usual = [name for service in SERVICES for name in service.key_env]
    return Redactor(secret_values(os.environ, usual)).redact


_DO: Mapping[str, Callable[[Namespace, Store], int]] = {
    "list": _list,
    "show": _show,
    "search": _search,
    "export": _export,
    "repair": repair_sessions,
    "delete": delete_sessions,
    "import": import_sessions,
}
