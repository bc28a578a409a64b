"""Importing another program's session as a new one, to read, search and continue it."""

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from dirge_py.session.codec import encode_message
from dirge_py.session.history import title_of
from dirge_py.session.import_export.claude import looks_like_claude, read_claude
from dirge_py.session.import_export.codex import looks_like_codex, read_codex
from dirge_py.session.import_export.external import (
    ExternalSession,
    ImportedMessage,
    parse_lines,
)
from dirge_py.session.journal import Journal, read_journal
from dirge_py.session.record import timestamp
from dirge_py.session.recorder import Redact, redacted_record
from dirge_py.session.store import Store
from dirge_py.types.errors import SessionError
from dirge_py.types.messages import UserMessage

_MOST_BYTES = 512 * 1024 * 1024
_RUN = "import"


def read_external(
    path: Path,
    program: Literal["claude", "codex", "auto"] = "auto",
    *,
    most_bytes: int = _MOST_BYTES,
) -> ExternalSession:
    """The session of another program. Raises SessionError: unreadable, or no session of it."""
    try:
        with path.open("rb") as file:
            # Don't trust the size in `stat`: a pipe or a device has none, and may be endless.
            content = file.read(most_bytes + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise SessionError(f"{str(path)!r} cannot be read: {why}.") from error
    if len(content) > most_bytes:
        raise SessionError(f"{str(path)!r} is too large to be a session.")
    text = content.decode("utf-8", "replace")
    lines = parse_lines(text, Counter()) if program == "auto" else ()
    if program == "claude" or (program == "auto" and looks_like_claude(lines)):
        session, names = read_claude(text, path.name), "Claude Code"
    elif program == "codex" or looks_like_codex(lines):
        session, names = read_codex(text, path.name), "Codex"
    else:
        session, names = None, "Claude Code or Codex"
    if session is None or not any(True for _ in session.messages()):
        raise SessionError(
            f"{str(path)!r} contains no session of {names}.",
            hint="They are in ~/.claude/projects/*/*.jsonl and ~/.codex/sessions/**/*.jsonl.",
        )
    return session


def import_session(found: ExternalSession, store: Store, *, redact: Redact) -> tuple[str, bool]:
    """Write the session into `store`; returns its id, and whether it was there already.

    The id is derived from its source, so that importing it again finds it. Raises SessionError: it
    can't be written; a partial session is removed.
    """
    messages = list(found.messages())
    started = messages[0].at
    digest = hashlib.sha256(f"{found.program}\0{found.session_id}".encode(errors="replace"))
    session_id = f"{datetime.fromtimestamp(started, UTC):%Y%m%d}-{digest.hexdigest()[:10]}"
    origin = {"program": found.program, "session_id": found.session_id}
    path = store.folder / f"{session_id}.jsonl"
    is_known = os.path.lexists(path)
    if is_known:
        records = read_journal(path).records
        known = records[0].data if records and isinstance(records[0].data, Mapping) else {}
        if known.get("imported_from") != origin:
            raise SessionError(f"There is another session {session_id}.")
    else:
        # This makes the folder of the project.
        store.create(session_id).close()
        header = {"created": timestamp(started), "cwd": redact(found.cwd), "imported_from": origin}
        journal = Journal(path, header=header)
        try:
            for type_name, data, at in _records(found, messages):
                journal.append(type_name, redacted_record(type_name, data, redact), at=at)
        except BaseException:
            store.discard(session_id)
            raise
        finally:
            journal.close()
    return session_id, is_known


def _records(
    found: ExternalSession, messages: Sequence[ImportedMessage]
) -> Iterator[tuple[str, Any, float]]:
    first, last = messages[0].at, messages[-1].at
    prompts = (m.message for m in messages if isinstance(m.message, UserMessage))
    first_prompt = next((title_of(p) for p in prompts if p.origin == "user"), "")
    yield "title", {"title": " ".join(found.title.split())[:200] or first_prompt}, first
    yield "run_start", {"run_id": _RUN}, first
    for each in messages:
        encoded = encode_message(each.message)
        if each.begins_anew:
            yield "context", {"messages": [encoded]}, each.at
        else:
            yield "message", encoded, each.at
    end = {"run_id": _RUN, "outcome": "Done", "why": {}, "messages": len(messages)}
    yield "run_end", {**end, "model": found.model}, last
