"""The agent's activity, from the events of a conversation: state, todos, changed files, a face.

The face is five cells of the status line that show the state.
"""

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from typing import Any, Literal

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.events import (
    AgentEnd,
    AgentStart,
    CompactionStarted,
    ContextCompacted,
    ForkEvent,
    LoopEvent,
    MessageEnd,
    MessageUpdate,
    PhaseName,
    PlanPhase,
    RetryNotice,
    ToolExecutionStart,
    TurnStart,
)
from dirge_py.types.messages import AssistantMessage, Message, ToolCallBlock, ToolResultMessage
from dirge_py.types.outcomes import Cancelled, Done
from dirge_py.ui.transcript.blocks import main_argument

Mood = Literal[
    "idle",
    "waiting",
    "thinking",
    "speaking",
    "reading",
    "writing",
    "bash",
    "alert",
    "error",
    "done",
]

# Plain ASCII: other signs are wide in some terminals, and narrow in others.
FACES: Mapping[Mood, tuple[str, ...]] = {
    "idle": ("(o o)",),
    "waiting": ("(- -)", "(_ _)"),
    "thinking": ("(o -)", "(- o)"),
    "speaking": ("(o_o)", "(oOo)"),
    "reading": ("(> >)", "(< <)"),
    "writing": ("(o,o)", "(o.o)"),
    "bash": ("($_$)", "($_ )"),
    "alert": ("(O!O)",),
    "error": ("(x x)",),
    "done": ("(^ ^)",),
}


def face(mood: Mood, beat: int = 0) -> str:
    """The face for a mood; some have two looks that alternate with every beat."""
    looks = FACES[mood]
    return looks[beat % len(looks)]


Stage = Literal["", "preparing", "waiting", "retrying", "compacting"]
"""What a run waits for; "" while it shows progress."""
MOST_RECENT = 12
MOST_FILES = 256
_OF_FILES = ("read", "glob", "list_dir", "find_files", "repo_overview")
_CHANGING = ("edit", "write", "apply_patch")
_MOODS: Mapping[str, Mood] = {
    **dict.fromkeys((*_OF_FILES, "grep", "webfetch", "websearch"), "reading"),
    **dict.fromkeys(_CHANGING, "writing"),
    **dict.fromkeys(("bash", "bash_output", "kill_shell"), "bash"),
}
"""The mood while a tool runs; "thinking" for all others."""
_SHOWN_OF_FORKS = (TurnStart, RetryNotice, MessageUpdate, ToolExecutionStart)
_NO_FOLDING = frozenset(("shown_again", "undone"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TodoEntry:
    """One item of the todo list."""

    text: str
    status: str
    """One of pending, in_progress and done."""


class RunActivity:
    """What the agent does now, and what it did, as the events of a conversation report it.

    `since` is when the stage began, on the clock (seconds), `until` when a retry comes.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.mood: Mood = "idle"
        self.stage: Stage = ""
        self.since = self.until = self.began = clock()
        self.forget()

    def forget(self) -> None:
        """Start again: another history takes the place of this one."""
        self.recent: deque[tuple[str, str]] = deque(maxlen=MOST_RECENT)
        """The last calls, the newest last, each a tool and its main argument."""
        self.changed: dict[str, int] = {}
        """The files that tools changed, the newest last, each with its first changed line."""
        self.todos: Sequence[TodoEntry] = ()
        self.foldings = 0
        """How often the conversation was compacted."""
        self.plan: tuple[PhaseName, int] | None = None
        """The phase of the running or last plan, and its cycle; None before there was one."""

    def load_history(self, messages: Sequence[Message], foldings: int = 0) -> None:
        """Rebuild the activity from a stored history."""
        self.forget()
        self.foldings = foldings
        for message in messages:
            if isinstance(message, AssistantMessage):
                for block in message.content:
                    if isinstance(block, ToolCallBlock):
                        self._add_call(block.name, block.arguments)
            elif isinstance(message, ToolResultMessage):
                self._add_result(message)

    def on_event(self, event: LoopEvent) -> None:
        match event:
            case AgentStart():
                self.began = self._clock()
                self._enter("preparing", "waiting")
            case TurnStart():
                self._enter("waiting", "waiting")
            case RetryNotice(delay_ms=delay_ms):
                self.until = self._clock() + delay_ms / 1000
                self._enter("retrying", "waiting")
            case CompactionStarted():
                # One that was cancelled has reported no end.
                self.stage = ""
                self._enter("compacting", "thinking")
            case ContextCompacted(kind=kind):
                self.foldings += kind not in _NO_FOLDING
                self._enter("waiting", "waiting")
            case MessageUpdate(phase=phase):
                self._enter("", "speaking" if phase.startswith("text") else "thinking")
            case MessageEnd(message=ToolResultMessage() as result):
                self._add_result(result)
            case ToolExecutionStart(tool_name=name, args=args):
                self._enter("", _MOODS.get(name, "thinking"))
                self._add_call(name, args)
            case AgentEnd(outcome=Cancelled()):
                self._enter("", "idle")
            case AgentEnd(outcome=outcome):
                self._enter("", "done" if isinstance(outcome, Done) else "error")
            case PlanPhase(phase=phase, step=step, state="started"):
                self.plan = (phase, step)
                self._enter("", "thinking")
            case ForkEvent(event=inner) if isinstance(inner, _SHOWN_OF_FORKS):
                self.on_event(inner)

    def _enter(self, stage: Stage, mood: Mood) -> None:
        if stage != self.stage:
            self.stage, self.since = stage, self._clock()
        self.mood = mood

    def _add_call(self, name: str, args: Any) -> None:
        shown = main_argument(args)
        if name in _OF_FILES + _CHANGING:
            shown = shown.rstrip("/").rpartition("/")[2]
        self.recent.append((name, shown))

    def _add_result(self, result: ToolResultMessage) -> None:
        if result.is_error:
            return
        if result.tool_name == "todo":
            self.todos = _todos(result.details.get("items")) or ()
        for file in changed_files(result.details.get("diff")):
            self.changed.pop(file.path, None)
            self.changed[file.path] = file.line
            if len(self.changed) > MOST_FILES:
                del self.changed[next(iter(self.changed))]


def _todos(items: Any) -> Sequence[TodoEntry]:
    """The items that the todo tool reports; anything else is left out."""
    return [
        TodoEntry(text=str(item.get("text")), status=str(item.get("status")))
        for item in items or ()
        if isinstance(item, Mapping)
    ]


_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)(?:,\d+)? @@")


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A file of a diff."""

    path: str
    """As the tool wrote it."""
    line: int
    """The first that changed; 0 where the file is gone."""


def changed_files(diff: object) -> Iterator[ChangedFile]:
    """The files of a unified diff with the names `old` and `new`, without `a/` and `b/`.

    Anything but a text, which details of a tool may have in its place, has none.
    """
    lines = diff.split("\n") if isinstance(diff, str) else ()
    for at in range(len(lines) - 2):
        old, new, hunk = lines[at : at + 3]
        if not (old.startswith("--- ") and new.startswith("+++ ")):
            continue
        begins = _HUNK.match(hunk)
        if begins is None:
            continue
        if new == "+++ /dev/null":
            yield ChangedFile(old[4:], 0)
        else:
            unchanged = takewhile(lambda line: line.startswith(" "), islice(lines, at + 3, None))
            yield ChangedFile(new[4:], int(begins[1]) + sum(1 for _ in unchanged))
