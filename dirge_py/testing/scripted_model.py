"""A model that answers with what a test has queued."""

import itertools
from typing import Any

from dirge_py.providers.scripted import Gate, Reply, ReplyMaker, Script
from dirge_py.types.errors import ErrorKind, ProviderError
from dirge_py.types.llm import StreamEvent, StreamFn
from dirge_py.types.messages import ToolCallBlock, Usage


class ScriptedModel(Script):
    """A model with queued replies: queue with `will_…`, pass `stream_fn`, then look at `seen`.

        model = ScriptedModel()
        model.will_call("read", path="a.txt").will_say("It is empty.")

    Each `will_…` is one reply. Ids of calls count up: `read#0`, `read#1`, `edit#0`.
    """

    def __init__(self) -> None:
        self._replies: list[Reply | ReplyMaker] = []
        super().__init__(self._replies)
        self._counts: dict[str, itertools.count[int]] = {}

    @property
    def stream_fn(self) -> StreamFn:
        return self.stream

    def will_say(
        self,
        text: str,
        *,
        thinking: str = "",
        usage: Usage | None = None,
        hold: Gate | None = None,
        wait: Gate | None = None,
        chunk_chars: int = 0,
        pause_s: float = 0.0,
    ) -> "ScriptedModel":
        """Answer with text.

        `wait` holds it back before its first word and `hold` before its end, until that gate opens;
        `chunk_chars` cuts it into pieces, with `pause_s` seconds before each.
        """
        reply = Reply(
            text=text,
            thinking=thinking,
            usage=usage,
            hold=hold,
            wait=wait,
            chunk_chars=chunk_chars,
            pause_s=pause_s,
        )
        return self.will(reply)

    def will_call(self, name: str, /, **arguments: Any) -> "ScriptedModel":
        """Ask for one tool."""
        return self.will_call_all((name, arguments))

    def will_call_all(self, *calls: tuple[str, Any], text: str = "") -> "ScriptedModel":
        """Ask for several tools at once; arguments that are a string are sent as they are."""
        blocks = [
            ToolCallBlock(id=self._next_id(name), name=name, arguments=arguments)
            for name, arguments in calls
        ]
        return self.will(Reply(text=text, calls=blocks))

    def will_fail(
        self, message: str = "scripted error", *, kind: ErrorKind = "other", text: str = ""
    ) -> "ScriptedModel":
        """Break off with a provider error, after `text`."""
        return self.will(Reply(text=text, error=ProviderError(message, kind=kind)))

    def will_stream(self, *events: StreamEvent) -> "ScriptedModel":
        """Send exactly these events."""
        return self.will(Reply(events=events))

    def will(self, reply: Reply | ReplyMaker) -> "ScriptedModel":
        """Add a reply as it is."""
        self._replies.append(reply)
        return self

    def _next_id(self, name: str) -> str:
        return f"{name}#{next(self._counts.setdefault(name, itertools.count()))}"
