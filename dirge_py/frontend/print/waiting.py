"""What a result says for the run that is to follow: a file to decide with, the turns so far."""

import shlex
from pathlib import Path
from typing import Any

from dirge_py.conversation.conversation import Conversation
from dirge_py.conversation.log import ConversationLog
from dirge_py.conversation.run import Run
from dirge_py.frontend.print.result import usage_object
from dirge_py.session.recovery import load_continuation
from dirge_py.session.store import Store
from dirge_py.types.errors import SessionError
from dirge_py.types.messages import Usage
from dirge_py.types.outcomes import Outcome


def keep_continuation(
    conversation: Conversation, store: Store | None
) -> tuple[Path | None, str, str]:
    """The file that says what the conversation waits for, and a message with its hint about it."""
    session_id = conversation.session_id
    if store is None or session_id is None:
        return None, "a call waits for a decision, but no session is kept.", "Run it once more."
    try:
        path = store.keep_continuation(session_id)
        title = load_continuation(path).call["title"]
    except SessionError as error:
        return None, f"a call waits for a decision. {error.message}", error.hint
    return (
        path,
        f"waiting for a decision about {title!r}.",
        f"`dirge resume {shlex.quote(str(path))} --confirm` runs it, `--reject TEXT` does not.",
    )


def turn_members(conversation: Conversation, run: Run, outcome: Outcome) -> dict[str, Any]:
    """Which turn it was, counted from the last prompt, and what that took and everything since."""
    ledger = ConversationLog(conversation.messages, Usage(), None)
    turn, total = ledger.since_prompt()
    return {
        "outcome": type(outcome).__name__,
        "turn": turn,
        "turn_usage": usage_object(run.usage),
        "total_usage": usage_object(total),
    }
