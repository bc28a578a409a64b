"""The status line: folder, model, mode, context, cost and state; as much as fits is shown.

`StatusModel` is what it shows, `ContextGauge` how full the context is, `SpendingStatus` what was
spent, `LimitsShown` how far a run may go.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from dirge_py.files.git import branch_of
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.text import clean, format_cost, format_count
from dirge_py.types.events import PhaseName
from dirge_py.types.messages import Usage
from dirge_py.ui.theme.styles import Styles
from dirge_py.ui.transcript.lines import Line, clip, strip

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.conversation.run import Run
    from dirge_py.frontend.controller import ChatController


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsShown:
    """`[limits]` of each run, None being no limit, and how much of a window is used."""

    cost_usd: float | None = None
    """What a run may cost."""
    tokens: int | None = None
    """Tokens of a run, in and out."""
    input_tokens: int | None = None
    """Tokens that a run may send."""
    output_tokens: int | None = None
    """Tokens that a run may be answered with."""
    target_tokens: int = 250_000
    """The most that is used of a larger window."""
    fold_at: float | None = 0.75
    """The share of the window above which old history is folded; None: it never is."""


_NEAR = 0.9
"""From this part of the way to folding on, it is said that it comes near."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextGauge:
    """How full the context is."""

    used: int
    """Tokens of the next request."""
    window: int
    """Tokens of the model's window that are used at most; 0 where that is unknown."""
    fold_at: float | None = None
    """The share above which the next request is folded first; None: it never is."""

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
        """As `45k/200k 22%`, and the mark."""
        if not self.window:
            return format_count(self.used)
        figures = f"{format_count(self.used)}/{format_count(self.window)} {int(100 * self.share)}%"
        return f"{figures} {self.mark}".rstrip()

    def bar(self, width: int) -> str:
        """`███░░░░` in so many cells."""
        filled = round(width * min(1.0, self.share))
        return "█" * filled + "░" * (width - filled)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendingStatus:
    """What was spent, and the limits on it: of the run where one is set, else of the session."""

    cost_usd: float | None = 0.0
    """None while a price is unknown."""
    least_usd: float = 0.0
    """What is known of the cost all the same."""
    most_cost_usd: float | None = None
    """What a run may cost at most; None: there is no limit."""
    tokens: int = 0
    """Tokens of the run that count for `most_tokens`."""
    most_tokens: int | None = None
    """The nearest limit on tokens of a run; None: there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusModel:
    """What the status line shows. Empty texts and zeros take no room."""

    place: str
    """The folder and its branch."""
    model: str
    """The model in use, as `provider/model`."""
    mode: str
    """The permission mode."""
    state: str
    """What the conversation does: ready, working, asking and so on."""
    phase: str = ""
    """What goes on, where more is known of it than `state` says."""
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
    """What was spent, and the limits on it."""
    queued: int = 0
    """Prompts that wait."""
    shells: int = 0
    """Commands that run in the background."""
    asides: int = 0
    """Questions on the side that are being answered."""


def status_of(
    controller: "ChatController",
    place: str,
    *,
    bounds: LimitsShown | None = None,
    run: "Run | None" = None,
    face: str = "",
    phase: str = "",
) -> StatusModel:
    """How things are now. `run` is the one that goes on, or the last one."""
    conversation = controller.conversation
    if conversation is None:
        return StatusModel(place="", model="", mode="", state=controller.state, face=face)
    bounds = bounds or LimitsShown()
    return StatusModel(
        place=place,
        model=conversation.settings.model,
        mode=conversation.settings.mode,
        state=controller.state,
        phase=phase,
        face=face,
        thinking=conversation.settings.thinking,
        prompt=prompt_in_use(conversation),
        is_sandboxed=bool(conversation.environment.sandbox),
        gauge=ContextGauge(
            used=conversation.context_tokens,
            window=min(conversation.settings.window_tokens, bounds.target_tokens),
            fold_at=bounds.fold_at,
        ),
        spending=_spending(conversation, bounds, run),
        queued=len(controller.waiting),
        shells=running_shells(conversation),
        asides=conversation.side_questions,
    )


def _spending(
    conversation: "Conversation", bounds: LimitsShown, run: "Run | None"
) -> SpendingStatus:
    is_capped = bounds.cost_usd is not None
    tokens, most_tokens = _nearest_bound(bounds, run.usage if run is not None else Usage())
    return SpendingStatus(
        cost_usd=(run.cost_usd if run is not None else 0.0) if is_capped else conversation.cost_usd,
        least_usd=0.0 if is_capped else conversation.least_usd,
        most_cost_usd=bounds.cost_usd,
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
    """As `plan 4/4 · reviewing`, with the cycle from the second one on."""
    again = f", cycle {step}" if step > 1 else ""
    return f"plan {list(_DOING).index(phase) + 1}/{len(_DOING)} · {_DOING[phase]}{again}"


def _nearest_bound(bounds: LimitsShown, used: Usage) -> tuple[int, int | None]:
    """Of the limits on tokens the one that is nearest: what counts for it, and what it is."""
    pairs = [
        (used.total, bounds.tokens),
        (used.input, bounds.input_tokens),
        (used.output, bounds.output_tokens),
    ]
    bound = [(count, most) for count, most in pairs if most is not None]
    return max(bound, key=lambda pair: pair[0] / pair[1]) if bound else (0, None)


def prompt_in_use(conversation: "Conversation") -> str:
    """The name of the prompt that was chosen; "" for none."""
    book = conversation.settings.prompts
    return book.current.name if book is not None and book.current is not None else ""


def running_shells(conversation: "Conversation") -> int:
    """How many commands run in the background."""
    shells = conversation.environment.shells
    return sum(shell.status == "running" for shell in shells.list()) if shells is not None else 0


@dataclass(frozen=True, slots=True)
class _Part:
    """`rank`: a part of a higher rank goes first when the line gets narrow."""

    text: str
    style: Style
    rank: int


def status_line(standing: StatusModel, width: int, styles: Styles) -> Line:
    """The parts that fit into `width`; the state and the mode stay longest."""
    parts = _parts(standing, styles)
    while len(parts) > 1 and _width(parts) > width:
        parts.remove(max(parts, key=lambda part: part.rank))
    line: Line = []
    for part in parts:
        if line:
            line.append((" │ ", styles.dim))
        line.append((clip(part.text, width), part.style))
    return line


def _parts(standing: StatusModel, styles: Styles) -> list[_Part]:
    mode_style = {"yolo": styles.error, "plan": styles.accent, "accept": styles.good}
    model = standing.model
    if standing.thinking != "off":
        model += f":{standing.thinking}"
    parts = [
        _Part(standing.face, styles.accent, 6),
        _Part(_one_line(standing.place), styles.dim, 4),
        _Part(_one_line(model), styles.dim, 3),
        _Part(standing.mode, mode_style.get(standing.mode, styles.dim), 1),
    ]
    if standing.prompt:
        parts.append(_Part(_one_line(standing.prompt), styles.accent, 2))
    if standing.is_sandboxed:
        parts.append(_Part("sandbox", styles.good, 3))
    gauge = standing.gauge
    if gauge.used:
        full = {"": styles.dim, "fold": styles.warning, "fold!": styles.error}[gauge.mark]
        parts.append(_Part(gauge.words, full, 2))
    parts += [
        _Part(_cost(standing.spending), styles.dim, 5),
        _Part(_tokens(standing.spending), styles.dim, 5),
    ]
    state = _one_line(standing.phase) or standing.state
    parts.append(_Part(state, styles.accent if standing.state != "ready" else styles.dim, 0))
    if standing.asides:
        words = f"{standing.asides} aside{'s' * (standing.asides != 1)}"
        parts.append(_Part(words, styles.accent, 2))
    if standing.shells:
        words = f"{standing.shells} shell{'s' * (standing.shells != 1)}"
        parts.append(_Part(words, styles.accent, 2))
    if standing.queued:
        parts.append(_Part(f"q:{standing.queued}", styles.warning, 1))
    return [part for part in parts if part.text]


def _one_line(text: str) -> str:
    return " ".join(clean(text).split())


def _width(parts: Sequence[_Part]) -> int:
    return sum(cell_len(part.text) for part in parts) + 3 * (len(parts) - 1)


def _cost(spending: SpendingStatus) -> str:
    """As `$0.0123`, with what it may be at most if that is bound."""
    most = spending.most_cost_usd
    if spending.cost_usd is None:
        known = format_cost(None, spending.least_usd)
        return known if most is None else f"{known}/${most:.2f}"
    if most is not None:
        return f"${spending.cost_usd:.4f}/${most:.2f}"
    return f"${spending.cost_usd:.4f}" if spending.cost_usd > 0 else ""


def _tokens(spending: SpendingStatus) -> str:
    most = spending.most_tokens
    return (
        f"{format_count(spending.tokens)}/{format_count(most)} tokens" if most is not None else ""
    )


def folder_and_branch(cwd: Path) -> str:
    """The folder's name, and its branch when it is a git checkout."""
    branch = branch_of(cwd)
    return f"{cwd.name or '/'}:{branch}" if branch else cwd.name or "/"


class StatusBar(Widget, can_focus=False):
    """The lowest line of the screen."""

    DEFAULT_CSS = "StatusBar { height: 1; padding: 0 1; background: $background; }"

    def __init__(self, styles: Styles) -> None:
        super().__init__(id="status")
        self._styles = styles
        self._standing: StatusModel | None = None

    @property
    def standing(self) -> StatusModel | None:
        return self._standing

    def show_status(self, standing: StatusModel) -> None:
        if standing != self._standing:
            self._standing = standing
            self.refresh()

    def use_styles(self, styles: Styles) -> None:
        self._styles = styles
        self.refresh()

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        line = status_line(self._standing, width, self._styles) if self._standing else []
        return strip(line).crop_extend(0, width, self._styles.text)
