"""The agent's activity, from the events of a conversation: state, todos, changed files, face."""

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from typing import Any, Literal

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types import events
from dirge_py.types.events import LoopEvent, PhaseName
from dirge_py.types.messages import AssistantMessage, Message, ToolResultMessage
from dirge_py.types.outcomes import Cancelled, Done
from dirge_py.ui.transcript.blocks import main_argument

Mood = (
    Literal["thinking", "speaking", "reading", "writing", "bash"]
    | Literal["idle", "waiting", "alert", "error", "done"]
)

# ASCII only, as the width of other signs depends on the terminal.
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
    """Return the face for a mood; some faces change with every beat."""
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
_OF_FORKS = (events.TurnStart, events.RetryNotice, events.MessageUpdate, events.ToolExecutionStart)
"""Events of forks that are shown."""
_NO_FOLDING = frozenset(("shown_again", "undone"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TodoEntry:
    """One item of the todo list."""

    text: str
    status: str
    """One of pending, in_progress and done."""


class RunActivity:
    """What the agent does and did. `since`: start of the stage; `until`: time of a retry."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.mood: Mood = "idle"
        self.stage: Stage = ""
        self.since = self.until = self.began = clock()
        self.forget()

    def forget(self) -> None:
        """Forget everything, as another history follows."""
        self.recent: deque[tuple[str, str]] = deque(maxlen=MOST_RECENT)
        """Tool and main argument of the last calls, the newest last."""
        self.changed: dict[str, int] = {}
        """The first changed line of each file that tools changed, the newest last."""
        self.todos: Sequence[TodoEntry] = ()
        self.foldings = 0
        """The number of compactions."""
        self.plan: tuple[PhaseName, int] | None = None
        """Phase and cycle of the running or last plan."""

    def load_history(self, messages: Sequence[Message], foldings: int = 0) -> None:
        """Rebuild the activity from a stored history."""
        self.forget()
        self.foldings = foldings
        for message in messages:
            if isinstance(message, AssistantMessage):
                for call in message.calls:
                    self._add_call(call.name, call.arguments)
            elif isinstance(message, ToolResultMessage):
                self._add_result(message)

    def on_event(self, event: LoopEvent) -> None:
        match event:
            case events.AgentStart():
                self.began = self._clock()
                self._enter("preparing", "waiting")
            case events.TurnStart():
                self._enter("waiting", "waiting")
            case events.RetryNotice(delay_ms=delay_ms):
                self.until = self._clock() + delay_ms / 1000
                self._enter("retrying", "waiting")
            case events.CompactionStarted():
                # A cancelled compaction reports no end.
                self.stage = ""
                self._enter("compacting", "thinking")
            case events.ContextCompacted(kind=kind):
                self.foldings += kind not in _NO_FOLDING
                self._enter("waiting", "waiting")
            case events.MessageUpdate(phase=phase):
                self._enter("", "speaking" if phase.startswith("text") else "thinking")
            case events.MessageEnd(message=ToolResultMessage() as result):
                self._add_result(result)
            case events.ToolExecutionStart(tool_name=name, args=args):
                self._enter("", _MOODS.get(name, "thinking"))
                self._add_call(name, args)
            case events.AgentEnd(outcome=Cancelled()):
                self._enter("", "idle")
            case events.AgentEnd(outcome=outcome):
                self._enter("", "done" if isinstance(outcome, Done) else "error")
            case events.PlanPhase(phase=phase, step=step, state="started"):
                self.plan = (phase, step)
                self._enter("", "thinking")
            case events.ForkEvent(event=inner) if isinstance(inner, _OF_FORKS):
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
            self.todos = [
                TodoEntry(text=str(item.get("text")), status=str(item.get("status")))
                for item in result.details.get("items") or ()
                if isinstance(item, Mapping)
            ]
        for file in changed_files(result.details.get("diff")):
            self.changed.pop(file.path, None)
            self.changed[file.path] = file.line
            if len(self.changed) > MOST_FILES:
                del self.changed[next(iter(self.changed))]


_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)(?:,\d+)? @@")


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A file of a diff."""

    path: str
    """The path as the tool wrote it."""
    line: int
    """The first changed line; 0 for a removed file."""


def changed_files(diff: object) -> Iterator[ChangedFile]:
    """Yield the files of a unified diff without `a/` and `b/`; none if `diff` is no text."""
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
