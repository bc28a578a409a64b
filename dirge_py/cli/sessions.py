"""`dirge sessions`: what there is, what was said, and taking care of it."""

import os
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from dirge_py.cli import session_care, session_texts
from dirge_py.cli.arguments import parse_words
from dirge_py.cli.session_flags import VERBS, build_parser
from dirge_py.config.paths import state_dir
from dirge_py.files.atomic import atomic_write
from dirge_py.lib.text import clean
from dirge_py.lib.version import __version__
from dirge_py.session.history import replay
from dirge_py.session.ids import project_root
from dirge_py.session.index.session_index import SessionIndex
from dirge_py.session.store import Store, Trash
from dirge_py.types.errors import SessionError, UsageError


def sessions_fits(rest: Sequence[str]) -> bool:
    """Whether the words after `sessions` are its own; `sessions are lost` is a prompt."""
    return not rest or rest[0] in VERBS or rest[0].startswith("-")


def sessions(rest: Sequence[str]) -> int:
    """Do what the verb says, `list` where none is named; returns the exit code.

    Raises:
        UsageError, SessionError, FileError: as the command line tells them.
    """
    verb, words = ("list", rest) if not rest or rest[0] not in VERBS else (rest[0], rest[1:])
    flags = parse_words(build_parser(verb), words, "words")
    return _DO[verb](flags, _store(flags))


def _list(flags: Namespace, store: Store) -> int:
    if flags.words:
        raise UsageError("`dirge sessions list` takes no words.", hint="To find some: search.")
    Trash(state_dir()).empty_old()
    every = _index(store).sessions(everywhere=flags.everywhere)
    found = every[: int(flags.n)] if flags.n else every
    if flags.json:
        _say(session_texts.list_as_json(found))
    elif found:
        names = session_texts.names_of(every)
        _say(session_texts.list_as_text(found, names, everywhere=flags.everywhere))
    else:
        where = "" if flags.everywhere else " of this project"
        _say(f"There are no stored sessions{where}.\n")
    return 0


def _show(flags: Namespace, store: Store) -> int:
    session_id = store.find(_one(flags))
    records = store.events_since(session_id, 0)
    shown = session_texts.Shown(session_id, replay(records), records)
    _say(shown.as_json() if flags.json else shown.as_text())
    return 0


def _search(flags: Namespace, store: Store) -> int:
    if not flags.words:
        raise UsageError("search for what?", hint="As in `dirge sessions search flaky test`.")
    index = _index(store)
    found = index.search(flags.words, everywhere=flags.everywhere, limit=flags.n)
    if flags.json:
        _say(session_texts.found_as_json(found))
    elif found:
        titles = {
            (one.project, one.id): one.title for one in index.sessions(everywhere=flags.everywhere)
        }
        bold = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        _say(session_texts.found_as_text(found, titles, bold=bold))
    if found:
        return 0
    words = clean(" ".join(flags.words))
    where = "any project" if flags.everywhere else "this project"
    hint = "" if flags.everywhere else "`--all` searches every project."
    raise SessionError(f"No session of {where} has all of {words!r} in one place.", hint=hint)


def _export(flags: Namespace, store: Store) -> int:
    from dirge_py.session.import_export.export import exported_session, render_export

    session_id = store.find(_one(flags))
    records = store.events_since(session_id, 0)
    text = render_export(exported_session(session_id, replay(records), records), flags.format)
    if flags.output_file is None:
        _say(text)
    else:
        atomic_write(flags.output_file, text.encode("utf-8", "replace"))
    return 0


def _one(flags: Namespace) -> str:
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


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


_DO: Mapping[str, Callable[[Namespace, Store], int]] = {
    "list": _list,
    "show": _show,
    "search": _search,
    "export": _export,
    "repair": session_care.repair,
    "delete": session_care.delete,
    "import": session_care.take_over,
}
