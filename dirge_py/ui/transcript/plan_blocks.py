"""The phases of a plan in the transcript: a heading each, its evidence, and what its fork did."""

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
    BlockBase,
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

    def start_group(self) -> bool:
        """Something belongs to it from now on; False if something did before."""
        if self._has_more:
            return False
        self._has_more = True
        self.changed()
        return True

    def on_event(self, event: LoopEvent) -> bool:
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
        self._ending = duration_text(event.duration_ms / 1000)
        self._spent = spent_text(event.usage, event.cost_usd)
        self._summary = "" if is_told_below else clean(event.summary).strip()
        self.changed()

    def cut_off(self) -> None:
        """Nothing more is heard of it."""
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
        """How it goes, or went: `34 s · 12 calls · read shop.py`."""
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
            rest: Sequence[Span] = [(_INDENT, styles.text)]
            strips += wrap([(going, styles.dim)], width, first=[(mark, styles.accent)], rest=rest)
        if self._summary:
            indent: Sequence[Span] = [(_INDENT, styles.text)]
            strips += wrap([(self._summary, styles.text)], width, first=indent, rest=indent)
        return strips

    def _paint_rule(self, width: int, styles: Styles) -> list[Strip]:
        """The title, with what shuts it in at the other end, or below where there is no room."""
        title = clip(step_of_plan(self.phase, self.step), max(1, width - 6))
        room = width - cell_len(title) - 4
        spans: list[Span] = [("── ", styles.dim), (title, styles.heading)]
        needed = cell_len(self._shut_in) + 4
        if not self._shut_in:
            return [strip([*spans, (f" {'─' * room}", styles.dim)])]
        if needed + _LEAST_RULE > room:
            indent: Sequence[Span] = [(_INDENT, styles.text)]
            below = wrap([(self._shut_in, styles.dim)], width, first=indent, rest=indent)
            return [strip([*spans, (f" {'─' * max(0, room)}", styles.dim)]), *below]
        rule = f" {'─' * (room - needed)} {self._shut_in} ──"
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

    def paint(self, width: int, styles: Styles, *, expanded: bool) -> list[Strip]:
        shown = self._taken if expanded else self._worth_a_line()
        strips: list[Strip] = []
        for each in shown:
            mark, command, how = evidence_words(each)
            style = {"✓": styles.good, "✗": styles.error}.get(mark, styles.warning)
            first: Sequence[Span] = [(f"{_INDENT}{mark} ", style)]
            rest: Sequence[Span] = [(_INDENT * 2, styles.text)]
            if not expanded:
                command = clip(command, max(8, width - len(how) - 6))
            spans = [(command, styles.text), (f"  {how}", style)]
            strips += wrap(spans, width, first=first, rest=rest)
        if hidden := len(self._taken) - len(shown):
            passed = " that passed" if self._all_bad_in(shown) else ""
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
        room = _MOST_EVIDENCE - len(bad)
        kept = {each.id for each in (*bad, *(good[-room:] if room else ()))}
        return [each for each in self._taken if each.id in kept]

    def _all_bad_in(self, shown: Sequence[EvidenceTaken]) -> bool:
        bad = [each for each in self._taken if each.outcome != "passed"]
        return all(each in shown for each in bad)


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
    """A piece of a plan or a report, with a bar at its side: it is no answer to anything said."""

    def paint(self, width: int, styles: Styles, *, expanded: bool) -> list[Strip]:
        bar: Span = (_BAR, styles.accent)
        painted = super().paint(max(1, width - len(_BAR)), styles, expanded=expanded)
        return [behind(bar, line) for line in painted]


class PlanRenderer:
    """Draws the events of plans as blocks, live or as they were stored.

    `make_fork_renderer` makes what draws a fork's events on a page; `clock` gives seconds.
    `to_read` is the heading of a plan that nobody has decided on yet.
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
                self._fork.on_event(_as_ours(event.event))
                if self._now.on_event(event.event):
                    self._page.touch(self._now)

    def settle(self) -> None:
        if self._fork is not None:
            self._fork.settle()

    @property
    def is_going(self) -> bool:
        """Does a phase go on, whose time is shown?"""
        return self._now is not None

    @property
    def has_calls_running(self) -> bool:
        return self._fork is not None and self._fork.has_calls_running

    def tick(self) -> None:
        if self._now is not None:
            self._now.tick()
            self._page.touch(self._now)
        if self._fork is not None:
            self._fork.tick()

    def rest(self) -> None:
        """Whoever worked through the plan is gone."""
        if self._now is not None:
            self._now.cut_off()
            self._page.touch(self._now)
        self.to_read = None
        self._leave()

    # -- inside

    def _begin(self, event: PlanPhase) -> None:
        self.rest()
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
            # The call itself stands above, with how it ended.
            self._page.add(DetailBlock("evidence " + "  ".join(evidence_words(event))))
        else:
            self._list(event)

    def _list(self, event: EvidenceTaken) -> None:
        if self._evidence is None:
            self._evidence = EvidenceBlock()
            self._evidence.add(event)
            self._page.add(self._evidence)
        else:
            self._evidence.add(event)
            self._page.touch(self._evidence)

    def _show_early(self, phase: PlanPhase) -> None:
        """Only the end of a phase is stored, and its evidence before that."""
        early, self._early = self._early, []
        self._evidence = None
        for event in early:
            is_of_it = (event.phase, event.step) == (phase.phase, phase.step)
            if is_of_it and event.phase != "implement":
                self._list(event)

    def _leave(self) -> None:
        self._now = self._fork = self._evidence = None


def _as_ours(event: LoopEvent) -> LoopEvent:
    """What a fork is asked is no word of the person's."""
    if isinstance(event, MessageEnd) and isinstance(event.message, UserMessage):
        return MessageEnd(replace(event.message, origin="harness"))
    return event
