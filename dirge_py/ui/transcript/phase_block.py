"""The heading of a phase of a plan, and the commands that were run to prove something in it."""

import time
from collections.abc import Callable, Sequence
from typing import get_args

from rich.cells import cell_len
from textual.strip import Strip

from dirge_py.lib.text import clean
from dirge_py.types.events import (
    EvidenceTaken,
    LoopEvent,
    MessageUpdate,
    PermissionAnswered,
    PermissionAsked,
    PhaseName,
    PlanPhase,
    RetryNotice,
    ToolExecutionStart,
)
from dirge_py.ui.ink import Ink
from dirge_py.ui.transcript.blocks import BlockBase, guess_lines
from dirge_py.ui.transcript.lines import Span, clip, strip, wrap
from dirge_py.ui.transcript.run_tally import spent, told_duration
from dirge_py.ui.transcript.tool_block import main_argument

PHASES: Sequence[PhaseName] = get_args(PhaseName)
_LEAST_RULE = 4
_INDENT = "  "


def place_in_plan(phase: PhaseName, step: int) -> str:
    """As `4/4 review, cycle 2`."""
    cycle = f", cycle {step}" if step > 1 else ""
    return f"{PHASES.index(phase) + 1}/{len(PHASES)} {phase}{cycle}"


class PhaseBlock(BlockBase):
    """A rule with the name of the phase; below it what goes on, and what came of one that ended.

    It is the group of what its fork said and did. `clock` gives seconds.
    """

    def __init__(self, event: PlanPhase, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self.phase = event.phase
        self.step = event.step
        self._shut_in = clean(event.shut_in)
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

    def take_in(self) -> bool:
        """Something belongs to it from now on; False if something did before."""
        if self._has_more:
            return False
        self._has_more = True
        self.changed()
        return True

    def hear(self, event: LoopEvent) -> bool:
        """Take over what is worth a word of what happens in its fork; False if nothing is."""
        last = self._last
        match event:
            case ToolExecutionStart(tool_name=name, args=args):
                self._calls += 1
                last = f"{name} {main_argument(args)}".partition("\n")[0]
            case MessageUpdate(phase="thinking_delta"):
                last = "thinking"
            case MessageUpdate(phase="text_delta"):
                last = "writing"
            case RetryNotice(attempt=attempt):
                last = f"try {attempt + 1}"
            case PermissionAsked(tool_name=name):
                last = f"{name} waits for your answer"
            case PermissionAnswered(effect="deny", tool_name=name):
                self._denied += 1
                last = f"{name} was denied"
            case _:
                return False
        if last == self._last and not isinstance(event, ToolExecutionStart):
            return False
        self._last = clean(last)
        self.changed()
        return True

    def tick(self) -> None:
        """Time has gone by."""
        self.changed()

    def end(self, event: PlanPhase, *, is_told_below: bool = False) -> None:
        """It came to its end; `is_told_below`: what it came to stands below it, whole."""
        self._shut_in = clean(event.shut_in) or self._shut_in
        self.is_over = True
        self._ending = told_duration(event.duration_ms / 1000)
        self._spent = spent(event.usage, event.cost_usd)
        self._summary = "" if is_told_below else clean(event.summary).strip()
        self.changed()

    def cut_off(self) -> None:
        """Nothing more is heard of it."""
        if not self.is_over:
            self.is_over = True
            after = told_duration(self._clock() - self._began)
            self._ending = f"stopped after {after}" if after else "stopped"
            self.changed()

    @property
    def text(self) -> str:
        title = place_in_plan(self.phase, self.step)
        return "\n".join(p for p in (title, self._shut_in, self._going, self._summary) if p)

    @property
    def _going(self) -> str:
        """How it goes, or went: `34 s · 12 calls · read shop.py`."""
        seconds = "" if self.is_over else told_duration(self._clock() - self._began)
        calls = f"{self._calls} call{'s' * (self._calls != 1)}" if self._calls else ""
        denied = f"{self._denied} denied" if self._denied else ""
        last = "" if self.is_over else self._last
        parts = (self._ending, seconds, calls, denied, *self._spent, last)
        return " · ".join(part for part in parts if part)

    def paint(self, width: int, ink: Ink, *, expanded: bool) -> list[Strip]:
        strips = self._paint_rule(width, ink)
        mark = _INDENT
        if self._has_more:
            mark = "▾ " if expanded else "▸ "
        if going := self._going:
            going = going if self.is_over else clip(going, max(1, width - len(mark)))
            rest: Sequence[Span] = [(_INDENT, ink.text)]
            strips += wrap([(going, ink.dim)], width, first=[(mark, ink.accent)], rest=rest)
        if self._summary:
            indent: Sequence[Span] = [(_INDENT, ink.text)]
            strips += wrap([(self._summary, ink.text)], width, first=indent, rest=indent)
        return strips

    def _paint_rule(self, width: int, ink: Ink) -> list[Strip]:
        """The title, with what shuts it in at the other end, or below where there is no room."""
        title = clip(place_in_plan(self.phase, self.step), max(1, width - 6))
        room = width - cell_len(title) - 4
        spans: list[Span] = [("── ", ink.dim), (title, ink.heading)]
        needed = cell_len(self._shut_in) + 4
        if not self._shut_in:
            return [strip([*spans, (f" {'─' * room}", ink.dim)])]
        if needed + _LEAST_RULE > room:
            indent: Sequence[Span] = [(_INDENT, ink.text)]
            below = wrap([(self._shut_in, ink.dim)], width, first=indent, rest=indent)
            return [strip([*spans, (f" {'─' * max(0, room)}", ink.dim)]), *below]
        rule = f" {'─' * (room - needed)} {self._shut_in} ──"
        return [strip([*spans, (rule, ink.dim)])]

    def guess_height(self, width: int) -> int:
        return 2 + (guess_lines(self._summary, width) if self._summary else 0)


_EVIDENCE = {
    "passed": ("✓", ""),
    "failed": ("✗", ""),
    "denied": ("⊘", "denied"),
    "timeout": ("✗", "timed out"),
    "stopped": ("◌", "stopped"),
}
_MOST_EVIDENCE = 6


def evidence_words(event: EvidenceTaken) -> tuple[str, str, str]:
    """A mark, the command behind its name, and how it ended."""
    mark, how = _EVIDENCE[event.outcome]
    if not how:
        how = f"exit {event.exit_code}" if event.exit_code is not None else "failed"
    return mark, clean(f"{event.id} {event.command}"), how


class EvidenceBlock(BlockBase):
    """Commands that were run as evidence, a line each; of many, what failed and the latest."""

    gap = False

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
        return "\n".join(" ".join(evidence_words(each)) for each in self._taken)

    def paint(self, width: int, ink: Ink, *, expanded: bool) -> list[Strip]:
        shown = self._taken if expanded else self._worth_a_line()
        strips: list[Strip] = []
        for each in shown:
            mark, command, how = evidence_words(each)
            style = {"✓": ink.good, "✗": ink.error}.get(mark, ink.warning)
            first: Sequence[Span] = [(f"{_INDENT}{mark} ", style)]
            rest: Sequence[Span] = [(_INDENT * 2, ink.text)]
            if not expanded:
                command = clip(command, max(8, width - len(how) - 6))
            spans = [(command, ink.text), (f"  {how}", style)]
            strips += wrap(spans, width, first=first, rest=rest)
        if hidden := len(self._taken) - len(shown):
            passed = " that passed" if self._all_bad_in(shown) else ""
            more = f"… {hidden} more{passed}"
            strips += wrap([(more, ink.dim)], width, first=[(_INDENT, ink.text)])
        return strips

    def guess_height(self, width: int) -> int:
        return min(len(self._taken), _MOST_EVIDENCE + 1)

    def _worth_a_line(self) -> Sequence[EvidenceTaken]:
        if len(self._taken) <= _MOST_EVIDENCE:
            return self._taken
        bad = [each for each in self._taken if each.outcome != "passed"][-_MOST_EVIDENCE:]
        good = [each for each in self._taken if each.outcome == "passed"]
        room = _MOST_EVIDENCE - len(bad)
        kept = {each.id for each in (*bad, *(good[-room:] if room else ()))}
        return [each for each in self._taken if each.id in kept]

    def _all_bad_in(self, shown: Sequence[EvidenceTaken]) -> bool:
        bad = [each for each in self._taken if each.outcome != "passed"]
        return all(each in shown for each in bad)
