"""The phases of a plan in the transcript: a heading each, its evidence, and its fork's blocks."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol, get_args

from rich.cells import cell_len
from textual.strip import Strip

from dirge_py.lib.text import clean
from dirge_py.types.events import (
    EvidenceTaken,
    ForkEvent,
    LoopEvent,
    MessageEnd,
    MessageUpdate,
    PermissionAnswered,
    PermissionAsked,
    PhaseName,
    PlanPhase,
    RetryNotice,
    ToolExecutionStart,
)
from dirge_py.types.messages import UserMessage
from dirge_py.ui.theme.styles import Styles
from dirge_py.ui.transcript.blocks import (
    BlockPage,
    DetailBlock,
    TranscriptBlock,
    duration_text,
    guess_lines,
    main_argument,
    spent_text,
)
from dirge_py.ui.transcript.lines import Span, behind, clip, strip, wrap
from dirge_py.ui.transcript.prose import ProseBlock, pieces_of

PHASES: Sequence[PhaseName] = get_args(PhaseName)
_LEAST_RULE = 4
_INDENT = "  "


def step_of_plan(phase: PhaseName, step: int) -> str:
    """The step in words, such as `4/4 review, cycle 2`."""
    cycle = f", cycle {step}" if step > 1 else ""
    return f"{PHASES.index(phase) + 1}/{len(PHASES)} {phase}{cycle}"


class PhaseBlock(TranscriptBlock):
    """A rule with the name of the phase; below it its progress, and its result once it has ended.

    It is the group of its fork's blocks. `clock` gives seconds.
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

    def start_group(self) -> bool:
        """Show that blocks belong to it from now on; False if some did before."""
        if self._has_more:
            return False
        self._has_more = True
        self.changed()
        return True

    def on_event(self, event: LoopEvent) -> bool:
        """Update the progress from an event of its fork; False if nothing changes."""
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

    def end(self, event: PlanPhase, *, is_told_below: bool = False) -> None:
        """Show how it ended; `is_told_below`: its whole text is shown below it."""
        self._shut_in = clean(event.shut_in) or self._shut_in
        self.is_over = True
        self._ending = duration_text(event.duration_ms / 1000)
        self._spent = spent_text(event.usage, event.cost_usd)
        self._summary = "" if is_told_below else clean(event.summary).strip()
        self.changed()

    def cut_off(self) -> None:
        """Show that it was stopped."""
        if not self.is_over:
            self.is_over = True
            after = duration_text(self._clock() - self._began)
            self._ending = f"stopped after {after}" if after else "stopped"
            self.changed()

    @property
    def text(self) -> str:
        title = step_of_plan(self.phase, self.step)
        return "\n".join(p for p in (title, self._shut_in, self._going, self._summary) if p)

    @property
    def _going(self) -> str:
        """The progress or the result: `34 s · 12 calls · read shop.py`."""
        seconds = "" if self.is_over else duration_text(self._clock() - self._began)
        calls = f"{self._calls} call{'s' * (self._calls != 1)}" if self._calls else ""
        denied = f"{self._denied} denied" if self._denied else ""
        last = "" if self.is_over else self._last
        parts = (self._ending, seconds, calls, denied, *self._spent, last)
        return " · ".join(part for part in parts if part)

    def paint(self, width: int, styles: Styles, *, expanded: bool) -> list[Strip]:
        strips = self._paint_rule(width, styles)
        mark = _INDENT
        if self._has_more:
            mark = "▾ " if expanded else "▸ "
        if going := self._going:
            going = going if self.is_over else clip(going, max(1, width - len(mark)))
            first, rest = (mark, styles.accent), (_INDENT, styles.text)
            strips += wrap([(going, styles.dim)], width, first=[first], rest=[rest])
        if self._summary:
            strips += wrap([(self._summary, styles.text)], width, indent=(_INDENT, styles.text))
        return strips

    def _paint_rule(self, width: int, styles: Styles) -> list[Strip]:
        """The title, and the sandbox at the other end, or below where there is no space."""
        title = clip(step_of_plan(self.phase, self.step), max(1, width - 6))
        left = width - cell_len(title) - 4
        spans: list[Span] = [("── ", styles.dim), (title, styles.heading)]
        needed = cell_len(self._shut_in) + 4
        if not self._shut_in:
            return [strip([*spans, (f" {'─' * left}", styles.dim)])]
        if needed + _LEAST_RULE > left:
            below = wrap([(self._shut_in, styles.dim)], width, indent=(_INDENT, styles.text))
            return [strip([*spans, (f" {'─' * max(0, left)}", styles.dim)]), *below]
        rule = f" {'─' * (left - needed)} {self._shut_in} ──"
        return [strip([*spans, (rule, styles.dim)])]

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


class EvidenceBlock(TranscriptBlock):
    """Commands that were run as evidence, a line each; of many, the failed and the latest."""

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

    def paint(self, width: int, styles: Styles, *, expanded: bool) -> list[Strip]:
        shown = self._taken if expanded else self._worth_a_line()
        strips: list[Strip] = []
        for each in shown:
            mark, command, how = evidence_words(each)
            style = {"✓": styles.good, "✗": styles.error}.get(mark, styles.warning)
            if not expanded:
                command = clip(command, max(8, width - len(how) - 6))
            spans = [(command, styles.text), (f"  {how}", style)]
            first, rest = (f"{_INDENT}{mark} ", style), (_INDENT * 2, styles.text)
            strips += wrap(spans, width, first=[first], rest=[rest])
        if hidden := len(self._taken) - len(shown):
            is_passed = all(e.outcome == "passed" or e in shown for e in self._taken)
            passed = " that passed" if is_passed else ""
            more = f"… {hidden} more{passed}"
            strips += wrap([(more, styles.dim)], width, first=[(_INDENT, styles.text)])
        return strips

    def guess_height(self, width: int) -> int:
        return min(len(self._taken), _MOST_EVIDENCE + 1)

    def _worth_a_line(self) -> Sequence[EvidenceTaken]:
        if len(self._taken) <= _MOST_EVIDENCE:
            return self._taken
        bad = [each for each in self._taken if each.outcome != "passed"][-_MOST_EVIDENCE:]
        good = [each for each in self._taken if each.outcome == "passed"]
        left = _MOST_EVIDENCE - len(bad)
        shown = {each.id for each in (*bad, *(good[-left:] if left else ()))}
        return [each for each in self._taken if each.id in shown]


PlanEvent = PlanPhase | EvidenceTaken | ForkEvent
_BAR = "▎ "


class ForkRenderer(Protocol):
    """Draws what happens in a fork."""

    @property
    def has_calls_running(self) -> bool: ...
    def on_event(self, event: LoopEvent) -> None: ...
    def settle(self) -> None: ...
    def tick(self) -> None: ...


class GroupedPage:
    """The part of a page that belongs to one phase."""

    def __init__(self, page: BlockPage, group: PhaseBlock) -> None:
        self._page = page
        self._group = group

    def add(self, block: TranscriptBlock) -> None:
        self._claim(block)
        self._page.add(block)

    def insert(self, before: TranscriptBlock, block: TranscriptBlock) -> None:
        self._claim(block)
        self._page.insert(before, block)

    def remove_block(self, block: TranscriptBlock) -> None:
        self._page.remove_block(block)

    def touch(self, block: TranscriptBlock) -> None:
        self._page.touch(block)

    def _claim(self, block: TranscriptBlock) -> None:
        block.group = self._group
        if self._group.start_group():
            self._page.touch(self._group)


class PlanDocumentBlock(ProseBlock):
    """A piece of a plan or a report, with a bar at its side, which tells it from an answer."""

    def paint(self, width: int, styles: Styles, *, expanded: bool) -> list[Strip]:
        bar: Span = (_BAR, styles.accent)
        painted = super().paint(max(1, width - len(_BAR)), styles, expanded=expanded)
        return [behind(bar, line) for line in painted]


class PlanRenderer:
    """Draws the events of plans as blocks, live or as they were stored.

    `make_fork_renderer` makes what draws a fork's events on a page; `clock` gives seconds.
    `to_read` is the heading of a plan that waits for a decision.
    """

    def __init__(
        self,
        page: BlockPage,
        make_fork_renderer: Callable[[BlockPage], ForkRenderer],
        clock: Callable[[], float],
    ) -> None:
        self._page = page
        self._make_fork_renderer = make_fork_renderer
        self._clock = clock
        self._now: PhaseBlock | None = None
        self._fork: ForkRenderer | None = None
        self._evidence: EvidenceBlock | None = None
        self._early: list[EvidenceTaken] = []
        self.to_read: PhaseBlock | None = None

    def on_event(self, event: PlanEvent) -> None:
        match event:
            case PlanPhase(state="started"):
                self._begin(event)
            case PlanPhase():
                self._end(event)
            case EvidenceTaken():
                self._add_evidence(event)
            case ForkEvent() if self._now is not None and self._fork is not None:
                self._fork.on_event(_from_dirge(event.event))
                if self._now.on_event(event.event):
                    self._page.touch(self._now)

    def settle(self) -> None:
        if self._fork is not None:
            self._fork.settle()

    @property
    def is_going(self) -> bool:
        """Whether a phase is running, whose time is shown."""
        return self._now is not None

    @property
    def has_calls_running(self) -> bool:
        return self._fork is not None and self._fork.has_calls_running

    def tick(self) -> None:
        if self._now is not None:
            self._now.changed()
            self._page.touch(self._now)
        if self._fork is not None:
            self._fork.tick()

    def cut_off(self) -> None:
        """End the running phase: the plan was stopped, which no event reports."""
        if self._now is not None:
            self._now.cut_off()
            self._page.touch(self._now)
        self.to_read = None
        self._leave()

    # -- inside

    def _begin(self, event: PlanPhase) -> None:
        self.cut_off()
        self._now = PhaseBlock(event, self._clock)
        self._page.add(self._now)
        if event.phase != "implement":
            self._fork = self._make_fork_renderer(GroupedPage(self._page, self._now))

    def _end(self, event: PlanPhase) -> None:
        block, was_heard = self._now, self._fork is not None
        if block is None or (block.phase, block.step) != (event.phase, event.step):
            block = PhaseBlock(event, self._clock)
            self._page.add(block)
            self._show_early(event)
        self.settle()
        is_document = event.phase in ("plan", "review") and bool(event.text.strip())
        block.end(event, is_told_below=is_document and event.phase == "plan")
        self._page.touch(block)
        if is_document:
            for piece in pieces_of(event.text):
                self._page.add(PlanDocumentBlock(piece))
        elif event.text.strip() and not was_heard:
            # Of a stored phase that is all there is; live, the fork's last words say it.
            below = GroupedPage(self._page, block)
            for piece in pieces_of(event.text):
                below.add(ProseBlock(piece))
        self._leave()
        self.to_read = block if event.phase == "plan" else None

    def _add_evidence(self, event: EvidenceTaken) -> None:
        if self._now is None:
            self._early.append(event)
        elif event.phase == "implement":
            # The call itself is shown above, with how it ended.
            self._page.add(DetailBlock("evidence " + "  ".join(evidence_words(event))))
        else:
            self._list(event)

    def _list(self, event: EvidenceTaken) -> None:
        if self._evidence is None:
            self._evidence = EvidenceBlock()
            self._page.add(self._evidence)
        self._evidence.add(event)
        self._page.touch(self._evidence)

    def _show_early(self, phase: PlanPhase) -> None:
        """Show stored evidence, which comes before the end of its phase, the only stored event."""
        early, self._early = self._early, []
        self._evidence = None
        for event in early:
            is_of_it = (event.phase, event.step) == (phase.phase, phase.step)
            if is_of_it and event.phase != "implement":
                self._list(event)

    def _leave(self) -> None:
        self._now = self._fork = self._evidence = None


def _from_dirge(event: LoopEvent) -> LoopEvent:
    """Return the event with the prompt of a fork marked as dirge's own, not the person's."""
    if isinstance(event, MessageEnd) and isinstance(event.message, UserMessage):
        return MessageEnd(replace(event.message, origin="harness"))
    return event
