"""The agent's activity as a conversation's events tell it: state, todos, changed files, a face.

The face is five cells of the status line that show the state.
"""

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from dirge_py.types.outcomes import Cancelled, Done, Outcome
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
    """The face for a mood; some have two looks that take turns with every beat."""
    looks = FACES[mood]
    return looks[beat % len(looks)]


Stage = Literal["", "preparing", "waiting", "retrying", "compacting"]
"""What a run waits for; "": something goes on that is seen."""
MOST_RECENT = 12
MOST_FILES = 256
_READING = frozenset(
    ("read", "grep", "glob", "list_dir", "find_files", "repo_overview", "webfetch", "websearch")
)
_WRITING = frozenset(("edit", "write", "apply_patch"))
_COMMANDS = frozenset(("bash", "bash_output", "kill_shell"))
_NO_FOLDING = frozenset(("shown_again", "undone"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TodoEntry:
    """`status` is one of pending, in_progress and done."""

    text: str
    status: str


class RunActivity:
    """`recent` are the last calls, the newest last, each a tool and its main argument.

    `changed` are the files that tools changed, the newest last; `since` is when the stage began, on
    the clock (seconds), `until` when a retry comes. `plan` is the phase of a plan that goes on, or
    went on last, and its cycle; None before there was one.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.mood: Mood = "idle"
        self.stage: Stage = ""
        self.since = self.until = self.began = clock()
        self.forget()

    def forget(self) -> None:
        """Another history takes the place of this one."""
        self.recent: deque[tuple[str, str]] = deque(maxlen=MOST_RECENT)
        self.changed: dict[str, int] = {}
        self.todos: Sequence[TodoEntry] = ()
        self.foldings = 0
        self.plan: tuple[PhaseName, int] | None = None

    def load_history(self, messages: Sequence[Message], foldings: int = 0) -> None:
        """Learn what came of a history that is there already."""
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
                # One that was broken off has told of no end.
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
                self._enter("", _mood_of(name))
                self._add_call(name, args)
            case AgentEnd(outcome=outcome):
                self._enter("", _mood_at_end(outcome))
            case PlanPhase(phase=phase, step=step, state="started"):
                self.plan = (phase, step)
                self._enter("", "thinking")
            case ForkEvent(event=TurnStart() | RetryNotice() | MessageUpdate() as inner):
                self.on_event(inner)
            case ForkEvent(event=ToolExecutionStart() as inner):
                self.on_event(inner)

    def _enter(self, stage: Stage, mood: Mood) -> None:
        if stage != self.stage:
            self.stage, self.since = stage, self._clock()
        self.mood = mood

    def _add_call(self, name: str, args: Any) -> None:
        shown = main_argument(args)
        if name in _READING | _WRITING and name not in ("grep", "websearch", "webfetch"):
            shown = shown.rstrip("/").rpartition("/")[2]
        self.recent.append((name, shown))

    def _add_result(self, result: ToolResultMessage) -> None:
        if result.is_error:
            return
        if result.tool_name == "todo":
            self.todos = _todos(result.details.get("items")) or ()
        diff = result.details.get("diff")
        self._add_files(diff if isinstance(diff, str) else "")

    def _add_files(self, diff: str) -> None:
        for file in changed_files(diff):
            self.changed.pop(file.path, None)
            self.changed[file.path] = file.line
            if len(self.changed) > MOST_FILES:
                del self.changed[next(iter(self.changed))]


def _mood_of(tool: str) -> Mood:
    if tool in _READING:
        return "reading"
    if tool in _WRITING:
        return "writing"
    return "bash" if tool in _COMMANDS else "thinking"


def _mood_at_end(outcome: Outcome) -> Mood:
    if isinstance(outcome, Cancelled):
        return "idle"
    return "done" if isinstance(outcome, Done) else "error"


def _todos(items: Any) -> Sequence[TodoEntry]:
    """The items as the todo tool tells them; what is none is left out."""
    found = [item for item in items if isinstance(item, Mapping)] if items else []
    return [TodoEntry(text=str(item.get("text")), status=str(item.get("status"))) for item in found]


_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)(?:,\d+)? @@")


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """`path` as the tool wrote it; `line` is the first that changed, 0 where the file is gone."""

    path: str
    line: int


def changed_files(diff: str) -> Iterator[ChangedFile]:
    """The files of a unified diff with the names `old` and `new`, without `a/` and `b/`."""
    lines = diff.split("\n")
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
            yield ChangedFile(new[4:], int(begins[1]) + _unchanged(lines, at + 3))


def _unchanged(lines: list[str], at: int) -> int:
    """How many lines that stayed the same a hunk begins with."""
    end = at
    while end < len(lines) and lines[end].startswith(" "):
        end += 1
    return end - at
