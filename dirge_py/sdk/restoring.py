"""What a resumed session gets back of what was set, read and typed."""

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from dirge_py.conversation.conversation import Conversation
from dirge_py.files.ledger import ReadLedger
from dirge_py.files.workspace import Workspace
from dirge_py.plan.state import NAME as PLAN
from dirge_py.plan.state import words_at_start
from dirge_py.session.history import Loaded
from dirge_py.session.names import project_root
from dirge_py.session.points import one_line, typed
from dirge_py.session.recorder import Recorder
from dirge_py.session.unsent import stored_draft, stored_queue, stored_stash
from dirge_py.tools.planning.todo_list import TodoList
from dirge_py.types.events import AgentEnd, LoopEvent, Sink

_QUEUE_SHOWN = 3


def queued_again(loaded: Loaded) -> Iterator[str]:
    """What a person who resumes should know of what they typed: it waits for the next run."""
    waiting = stored_queue(loaded.settings.get("queue"))
    if waiting:
        shown = "; ".join(one_line(typed(message)) for _, message in waiting[:_QUEUE_SHOWN])
        more = f" and {len(waiting) - _QUEUE_SHOWN} more" if len(waiting) > _QUEUE_SHOWN else ""
        verbs = ("message was", "waits") if len(waiting) == 1 else ("messages were", "wait")
        yield (
            f"{len(waiting)} {verbs[0]} not delivered and {verbs[1]} for the next run: "
            f"{shown}{more}."
        )


def plan_left(loaded: Loaded) -> Iterator[str]:
    """What a person who resumes should know of a plan that did not come to its end."""
    words = words_at_start(loaded.settings.get(PLAN))
    if words:
        yield words


def restore(
    conversation: Conversation,
    loaded: Loaded,
    *,
    recorder: Recorder | None,
    todo: TodoList,
    workspace: Workspace,
    cwd: Path,
    typed_dir: Path,
    redact: Callable[[str], str],
) -> None:
    """Give back what was typed and read, and have both follow the moves within the session.

    What was read is kept at the end of each run; what is typed before anything was said, and the
    prompts of all sessions, in `typed_dir`.
    """
    ledger, timeline = workspace.ledger, conversation.timeline
    root = project_root(cwd)
    timeline.follows |= {"todo": todo.load, "files_read": ledger.load}
    timeline.follows[PLAN] = partial(conversation.kept.load, PLAN)
    timeline.on_files.append(lambda paths: _forget(workspace, root, paths))
    if recorder is None:
        return
    ledger.load(loaded.settings.get("files_read"))
    conversation.subscribe(_keeping(ledger, recorder))
    if loaded.updated:
        # Its messages may all lie on other branches.
        conversation.unsent.message_came()
    conversation.unsent.draft = stored_draft(loaded.settings.get("draft"))
    conversation.unsent.stash = stored_stash(loaded.settings.get("stash"))
    conversation.unsent.keep_beside(typed_dir, redact)
    conversation.queue_again(stored_queue(loaded.settings.get("queue")))


def _keeping(ledger: ReadLedger, recorder: Recorder) -> Sink:
    """A sink that records what was read whenever a run has ended, if that changed."""
    kept = ledger.stored()

    def sink(event: LoopEvent) -> None:
        nonlocal kept
        if isinstance(event, AgentEnd) and ledger.stored() != kept:
            kept = ledger.stored()
            recorder.note_setting("files_read", kept)

    return sink


def _forget(workspace: Workspace, root: Path, paths: Sequence[str]) -> None:
    for path in paths:
        workspace.ledger.forget(os.path.realpath(root / path))
