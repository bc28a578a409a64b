"""The status line: folder, model, mode, context, cost and state; as much as fits is shown.

`StatusModel` is what it shows, `ContextGauge` how full the context is, `LimitsShown` how far a run
may go.
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
    """`[limits]` of each run, None being no limit, and how much of a window is used.

    `target_tokens` is the most of a larger window; old history is folded above the share `fold_at`,
    None where it never is.
    """

    cost_usd: float | None = None
    tokens: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    target_tokens: int = 250_000
    fold_at: float | None = 0.75


_NEAR = 0.9
"""From this part of the way to folding on, it is said that it comes near."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextGauge:
    """`window` is the part of the model's window that is used, in tokens; 0 where unknown.

    Above the share `fold_at` the next request is folded first; None: it never is.
    """

    used: int
    window: int
    fold_at: float | None = None

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
class StatusModel:
    """What the status line tells. `cost_usd` is None while a price is unknown, and `least_usd` is
    what is known all the same.

    `prompt` is the one in use, `shells` counts commands that run in the background, `asides` the
    questions on the side that are being answered. Where a run may cost or use no more than
    `most_cost_usd` and `most_tokens`, `cost_usd` and `tokens` are those of the run. `phase`
    says more of what goes on than `state`; for `fold_at` see `ContextGauge`.
    """

    place: str
    model: str
    mode: str
    state: str
    context_tokens: int = 0
    window_tokens: int = 0
    cost_usd: float | None = 0.0
    least_usd: float = 0.0
    queued: int = 0
    thinking: str = "off"
    shells: int = 0
    asides: int = 0
    prompt: str = ""
    is_sandboxed: bool = False
    face: str = ""
    phase: str = ""
    fold_at: float | None = None
    most_cost_usd: float | None = None
    tokens: int = 0
    most_tokens: int | None = None

    @property
    def gauge(self) -> ContextGauge:
        return ContextGauge(
            used=self.context_tokens, window=self.window_tokens, fold_at=self.fold_at
        )


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
    is_capped = bounds.cost_usd is not None
    tokens, most_tokens = _nearest_bound(bounds, run.usage if run is not None else Usage())
    return StatusModel(
        place=place,
        model=conversation.settings.model,
        mode=conversation.settings.mode,
        state=controller.state,
        context_tokens=conversation.context_tokens,
        window_tokens=min(conversation.settings.window_tokens, bounds.target_tokens),
        cost_usd=(run.cost_usd if run is not None else 0.0) if is_capped else conversation.cost_usd,
        least_usd=0.0 if is_capped else conversation.least_usd,
        queued=len(controller.waiting),
        thinking=conversation.settings.thinking,
        shells=running_shells(conversation),
        asides=conversation.side_questions,
        prompt=prompt_in_use(conversation),
        is_sandboxed=bool(conversation.environment.sandbox),
        face=face,
        phase=phase,
        fold_at=bounds.fold_at,
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
    if standing.context_tokens:
        gauge = standing.gauge
        full = {"": styles.dim, "fold": styles.warning, "fold!": styles.error}[gauge.mark]
        parts.append(_Part(gauge.words, full, 2))
    parts += [_Part(_cost(standing), styles.dim, 5), _Part(_tokens(standing), styles.dim, 5)]
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


def _cost(standing: StatusModel) -> str:
    """As `$0.0123`, with what it may be at most if that is bound."""
    most = standing.most_cost_usd
    if standing.cost_usd is None:
        known = format_cost(None, standing.least_usd)
        return known if most is None else f"{known}/${most:.2f}"
    if most is not None:
        return f"${standing.cost_usd:.4f}/${most:.2f}"
    return f"${standing.cost_usd:.4f}" if standing.cost_usd > 0 else ""


def _tokens(standing: StatusModel) -> str:
    most = standing.most_tokens
    return (
        f"{format_count(standing.tokens)}/{format_count(most)} tokens" if most is not None else ""
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

    def tell(self, standing: StatusModel) -> None:
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
