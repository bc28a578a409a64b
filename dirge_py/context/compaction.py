"""When history is shortened, where it may be cut, and by how much."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Literal

from dirge_py.context.shape import ViewShape, head, shown_message
from dirge_py.context.tokens import TokenCounter
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.messages import AssistantMessage, Message, ToolResultMessage

CompactionLevel = Literal["fold", "aggressive", "forced", "start", "asked", "overflow"]
"""How urgent it is; `start` goes by an estimate alone, `asked` is a person's wish, `overflow`
follows a request that the service found too long."""

AGGRESSIVE_AT = 0.78
FORCED_AT = 0.80
START_AT = 0.90
_TIGHT_AT = 0.60

_CAP_TOKENS, _TIGHT_CAP_TOKENS = 3000, 1000
_CAP_CHARS_PER_TOKEN = 4
LEAST_SAVING = 0.30
_OVERFLOW_AIM, _OVERFLOW_SAVING = 0.40, 0.15


def effective_window(window_tokens: int, target_tokens: int) -> int:
    """How much of a model's window is used."""
    return max(1, min(window_tokens, target_tokens))


def level_of(
    size: int, window: int, *, is_measured: bool, fold_at: float
) -> Literal["fold", "aggressive", "forced", "start"] | None:
    """What a request of this size calls for; None if it may be sent as it is.

    Sizes that no service has confirmed are too rough for the finer marks.
    """
    share = size / window
    if not is_measured:
        return "start" if share > START_AT else None
    if share > FORCED_AT:
        return "forced"
    if share > AGGRESSIVE_AT:
        return "aggressive"
    return "fold" if share > fold_at else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionJob:
    """One history to be shortened, and how to tell what comes of it.

    `size` was reported or estimated for `shape`; `scale` is the tokens it makes of one counted
    token. `counter` has learned less wildly: what is new is estimated with its factor.
    """

    messages: Sequence[Message]
    shape: ViewShape
    counter: TokenCounter
    fixed: int
    window: int
    size: int
    scale: float
    level: CompactionLevel
    fold_at: float
    focus: str = ""

    @property
    def is_urgent(self) -> bool:
        """Whether something has to give, with a good summary or without."""
        return self.level in ("forced", "start", "overflow")

    @property
    def tail_tokens(self) -> int:
        """How much of the newest history stays as it is."""
        if self.level == "asked":
            return self.size // 5
        if self.level == "overflow":
            return min(self.window // 10, self.size // 5)
        return self.window // (5 if self.level == "fold" else 10)

    @property
    def target(self) -> int:
        """The size at which a pass has done enough."""
        if self.level == "asked":
            return 0
        saved = int(self.size * (1 - LEAST_SAVING))
        if self.level == "overflow":
            return min(int(self.size * (1 - _OVERFLOW_AIM)), int(self.window * FORCED_AT))
        if self.level == "forced":
            return min(saved, int(self.window * min(self.fold_at, FORCED_AT)))
        return min(saved, int(self.window * self.fold_at))

    @property
    def limit(self) -> int:
        """The size above which the request must not be sent."""
        if self.level == "overflow":
            return min(int(self.size * (1 - _OVERFLOW_SAVING)), int(self.window * FORCED_AT))
        return int(self.window * (FORCED_AT if self.level == "forced" else START_AT))

    def size_of(self, shape: ViewShape) -> int:
        """The tokens of the request with this shape."""
        tail = sum(self.sizes(shape))
        new = sum(map(self.counter.message, head(self.messages, shape)))
        factor = self.counter.factor
        # A folded stretch that was there before is as well measured as everything else.
        is_old = (shape.last, shape.summary) == (self.shape.last, self.shape.summary)
        return round((self.fixed + tail) * self.scale + new * (self.scale if is_old else factor))

    def sizes(self, shape: ViewShape) -> list[int]:
        """The counted tokens of each message that is not folded."""
        shown = [
            shown_message(self.messages[position], position, shape)
            for position in range(shape.last, len(self.messages))
        ]
        return self.counter.sizes(shown)

    def fits(self, shape: ViewShape) -> bool:
        return self.size_of(shape) <= self.target

    def cut(self, shape: ViewShape) -> int:
        """Where the tail begins: the earliest turn boundary that keeps it within its tokens."""
        cuts = [cut for cut in boundaries(self.messages) if cut > shape.last]
        sizes = self.sizes(shape)
        kept = list(accumulate(reversed(sizes)))
        kept.reverse()
        for cut in cuts:
            if kept[cut - shape.last] * self.scale <= self.tail_tokens:
                return cut
        return cuts[-1] if cuts else shape.last


def boundaries(messages: Sequence[Message]) -> list[int]:
    """The indexes at which a history may begin: no result there or behind is parted from its call.

    A history without an answer yet can only begin at its last message.
    """
    cuts: list[int] = []
    has_results = False
    for position in range(len(messages) - 1, 0, -1):
        message = messages[position]
        if isinstance(message, ToolResultMessage):
            has_results = True
        elif isinstance(message, AssistantMessage):
            has_results = False
            cuts.append(position)
        elif not has_results:
            cuts.append(position)
    cuts.reverse()
    return cuts


def unseen_from(messages: Sequence[Message]) -> int:
    """The index from which on no model has seen the messages."""
    for position in range(len(messages) - 1, -1, -1):
        if isinstance(messages[position], AssistantMessage):
            return position + 1
    return 0


def with_caps(job: CompactionJob, shape: ViewShape) -> ViewShape:
    """The shape with the results that a model has seen cut to what they are worth by now."""
    seen = unseen_from(job.messages)
    loose = replace(shape, cap_before=seen, cap_chars=_CAP_TOKENS * _CAP_CHARS_PER_TOKEN)
    if shape.cap_chars and shape.cap_chars < loose.cap_chars:
        # What was sent short once stays short.
        loose = replace(loose, cap_chars=shape.cap_chars)
    if job.size_of(loose) <= job.window * _TIGHT_AT:
        return loose
    return replace(loose, cap_chars=_TIGHT_CAP_TOKENS * _CAP_CHARS_PER_TOKEN)
