"""What a request consists of, for people."""

from collections.abc import Sequence

from dirge_py.context.compaction import AGGRESSIVE_AT, FORCED_AT, START_AT, effective_window
from dirge_py.context.view import ContextRequest, ContextView
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextPart:
    """One kind of what is sent, with its estimated tokens; `count` of messages, tools or 0."""

    name: str
    tokens: int
    count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextReport:
    """What would be sent now. `tokens` is the whole, `window` what is used of the model's window.

    `sections` of the system prompt come with their tokens, too. `marks` are the shares of the
    window at which something is done. `folded_messages` of `messages` are replaced by a summary or
    left out; `compactions` counts how often that happened.
    """

    parts: tuple[ContextPart, ...]
    sections: tuple[tuple[str, int], ...]
    tokens: int
    window: int
    model_window: int
    marks: tuple[tuple[str, float], ...]
    messages: int
    folded_messages: int
    compactions: int


def make_report(
    view: ContextView, request: ContextRequest, sections: Sequence[tuple[str, int]] = ()
) -> ContextReport:
    """What `view` would send for this request, before anything is shortened for it."""
    counter = view.counter
    sent = view.shown(request.messages)
    fixed = [
        ContextPart(
            name="system prompt", tokens=counter.corrected(counter.text(request.system_prompt))
        ),
        ContextPart(
            name="tools",
            tokens=counter.corrected(sum(map(counter.tool, request.tools))),
            count=len(request.tools),
        ),
    ]
    kinds = [
        _part(view, name, [message for message in sent if isinstance(message, kind)])
        for name, kind in _KINDS
    ]
    parts = [part for part in (*fixed, *kinds) if part.tokens]
    return ContextReport(
        parts=tuple(parts),
        sections=tuple((name, counter.corrected(tokens)) for name, tokens in sections),
        tokens=sum(part.tokens for part in parts),
        window=effective_window(request.window_tokens, view.settings.target_tokens),
        model_window=request.window_tokens,
        marks=(
            ("fold", view.settings.fold_at),
            ("fold more", AGGRESSIVE_AT),
            ("must fold", FORCED_AT),
            ("at once", START_AT),
        ),
        messages=len(request.messages),
        folded_messages=view.shape.last,
        compactions=view.compactions,
    )


_KINDS: tuple[tuple[str, type], ...] = (
    ("summaries", SystemMessage),
    ("your messages", UserMessage),
    ("answers", AssistantMessage),
    ("tool results", ToolResultMessage),
)


def _part(view: ContextView, name: str, messages: Sequence[Message]) -> ContextPart:
    tokens = view.counter.corrected(sum(view.counter.sizes(messages)))
    return ContextPart(name=name, tokens=tokens, count=len(messages))
