"""`dirge sessions repair | delete | import`: what changes something."""

import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from dirge_py.config.paths import state_dir
from dirge_py.lib.text import clean
from dirge_py.session.index.session_index import SessionIndex
from dirge_py.session.journal import RepairReport
from dirge_py.session.journal import repair_session as repaired
from dirge_py.session.store import KEPT_IN_TRASH, Store, Trash
from dirge_py.types.errors import DirgeError, UsageError


def repair(flags: Namespace, store: Store) -> int:
    """Say what is damaged, mend what can be, and make the index anew."""
    if bool(flags.words) == flags.everywhere:
        raise UsageError("repair which session?", hint="Name it, or say --all.")
    exit_code = 0
    for path in _to_repair(flags, store):
        session_id = path.name.removesuffix(".jsonl")
        try:
            _tell(session_id, _findings(repaired(path)))
        except DirgeError as error:
            _tell(session_id, [f"not repaired: {error.message}"])
            exit_code = 1
    count = SessionIndex(state_dir(), store.folder.name).rebuild()
    if count is None:
        sys.stdout.write("The index cannot be made; lists are read from the journals.\n")
    else:
        sys.stdout.write(f"The index was made anew: {count} sessions.\n")
    return exit_code


def delete(flags: Namespace, store: Store) -> int:
    """Move sessions to the trash, or back."""
    if not flags.words:
        raise UsageError("delete which session?", hint="`dirge sessions` lists them.")
    trash = Trash(state_dir())
    trash.empty_old()
    if flags.undo:
        return _each(flags.words, lambda name: _bring_back(trash, store, name))
    ids = list(dict.fromkeys(store.find(name) for name in flags.words))
    if not flags.yes and not _agreed(store, ids):
        sys.stdout.write("Nothing was deleted.\n")
        return 1
    return _each(ids, lambda session_id: _put_away(trash, store, session_id))


def take_over(flags: Namespace, store: Store) -> int:
    """Import the files of other programs."""
    if not flags.words:
        raise UsageError(
            "import which files?",
            hint="As in `dirge sessions import ~/.claude/projects/*/*.jsonl`.",
        )
    from dirge_py.cli.session_import import take_over_file

    return _each(flags.words, lambda name: take_over_file(name, flags.program, store))


def _to_repair(flags: Namespace, store: Store) -> Iterable[Path]:
    if flags.everywhere:
        return sorted((state_dir() / "sessions").glob("*/*.jsonl"))
    return [store.folder / f"{store.find(name)}.jsonl" for name in flags.words]


def _findings(found: RepairReport) -> Iterator[str]:
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
    trash.put(store, session_id)
    undo = f"`dirge sessions delete --undo {session_id}` brings it back"
    _tell(session_id, [f"deleted; for {KEPT_IN_TRASH.days} days {undo}"])


def _bring_back(trash: Trash, store: Store, name: str) -> None:
    session_id = trash.take_back(store, name)
    _tell(session_id, [f"is back; `dirge -r {session_id}` goes on in it"])


def _agreed(store: Store, ids: Sequence[str]) -> bool:
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


def _each(names: Iterable[str], act: Callable[[str], None]) -> int:
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
