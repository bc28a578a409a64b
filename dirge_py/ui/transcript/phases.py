"""The phases of a plan, as headings across the transcript."""

from rich.cells import cell_len
from textual.strip import Strip

from dirge_py.lib.clean import clean
from dirge_py.plan_events import PlanPhase
from dirge_py.ui.ink import Ink
from dirge_py.ui.transcript.blocks import BlockBase, guess_lines
from dirge_py.ui.transcript.lines import clip, strip, wrap


class PhaseBlock(BlockBase):
    """A rule with the name of the phase; below it what came of one that ended."""

    def __init__(self, event: PlanPhase) -> None:
        super().__init__()
        step = f", cycle {event.step}" if event.step > 1 else ""
        end = ": done" if event.state == "ended" else ""
        self._title = clean(f"{event.phase}{step}{end}")
        self._summary = clean(event.summary).strip()

    @property
    def text(self) -> str:
        return f"{self._title}\n{self._summary}".rstrip()

    def paint(self, width: int, ink: Ink, *, expanded: bool) -> list[Strip]:
        title = clip(self._title, max(1, width - 6))
        rule = "─" * max(0, width - cell_len(title) - 4)
        head = strip([("── ", ink.dim), (title, ink.heading), (f" {rule}", ink.dim)])
        return [head, *(wrap([(self._summary, ink.dim)], width) if self._summary else [])]

    def guess_height(self, width: int) -> int:
        return 1 + (guess_lines(self._summary, width) if self._summary else 0)
