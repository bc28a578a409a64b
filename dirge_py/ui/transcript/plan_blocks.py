"""The blocks of a plan in the transcript: a heading for each phase, its evidence, its document."""

import time
from collections.abc import Callable, Sequence
from typing import get_args

from rich.cells import cell_len
from textual.strip import Strip

from dirge_py.lib.text import clean, plural
from dirge_py.types import events
from dirge_py.types.events import EvidenceTaken, LoopEvent, PhaseName, PlanPhase
from dirge_py.ui.theme.styles import Styles
from dirge_py.ui.transcript.blocks import TranscriptBlock, duration_text, spent_text, title_argument
from dirge_py.ui.transcript.lines import Span, behind, clip, strip, wrap
from dirge_py.ui.transcript.prose import ProseBlock

PHASES: Sequence[PhaseName] = get_args(PhaseName)
_LEAST_RULE = 4
_INDENT = "  "


def step_of_plan(phase: PhaseName, step: int) -> str:
    """Return a text such as `4/4 review, cycle 2`."""
    cycle = f", cycle {step}" if step > 1 else ""
    return f"{PHASES.index(phase) + 1}/{len(PHASES)} {phase}{cycle}"


class PhaseBlock(TranscriptBlock):
    """The heading of a phase with its progress or result; the group of its fork's blocks."""

    def __init__(self, event: PlanPhase, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self.phase = event.phase
        self.step = event.step
        self._sandbox = clean(event.shut_in)
        self._clock = clock
        self._began = clock()
        self._calls = self._denied = 0
        self._last = ""
        self.is_over = False
        self._ending = ""
        self._spent: Sequence[str] = ()
        self._summary = ""
        self._has_more = False

    @property
    def can_expand(self) -> bool:
        return self._has_more

    def start_group(self) -> bool:
        """Show that blocks belong to it; return False if it showed that already."""
        if self._has_more:
            return False
        self._has_more = True
        self.changed()
        return True

    def on_event(self, event: LoopEvent) -> bool:
        """Update the progress from an event of its fork; return whether it changed."""
        last = self._last
        match event:
            case events.ToolExecutionStart(tool_name=name, args=args):
                self._calls += 1
                last = f"{name} {title_argument(args)}".partition("\n")[0]
            case events.MessageUpdate(phase="thinking_delta"):
                last = "thinking"
            case events.MessageUpdate(phase="text_delta"):
                last = "writing"
            case events.RetryNotice(attempt=attempt):
                last = f"try {attempt + 1}"
            case events.PermissionAsked(tool_name=name):
                last = f"{name} waits for your answer"
            case events.PermissionAnswered(effect="deny", tool_name=name):
                self._denied += 1
                last = f"{name} was denied"
            case _:
                return False
        if last == self._last and not isinstance(event, events.ToolExecutionStart):
            return False
        self._last = clean(last)
        self.changed()
        return True

    def end(self, event: PlanPhase, *, has_text_below: bool = False) -> None:
        """Show how it ended, without a summary if the whole text follows below."""
        self._sandbox = clean(event.shut_in) or self._sandbox
        self.is_over = True
        self._ending = duration_text(event.duration_ms / 1000)
        self._spent = spent_text(event.usage, event.cost_usd)
        self._summary = "" if has_text_below else clean(event.summary).strip()
        self.changed()

    def cut_off(self) -> None:
        if not self.is_over:
            self.is_over = True
            after = duration_text(self._clock() - self._began)
            self._ending = f"stopped after {after}" if after else "stopped"
            self.changed()

    @property
    def text(self) -> str:
        title = step_of_plan(self.phase, self.step)
        return "\n".join(p for p in (title, self._sandbox, self._progress, self._summary) if p)

    @property
    def _progress(self) -> str:
        """Progress or result, such as `34 s · 12 calls · read shop.py`."""
        seconds = "" if self.is_over else duration_text(self._clock() - self._began)
        calls = plural(self._calls, "call") if self._calls else ""
        denied = f"{self._denied} denied" if self._denied else ""
        last = "" if self.is_over else self._last
        parts = (self._ending, seconds, calls, denied, *self._spent, last)
        return " · ".join(part for part in parts if part)

    def paint(self, width: int, styles: Styles, *, expanded: bool) -> list[Strip]:
        strips = self._paint_rule(width, styles)
        mark = _INDENT
        if self._has_more:
            mark = "▾ " if expanded else "▸ "
        if progress := self._progress:
            if not self.is_over:
                progress = clip(progress, max(1, width - len(mark)))
            first, rest = (mark, styles.accent), (_INDENT, styles.text)
            strips += wrap([(progress, styles.dim)], width, first=[first], rest=[rest])
        if self._summary:
            strips += wrap([(self._summary, styles.text)], width, indent=(_INDENT, styles.text))
        return strips

    def _paint_rule(self, width: int, styles: Styles) -> list[Strip]:
        title = clip(step_of_plan(self.phase, self.step), max(1, width - 6))
        left = width - cell_len(title) - 4
        look = styles.markdown.line
        spans: list[Span] = [("── ", look), (title, styles.heading)]
        needed = cell_len(self._sandbox) + 4
        if self._sandbox and needed + _LEAST_RULE <= left:
            rule = (f" {'─' * (left - needed)} ", look)
            return [strip([*spans, rule, (self._sandbox, styles.dim), (" ──", look)])]
        line = strip([*spans, (f" {'─' * left}", look)])
        below = wrap([(self._sandbox, styles.dim)], width, indent=(_INDENT, styles.text))
        return [line, *below] if self._sandbox else [line]


_EVIDENCE = {
    "passed": ("✓", ""), "failed": ("✗", ""), "denied": ("⊘", "denied"),
    "timeout": ("✗", "timed out"), "stopped": ("◌", "stopped"),
}  # fmt: skip
_MOST_EVIDENCE = 6


def evidence_words(event: EvidenceTaken) -> tuple[str, str, str]:
    """Return a mark, the id with the command, and how the command ended."""
    mark, how = _EVIDENCE[event.outcome]
    if not how:
        how = f"exit {event.exit_code}" if event.exit_code is not None else "failed"
    return mark, clean(f"{event.id} {event.command}"), how


class EvidenceBlock(TranscriptBlock):
    """Commands run as evidence, a line each; collapsed to the failed and the latest ones."""

    gap = False
    most_guessed = _MOST_EVIDENCE + 1

    def __init__(self) -> None:
        super().__init__()
        self._taken: list[EvidenceTaken] = []

    def add(self, event: EvidenceTaken) -> None:
        self._taken.append(event)
        self.changed()

    @property
    def can_expand(self) -> bool:
        return len(self._taken) > _MOST_EVIDENCE or any("\n" in e.command for e in self._taken)

    @property
    def text(self) -> str:
        return "\n".join(" ".join(evidence_words(event)) for event in self._taken)

    def paint(self, width: int, styles: Styles, *, expanded: bool) -> list[Strip]:
        shown = self._taken if expanded else self._worth_a_line()
        strips: list[Strip] = []
        for event in shown:
            mark, command, how = evidence_words(event)
            style = {"✓": styles.good, "✗": styles.error}.get(mark, styles.warning)
            if not expanded:
                command = clip(command, max(8, width - len(how) - 6))
            spans = [(command, styles.text), (f"  {how}", style)]
            first, rest = (f"{_INDENT}{mark} ", style), (_INDENT * 2, styles.text)
            strips += wrap(spans, width, first=[first], rest=[rest])
        if hidden := len(self._taken) - len(shown):
            is_passed = all(e.outcome == "passed" or e in shown for e in self._taken)
            passed = " that passed" if is_passed else ""
            more = (f"… {hidden} more{passed}", styles.dim)
            strips += wrap([more], width, first=[(_INDENT, styles.text)])
        return strips

    def _worth_a_line(self) -> Sequence[EvidenceTaken]:
        bad = [event for event in self._taken if event.outcome != "passed"][-_MOST_EVIDENCE:]
        good = [event for event in self._taken if event.outcome == "passed"]
        left = _MOST_EVIDENCE - len(bad)
        shown = {event.id for event in (*bad, *(good[-left:] if left else ()))}
        return [event for event in self._taken if event.id in shown]


_BAR = "▎ "


class PlanDocumentBlock(ProseBlock):
    """A piece of a plan or a report; the bar at its side tells it from an answer."""

    def paint(self, width: int, styles: Styles, *, expanded: bool) -> list[Strip]:
        painted = super().paint(max(1, width - len(_BAR)), styles, expanded=expanded)
        return [behind((_BAR, styles.accent), line) for line in painted]
