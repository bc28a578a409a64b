"""A session of another program as messages; each call is followed by exactly one result."""

import contextlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.session.record import parse_timestamp, text_member
from dirge_py.types.messages import (
    AssistantBlock,
    AssistantMessage,
    Message,
    Origin,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    Usage,
    user_text,
)

ExternalProgram = Literal["claude", "codex"]

_YEAR_3000 = 32_503_680_000
IMAGE_NOT_IMPORTED = "(an image that was not imported)"
_UNANSWERED = (
    "There is no result: the session was imported, and this call had none there. Its outcome is "
    "unknown; check before repeating it."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedMessage:
    """A message of an imported session."""

    message: Message
    """The message."""
    at: float
    """Its time, in seconds since 1970."""
    begins_anew: bool = False
    """Whether it summarizes all messages before it, which are no longer sent."""


@dataclass(slots=True, kw_only=True)
class _Entry:
    at: float
    message: Message | None = None
    begins_anew: bool = False
    blocks: list[AssistantBlock] = field(default_factory=list)
    model: str = ""
    usage: Usage | None = None
    results: dict[str, tuple[ToolResultMessage, float]] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class ExternalSession:
    """The content of another program's file. `left_out` counts what was not imported, by kind."""

    program: ExternalProgram
    session_id: str = ""
    title: str = ""
    cwd: str = ""
    model: str = ""
    left_out: Counter[str] = field(default_factory=Counter)
    _entries: list[_Entry] = field(default_factory=list)
    _calls: dict[str, tuple[_Entry, ToolCallBlock]] = field(default_factory=dict)

    def add_prompt(
        self, text: str, at: float, *, origin: Origin = "user", anew: bool = False
    ) -> None:
        """Add a prompt, or with `anew` the summary of all messages before it."""
        if text:
            message = user_text(text, origin)
            self._entries.append(_Entry(at=at, message=message, begins_anew=anew))

    def add_answer(self, at: float, *, model: str = "") -> _Entry:
        """Add an empty answer of the model and return it."""
        entry = _Entry(at=at, model=model)
        self.model = model or self.model
        self._entries.append(entry)
        return entry

    @property
    def open_answer(self) -> _Entry | None:
        """The last entry if it is an answer without results; else None."""
        last = self._entries[-1] if self._entries else None
        return last if last is not None and last.message is None and not last.results else None

    @property
    def last_answer(self) -> _Entry | None:
        return next((entry for entry in reversed(self._entries) if entry.message is None), None)

    def add_call(self, entry: _Entry, call_id: str, name: str, arguments: Any) -> None:
        """Add a tool call to this answer."""
        call = ToolCallBlock(id=call_id, name=name or "tool", arguments=arguments)
        entry.blocks.append(call)
        self._calls[call_id] = (entry, call)

    def add_result(self, call_id: str, text: str, at: float, *, is_error: bool = False) -> None:
        """Add the result of a call; a second one, or one without a call, is left out."""
        known = self._calls.get(call_id)
        if known is None or call_id in known[0].results:
            self.left_out["results without a call"] += 1
            return
        entry, call = known
        entry.results[call_id] = (_result_of(call, text, is_error=is_error), at)

    def forget_turns(self, count: int) -> None:
        """Remove the last `count` prompts and everything after them."""
        origins = [getattr(entry.message, "origin", "") for entry in self._entries]
        prompts = [place for place, origin in enumerate(origins) if origin == "user"]
        if count > 0 and prompts:
            del self._entries[prompts[-min(count, len(prompts))] :]

    def messages(self) -> Iterator[ImportedMessage]:
        """The messages, ordered by time."""
        now = 0.0
        for entry in self._entries:
            now = max(now, entry.at)
            if entry.message is not None:
                yield ImportedMessage(message=entry.message, at=now, begins_anew=entry.begins_anew)
            elif entry.blocks:
                has_calls = any(isinstance(block, ToolCallBlock) for block in entry.blocks)
                answer = AssistantMessage(
                    content=tuple(entry.blocks),
                    stop_reason="toolUse" if has_calls else "stop",
                    model=entry.model,
                    usage=entry.usage,
                )
                yield ImportedMessage(message=answer, at=now)
                for block in entry.blocks:
                    if isinstance(block, ToolCallBlock):
                        unanswered = _result_of(block, _UNANSWERED, is_error=True)
                        result, at = entry.results.get(block.id, (unanswered, now))
                        now = max(now, at)
                        yield ImportedMessage(message=result, at=now)


def _result_of(call: ToolCallBlock, text: str, *, is_error: bool) -> ToolResultMessage:
    return ToolResultMessage(
        tool_call_id=call.id,
        tool_name=call.name,
        content=(TextBlock(text),),
        details={"outcome": "error" if is_error else "ok"},
        is_error=is_error,
    )


def parse_lines(text: str, left_out: Counter[str]) -> Sequence[Mapping[str, Any]]:
    """The objects of a file of JSON lines; other lines are counted in `left_out`."""
    objects = []
    for line in filter(str.strip, text.split("\n")):
        value = None
        with contextlib.suppress(ValueError, RecursionError):
            value = json.loads(line)
        if isinstance(value, dict):
            objects.append(value)
        else:
            left_out["lines that are not a JSON object"] += 1
    return objects


def parse_seconds(stamp: Any, otherwise: float) -> float:
    """An ISO 8601 time in seconds since 1970; `otherwise` if it is invalid or out of range."""
    moment = parse_timestamp(stamp)
    seconds = moment.timestamp() if moment is not None else 0
    return seconds if 0 < seconds < _YEAR_3000 else otherwise


def number_member(value: Mapping[str, Any], name: str) -> int:
    """The member if it is a count, else 0."""
    found = value.get(name)
    return found if type(found) is int and found > 0 else 0


def block_texts(content: Any) -> str:
    """The texts of a message's blocks, one per line, with a remark for each picture."""
    if isinstance(content, str):
        return content
    texts = []
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict):
            is_file = block.get("type") in ("image", "document", "input_image")
            texts.append(IMAGE_NOT_IMPORTED if is_file else text_member(block, "text"))
    return "\n".join(filter(None, texts))
