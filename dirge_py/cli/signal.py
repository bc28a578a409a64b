"""`dirge signal`: send a session a signal from another terminal, or see what it waits for."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dirge_py.cli.arguments import Parser
from dirge_py.lib.text import visible
from dirge_py.types.errors import DirgeError, SessionError, UsageError

if TYPE_CHECKING:
    from dirge_py.session.store import Store


def build_signal_parser() -> Parser:
    """The flags of `dirge signal`."""
    parser = Parser(
        prog="dirge signal",
        usage="dirge signal SESSION [NAME [JSON]] [-C DIR]",
        description="Send a signal to a session of this project, whether it runs or not. "
        "Without a name: show the calls that wait for an answer.",
        epilog='An answer: dirge signal SESSION answer \'{"call_id": "…", "effect": "allow"}\' '
        '(or "deny", with a "comment"). It counts where `[permission] remote` is true.',
    )
    parser.add_argument("session", metavar="SESSION", help="its id, or a prefix of it")
    parser.add_argument("name", metavar="NAME", nargs="?", help="letters, digits, - and _")
    parser.add_argument("payload", metavar="JSON", nargs="?", help="the payload")
    parser.add_argument("-C", "--cwd", metavar="DIR", help="use the project around DIR")
    return parser


def signal_fits(rest: Sequence[str]) -> bool:
    """Whether the words after `signal` are its own; `signal handling is broken` is a prompt."""
    if not rest or rest[0].startswith("-"):
        return bool(rest)
    try:
        _store(Path.cwd()).find(rest[0])
    except DirgeError:
        return len(rest) == 3 and rest[2].lstrip().startswith("{")
    return len(rest) <= 3 or any(word.startswith("-") for word in rest)


def signal(rest: Sequence[str]) -> int:
    """Send a signal, or show the calls that wait; returns the exit code."""
    flags = build_signal_parser().parse_args(list(rest))
    store = _store(Path(flags.cwd) if flags.cwd else Path.cwd())
    session_id = store.find(flags.session)
    if flags.name is None:
        waiting = _waiting(store.events_since(session_id, 0))
        lines = [f"{visible(call_id)}  {visible(line)}\n" for call_id, line in waiting.items()]
        sys.stdout.write("".join(lines) or "Nothing waits for an answer.\n")
        return 0
    from dirge_py.conversation.durable import SignalBox

    try:
        payload = json.loads(flags.payload) if flags.payload is not None else {}
    except (ValueError, RecursionError) as error:
        hint = 'Quote it: \'{"effect": "allow"}\'.'
        raise UsageError(f"the payload is not JSON: {error}.", hint=hint) from error
    if flags.name == "answer":
        _check_answer(payload, _waiting(store.events_since(session_id, 0)))
    try:
        SignalBox(store.folder / session_id / "signals").send(flags.name, payload)
    except OSError as error:
        text = f"Cannot store the signal for session {session_id}: {error.strerror}."
        raise SessionError(text, hint="Free space, or make the state folder writable.") from error
    sys.stdout.write(f"Sent {flags.name} to {session_id}.\n")
    return 0


def _store(cwd: Path) -> "Store":
    from dirge_py.config.paths import state_dir
    from dirge_py.session.ids import project_root
    from dirge_py.session.store import Store

    return Store(state_dir(os.environ), project_root(cwd))


def _check_answer(payload: Any, waiting: Mapping[str, str]) -> None:
    """Raise UsageError or SessionError for an answer that the session would silently ignore."""
    match payload:
        case {"call_id": str(call_id), "effect": "allow" | "deny"}:
            if call_id in waiting:
                return
            hint = "`dirge signal SESSION` lists those that do, if `[permission] remote` is on."
            raise SessionError(f"No call {call_id!r} waits for an answer.", hint=hint)
    hint = 'As in \'{"call_id": "call_1", "effect": "allow"}\', or "deny".'
    raise UsageError("this is not an answer.", hint=hint)


def _waiting(records: Sequence[Any]) -> Mapping[str, str]:
    """The calls that wait for an answer, each in a line, by id."""
    waiting: dict[str, str] = {}
    for record in records:
        match record.type, record.data:
            case "asked", {"calls": [*calls]}:
                waiting = {call["call_id"]: _line(call) for call in calls if isinstance(call, dict)}
            case (("answered" | "run_end" | "run_start"), _):
                waiting = {}
    return waiting


def _line(call: dict[str, Any]) -> str:
    claims = [claim for claim in call.get("claims", ()) if isinstance(claim, dict)]
    text = ", ".join(f"{claim.get('op')} {claim.get('resource')}" for claim in claims)
    return f"{call.get('tool')}: {text}"
