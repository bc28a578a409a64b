"""The phases of a plan on the page: a heading each, what its fork did, and what came of it."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from textual.strip import Strip

from dirge_py.types.events import EvidenceTaken, ForkEvent, LoopEvent, MessageEnd, PlanPhase
from dirge_py.types.messages import UserMessage
from dirge_py.ui.ink import Ink
from dirge_py.ui.transcript.blocks import Block, DetailBlock
from dirge_py.ui.transcript.lines import Span, behind
from dirge_py.ui.transcript.phase_block import EvidenceBlock, PhaseBlock, evidence_words
from dirge_py.ui.transcript.pieces import pieces_of
from dirge_py.ui.transcript.prose import ProseBlock

if TYPE_CHECKING:
    from dirge_py.ui.transcript.chronicle import Page

PlanEvent = PlanPhase | EvidenceTaken | ForkEvent

_BAR = "▎ "


class ForkStory(Protocol):
    """Writes what happens in a fork: a chronicle of its own."""

    @property
    def has_calls_running(self) -> bool: ...
    def hear(self, event: LoopEvent) -> None: ...
    def settle(self) -> None: ...
    def tick(self) -> None: ...


class GroupPage:
    """The part of a page that belongs to one phase."""

    def __init__(self, page: "Page", group: PhaseBlock) -> None:
        self._page = page
        self._group = group

    def add(self, block: Block) -> None:
        self._claim(block)
        self._page.add(block)

    def insert(self, before: Block, block: Block) -> None:
        self._claim(block)
        self._page.insert(before, block)

    def remove_block(self, block: Block) -> None:
        self._page.remove_block(block)

    def touch(self, block: Block) -> None:
        self._page.touch(block)

    def _claim(self, block: Block) -> None:
        block.group = self._group
        if self._group.take_in():
            self._page.touch(self._group)


class DocumentBlock(ProseBlock):
    """A piece of a plan or a report, with a bar at its side: it is no answer to anything said."""

    def paint(self, width: int, ink: Ink, *, expanded: bool) -> list[Strip]:
        bar: Span = (_BAR, ink.accent)
        painted = super().paint(max(1, width - len(_BAR)), ink, expanded=expanded)
        return [behind(bar, line) for line in painted]


class Phases:
    """Hears the events of plans, live or as they were stored.

    `tell_fork` makes what writes a fork's events onto a page; `clock` gives seconds. `to_read` is
    the heading of a plan that nobody has decided on yet.
    """

    def __init__(
        self,
        page: "Page",
        tell_fork: Callable[["Page"], ForkStory],
        clock: Callable[[], float],
    ) -> None:
        self._page = page
        self._tell_fork = tell_fork
        self._clock = clock
        self._now: PhaseBlock | None = None
        self._fork: ForkStory | None = None
        self._evidence: EvidenceBlock | None = None
        self._early: list[EvidenceTaken] = []
        self.to_read: PhaseBlock | None = None

    def hear(self, event: PlanEvent) -> None:
        match event:
            case PlanPhase(state="started"):
                self._begin(event)
            case PlanPhase():
                self._end(event)
            case EvidenceTaken():
                self._take(event)
            case ForkEvent() if self._now is not None and self._fork is not None:
                self._fork.hear(_as_ours(event.event))
                if self._now.hear(event.event):
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
            self._fork = self._tell_fork(GroupPage(self._page, self._now))

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
                self._page.add(DocumentBlock(piece))
        elif event.text.strip() and not was_heard:
            # Of a stored phase that is all there is; live, the fork's last words say it.
            below = GroupPage(self._page, block)
            for piece in pieces_of(event.text):
                below.add(ProseBlock(piece))
        self._leave()
        self.to_read = block if event.phase == "plan" else None

    def _take(self, event: EvidenceTaken) -> None:
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
