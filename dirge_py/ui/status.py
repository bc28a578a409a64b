"""What the agent does, and the status line: as much of the conversation's state as fits."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rich.cells import cell_len
from rich.style import Style
from textual.reactive import reactive

from dirge_py.git.repository import branch_of
from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.text import clean, format_cost, format_count, plural
from dirge_py.types import events
from dirge_py.types.events import LoopEvent, PhaseName
from dirge_py.types.messages import AssistantMessage, Message, ToolResultMessage, Usage
from dirge_py.types.outcomes import Cancelled, Done
from dirge_py.ui.theme.styles import Styles
from dirge_py.ui.transcript.blocks import title_argument, todo_items
from dirge_py.ui.transcript.lines import Line, LinesWidget, clip

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.conversation.run import Run


Mood = (
    Literal["thinking", "speaking", "reading", "writing", "bash"]
    | Literal["idle", "waiting", "alert", "error", "done"]
)

# ASCII only, as the width of other signs depends on the terminal.
FACES: Mapping[Mood, tuple[str, ...]] = {
    "idle": ("(o o)",), "waiting": ("(- -)", "(_ _)"), "thinking": ("(o -)", "(- o)"),
    "speaking": ("(o_o)", "(oOo)"), "reading": ("(> >)", "(< <)"), "writing": ("(o,o)", "(o.o)"),
    "bash": ("($_$)", "($_ )"), "alert": ("(O!O)",), "error": ("(x x)",), "done": ("(^ ^)",),
}  # fmt: skip


def face(mood: Mood, beat: int = 0) -> str:
    """Return the face for a mood; some faces change with every beat."""
    looks = FACES[mood]
    return looks[beat % len(looks)]


Stage = Literal["", "preparing", "waiting", "retrying", "compacting"]
"""What a run waits for; "" while it shows progress."""
_CHARACTERS_PER_TOKEN = 3.5
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


class RunActivity:
    """What the agent does and did. `since`: start of the stage; `until`: time of a retry."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.mood: Mood = "idle"
        self.stage: Stage = ""
        self.since = self.until = self.began = clock()
        self._output_tokens = self._streamed = 0
        self.forget()

    def forget(self) -> None:
        """Forget everything, as another history follows."""
        self.recent: deque[tuple[str, str]] = deque(maxlen=MOST_RECENT)
        """Tool and main argument of the last calls, the newest last."""
        self.changed: dict[str, int] = {}
        """The first changed line of each file that tools changed, the newest last."""
        self.todos: Sequence[tuple[str, str]] = ()
        """Status and text of the items of the todo list."""
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
                self._output_tokens = self._streamed = 0
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
            case events.MessageUpdate(phase=phase, delta=delta):
                self._streamed += len(delta)
                self._enter("", "speaking" if phase.startswith("text") else "thinking")
            case events.MessageEnd(message=ToolResultMessage() as result):
                self._add_result(result)
            case events.MessageEnd(message=AssistantMessage() as answer):
                counted = answer.usage.output if answer.usage is not None else 0
                self._output_tokens += counted or round(self._streamed / _CHARACTERS_PER_TOKEN)
                self._streamed = 0
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

    @property
    def output_tokens(self) -> int:
        """The tokens that the model has written in this run; of the open answer an estimate."""
        return self._output_tokens + round(self._streamed / _CHARACTERS_PER_TOKEN)

    def _enter(self, stage: Stage, mood: Mood) -> None:
        if stage != self.stage:
            self.stage, self.since = stage, self._clock()
        self.mood = mood

    def _add_call(self, name: str, args: Any) -> None:
        shown = title_argument(args)
        if name in _OF_FILES + _CHANGING:
            shown = shown.rstrip("/").rpartition("/")[2]
        self.recent.append((name, shown))

    def _add_result(self, result: ToolResultMessage) -> None:
        if result.is_error:
            return
        if result.tool_name == "todo":
            self.todos = todo_items(result.details)
        for file in changed_files(result.details.get("diff")):
            self.changed.pop(file.path, None)
            self.changed[file.path] = file.line
            if len(self.changed) > MOST_FILES:
                del self.changed[next(iter(self.changed))]


_HUNK = late_pattern(r"@@ -\d+(?:,\d+)? \+(\d+)(?:,\d+)? @@")


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


_NEAR = 0.9
"""Part of `fold_at` above which the mark `fold` is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextGauge:
    """How full the context is."""

    used: int
    """Tokens of the next request."""
    window: int
    """Tokens of the model's window that are used at most; 0 if unknown."""
    fold_at: float | None = None
    """The share above which old history is folded before a request; None for never."""

    @property
    def share(self) -> float:
        return self.used / self.window if self.window else 0.0

    @property
    def mark(self) -> str:
        """`fold!` when the next request folds old history, `fold` when that comes near."""
        if self.fold_at is None or not self.window:
            return ""
        if self.share > self.fold_at:
            return "fold!"
        return "fold" if self.share > self.fold_at * _NEAR else ""

    @property
    def words(self) -> str:
        """The fill, such as `45k/200k 22%`, and what the mark means."""
        if not self.window:
            return format_count(self.used)
        figures = f"{format_count(self.used)}/{format_count(self.window)} {int(100 * self.share)}%"
        meaning = {"": "", "fold": " compacts soon", "fold!": " compacts next"}[self.mark]
        return figures + meaning

    def bar(self, width: int) -> str:
        """Return a bar such as `███░░░░` of `width` cells."""
        filled = round(width * min(1.0, self.share))
        return "█" * filled + "░" * (width - filled)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendingStatus:
    """Cost and tokens with their limits: of the run if it has a limit, else of the session."""

    cost_usd: float | None = 0.0
    """None while a price is unknown."""
    least_usd: float = 0.0
    """The part of the cost that is known."""
    most_cost_usd: float | None = None
    """Cost of a run at most; None for no limit."""
    tokens: int = 0
    """Tokens of the run that count for `most_tokens`."""
    most_tokens: int | None = None
    """The nearest limit on tokens of a run; None for no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusModel:
    """What the status line shows; empty texts and zeros are left out."""

    place: str
    """The folder and its branch."""
    model: str
    """The model in use, as `provider/model`."""
    mode: str
    """The permission mode."""
    state: str
    """The state of the conversation: ready, working, asking and so on."""
    phase: str = ""
    """The current work, if it is known more exactly than `state`."""
    face: str = ""
    """The face for the mood."""
    thinking: str = "off"
    """The thinking level."""
    prompt: str = ""
    """The name of the system prompt in use."""
    is_sandboxed: bool = False
    """Commands run in a sandbox."""
    gauge: ContextGauge = ContextGauge(used=0, window=0)
    """How full the context is."""
    spending: SpendingStatus = SpendingStatus()
    """Cost and tokens with their limits."""
    queued: int = 0
    """Queued prompts."""
    shells: int = 0
    """Commands that run in the background."""
    asides: int = 0
    """Questions on the side that are being answered."""
    attention: str = ""
    """Names of extensions whose status needs the user's attention."""


def spending_of(conversation: "Conversation", run: "Run | None") -> SpendingStatus:
    """Return cost and tokens of the conversation; `run` is the running or last one."""
    limits = conversation.settings.limits.most
    used, session = run.usage if run is not None else Usage(), conversation.usage.total
    pairs = (
        (used.total, limits.tokens),
        (used.input, limits.input_tokens),
        (used.output, limits.output_tokens),
        (session, limits.session_tokens),
    )
    limited = [(count, most) for count, most in pairs if most is not None]
    tokens, most_tokens = max(limited, key=lambda pair: pair[0] / pair[1], default=(0, None))
    is_of_run = limits.cost_usd is not None
    cost_usd = run.cost_usd if run is not None else 0.0
    return SpendingStatus(
        cost_usd=cost_usd if is_of_run else conversation.cost_usd,
        least_usd=0.0 if is_of_run else conversation.least_usd,
        most_cost_usd=limits.cost_usd if is_of_run else limits.session_cost_usd,
        tokens=tokens,
        most_tokens=most_tokens,
    )


_DOING: dict[PhaseName, str] = {
    "explore": "exploring",
    "plan": "planning",
    "implement": "implementing",
    "review": "reviewing",
}


def plan_words(phase: PhaseName, step: int) -> str:
    """Return a text such as `plan 4/4 · reviewing, cycle 2`."""
    again = f", cycle {step}" if step > 1 else ""
    return f"plan {list(_DOING).index(phase) + 1}/{len(_DOING)} · {_DOING[phase]}{again}"


def prompt_in_use(conversation: "Conversation") -> str:
    """Return the name of the chosen system prompt; "" for none."""
    current = conversation.settings.prompts.current
    return current.name if current is not None else ""


def running_shells(conversation: "Conversation") -> int:
    """Count the commands that run in the background."""
    shells = conversation.environment.shells
    return sum(shell.status == "running" for shell in shells.list()) if shells is not None else 0


def needing_attention(conversation: "Conversation") -> str:
    """Return the names of extensions whose status isn't ok; "" for none."""
    states = ((each.name, each.status()) for each in conversation.extensions.all)
    return ", ".join(name for name, status in states if status is not None and not status.is_ok)


class _Part(NamedTuple):
    text: str
    style: Style
    rank: int
    """The part with the highest rank is dropped first on a narrow screen."""


def status_line(status: StatusModel, width: int, styles: Styles) -> Line:
    """Return the parts that fit into `width`."""
    parts = _parts(status, styles)
    while len(parts) > 1 and sum(cell_len(p.text) + 3 for p in parts) - 3 > width:
        parts.remove(max(parts, key=lambda part: part.rank))
    divider = (" │ ", styles.dim)
    shown = [(clip(part.text, width), part.style) for part in parts]
    return [span for part in shown for span in (divider, part)][1:]


def mode_style(mode: str, styles: Styles) -> Style:
    """Return the style of a permission mode."""
    marked = {"yolo": styles.error, "plan": styles.accent, "accept": styles.good}
    return marked.get(mode, styles.dim)


def _parts(status: StatusModel, styles: Styles) -> list[_Part]:
    model = status.model + (f":{status.thinking}" if status.thinking != "off" else "")
    gauge, spending = status.gauge, status.spending
    full = {"": styles.dim, "fold": styles.warning, "fold!": styles.error}[gauge.mark]
    tokens = ""
    if spending.most_tokens is not None:
        tokens = f"{format_count(spending.tokens)}/{format_count(spending.most_tokens)} tokens"
    at_work = styles.accent if status.state != "ready" else styles.dim
    attention = f"! {_one_line(status.attention)}" if status.attention else ""
    parts = [
        _Part(status.face, styles.accent, 6),
        _Part(_one_line(status.place), styles.dim, 4),
        _Part(_one_line(model), styles.dim, 3),
        _Part(status.mode, mode_style(status.mode, styles), 1),
        _Part(_one_line(status.prompt), styles.accent, 2),
        _Part("sandbox" if status.is_sandboxed else "", styles.good, 3),
        _Part(gauge.words if gauge.used else "", full, 2),
        _Part(_cost(spending), styles.dim, 5),
        _Part(tokens, styles.dim, 5),
        _Part(_one_line(status.phase) or status.state, at_work, 0),
        _Part(plural(status.asides, "aside") if status.asides else "", styles.accent, 2),
        _Part(plural(status.shells, "shell") if status.shells else "", styles.accent, 2),
        _Part(attention, styles.warning, 1),
        _Part(f"q:{status.queued}" if status.queued else "", styles.warning, 1),
    ]
    return [part for part in parts if part.text]


def _one_line(text: str) -> str:
    return " ".join(clean(text).split())


def _cost(spending: SpendingStatus) -> str:
    cost, most = spending.cost_usd, spending.most_cost_usd
    spent = format_cost(cost, spending.least_usd)
    if most is not None:
        return f"{spent}/${most:.2f}"
    return spent if cost is None or cost > 0 else ""


def folder_and_branch(cwd: Path) -> str:
    """Return the folder's name, and the branch of a git checkout."""
    branch = branch_of(cwd)
    return f"{cwd.name or '/'}:{branch}" if branch else cwd.name or "/"


class StatusBar(LinesWidget):
    """The lowest line of the screen."""

    DEFAULT_CSS = "StatusBar { height: 1; padding: 0 1; background: $background; }"

    status: reactive[StatusModel | None] = reactive(None)

    def __init__(self, styles: Styles) -> None:
        super().__init__(styles, "status")

    def line_at(self, y: int) -> Line:
        return status_line(self.status, self.size.width, self._styles) if self.status else []
