"""The status line: where, which model, which mode, how full, how dear; what fits is shown."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from dirge_py.lib.clean import clean
from dirge_py.lib.figures import thousands
from dirge_py.ui.ink import Ink
from dirge_py.ui.transcript.lines import Line, clip, strip

if TYPE_CHECKING:
    from dirge_py.conversation import Conversation
    from dirge_py.talk.talk import Talk


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What the status line tells. `cost_usd` is None while a price is unknown.

    `prompt` is the one in use, `shells` counts commands that run in the background.
    """

    place: str
    model: str
    mode: str
    state: str
    context_tokens: int = 0
    window_tokens: int = 0
    cost_usd: float | None = 0.0
    queued: int = 0
    thinking: str = "off"
    shells: int = 0
    prompt: str = ""
    is_sandboxed: bool = False


def standing_of(talk: "Talk", place: str) -> Standing:
    """How things are now."""
    conversation = talk.conversation
    if conversation is None:
        return Standing(place="", model="", mode="", state=talk.state)
    return Standing(
        place=place,
        model=conversation.model,
        mode=conversation.mode,
        state=talk.state,
        context_tokens=conversation.context_tokens,
        window_tokens=conversation.window_tokens,
        cost_usd=conversation.cost_usd,
        queued=len(talk.waiting),
        thinking=conversation.thinking,
        shells=running_shells(conversation),
        prompt=prompt_in_use(conversation),
        is_sandboxed=bool(conversation.sandbox),
    )


def prompt_in_use(conversation: "Conversation") -> str:
    """The name of the prompt that was chosen; "" for none."""
    book = conversation.prompts
    return book.current.name if book is not None and book.current is not None else ""


def running_shells(conversation: "Conversation") -> int:
    """How many commands run in the background."""
    shells = conversation.shells
    return sum(shell.status == "running" for shell in shells.list()) if shells is not None else 0


@dataclass(frozen=True, slots=True)
class _Part:
    """`rank`: a part of a higher rank goes first when the line gets narrow."""

    text: str
    style: Style
    rank: int


def status_line(standing: Standing, width: int, ink: Ink) -> Line:
    """The parts that fit into `width`; the state and the mode stay longest."""
    parts = _parts(standing, ink)
    while len(parts) > 1 and _width(parts) > width:
        parts.remove(max(parts, key=lambda part: part.rank))
    line: Line = []
    for part in parts:
        if line:
            line.append((" │ ", ink.dim))
        line.append((clip(part.text, width), part.style))
    return line


def _parts(standing: Standing, ink: Ink) -> list[_Part]:
    mode_style = {"yolo": ink.error, "plan": ink.accent, "accept": ink.good}
    model = standing.model
    if standing.thinking != "off":
        model += f":{standing.thinking}"
    parts = [
        _Part(clean(standing.place), ink.dim, 4),
        _Part(clean(model), ink.dim, 3),
        _Part(standing.mode, mode_style.get(standing.mode, ink.dim), 1),
    ]
    if standing.prompt:
        parts.append(_Part(clean(standing.prompt), ink.accent, 2))
    if standing.is_sandboxed:
        parts.append(_Part("sandbox", ink.good, 3))
    if standing.context_tokens:
        parts.append(_Part(_fill(standing), _fill_style(standing, ink), 2))
    if standing.cost_usd is None or standing.cost_usd > 0:
        cost = "cost unknown" if standing.cost_usd is None else f"${standing.cost_usd:.4f}"
        parts.append(_Part(cost, ink.dim, 5))
    parts.append(_Part(standing.state, ink.accent if standing.state != "ready" else ink.dim, 0))
    if standing.shells:
        words = f"{standing.shells} shell{'s' * (standing.shells != 1)}"
        parts.append(_Part(words, ink.accent, 2))
    if standing.queued:
        parts.append(_Part(f"q:{standing.queued}", ink.warning, 1))
    return [part for part in parts if part.text]


def _width(parts: Sequence[_Part]) -> int:
    return sum(cell_len(part.text) for part in parts) + 3 * (len(parts) - 1)


def _fill(standing: Standing) -> str:
    used = thousands(standing.context_tokens)
    if not standing.window_tokens:
        return used
    share = 100 * standing.context_tokens // standing.window_tokens
    return f"{used}/{thousands(standing.window_tokens)} {share}%"


def _fill_style(standing: Standing, ink: Ink) -> Style:
    full = standing.window_tokens and standing.context_tokens >= standing.window_tokens * 3 / 4
    return ink.warning if full else ink.dim


def place_of(cwd: Path) -> str:
    """The folder's name, and its branch when it is a git checkout."""
    branch = branch_of(cwd)
    return f"{cwd.name or '/'}:{branch}" if branch else cwd.name or "/"


def branch_of(cwd: Path) -> str:
    """The branch that is checked out there, or the start of a commit; empty outside of git."""
    for folder in (cwd, *cwd.parents):
        dot_git = folder / ".git"
        if not dot_git.exists():
            continue
        try:
            if dot_git.is_file():
                target = dot_git.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
                dot_git = folder / target
            head = (dot_git / "HEAD").read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            return ""
        return head.removeprefix("ref: refs/heads/") if head.startswith("ref:") else head[:8]
    return ""


class StatusBar(Widget, can_focus=False):
    """The lowest line of the screen."""

    DEFAULT_CSS = "StatusBar { height: 1; padding: 0 1; background: $background; }"

    def __init__(self, ink: Ink) -> None:
        super().__init__(id="status")
        self._ink = ink
        self._standing: Standing | None = None

    @property
    def standing(self) -> Standing | None:
        return self._standing

    def tell(self, standing: Standing) -> None:
        if standing != self._standing:
            self._standing = standing
            self.refresh()

    def set_ink(self, ink: Ink) -> None:
        self._ink = ink
        self.refresh()

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        line = status_line(self._standing, width, self._ink) if self._standing else []
        return strip(line).crop_extend(0, width, self._ink.text)
