"""The status line: as much of folder, model, mode, context, cost and state as fits."""

from dirge_py.git.repository import branch_of
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.text import clean, format_cost, format_count, plural
from dirge_py.types.events import PhaseName
from dirge_py.types.messages import Usage
from dirge_py.ui.theme.styles import Styles
from dirge_py.ui.transcript.lines import Line, LinesWidget, clip
from pathlib import Path
from rich.cells import cell_len
from rich.style import Style
from textual.reactive import reactive
from typing import NamedTuple, TYPE_CHECKING

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.conversation.run import Run






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
        """The fill, such as `45k/200k 22%`, and the mark."""
        if not self.window:
            return format_count(self.used)
        figures = f"{format_count(self.used)}/{format_count(self.window)} {int(100 * self.share)}%"
        return f"{figures} {self.mark}".rstrip()

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


def _parts(status: StatusModel, styles: Styles) -> list[_Part]:
    mode_style = {"yolo": styles.error, "plan": styles.accent, "accept": styles.good}
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
        _Part(status.mode, mode_style.get(status.mode, styles.dim), 1),
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
