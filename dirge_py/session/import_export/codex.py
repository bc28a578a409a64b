"""Session files of Codex: `~/.codex/sessions/YYYY/MM/DD/rollout-<time>-<uuid>.jsonl`.

Each line is a JSON object: `{"timestamp", "type", "payload"}`. `response_item` payloads are items
of the Responses API, `session_meta` and `turn_context` hold folder and model, `event_msg` repeats
items for the screen and holds the token counts. Earlier versions wrote the items without envelope.

Source: public descriptions of the format up to version 0.65; unknown lines are counted.
"""

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from dirge_py.agent_loop.model_call import parsed_arguments
from dirge_py.lib.lazy import late_pattern
from dirge_py.session.import_export.external import (
    ExternalSession,
    block_texts,
    number_member,
    parse_lines,
    parse_seconds,
)
from dirge_py.session.record import text_member
from dirge_py.types.messages import TextBlock, ThinkingBlock, Usage

Line = Mapping[str, Any]

_ENVELOPES = frozenset(
    ("session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state")
)
_ITEM = late_pattern("message|reasoning|(function|custom_tool|local_shell)_call(_output)?")
# Codex sends these with every session; dirge has its own.
_WRITTEN_BY_PROGRAM = late_pattern(
    r"\s*(<(environment_context|user_instructions|permissions|collaboration_mode|skills|INSTRUCTIONS)"
    r"|# AGENTS\.md instructions)"
)
_UUID_AT_END = late_pattern(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


def looks_like_codex(lines: Sequence[Line]) -> bool:
    return any(
        isinstance(line.get("payload"), dict)
        if text_member(line, "type") in _ENVELOPES
        else _ITEM.fullmatch(text_member(line, "type")) and not {"message", "uuid"} & line.keys()
        for line in lines
    )


def read_codex(text: str, file_name: str) -> ExternalSession:
    """Parse the session; without messages if `text` is not a Codex session."""
    found = ExternalSession(program="codex")
    reader = _CodexReader(found)
    for line in parse_lines(text, found.left_out):
        reader.read_line(line)
    named = _UUID_AT_END.search(PurePath(file_name).stem)
    found.session_id = found.session_id or (named[0] if named else PurePath(file_name).stem)
    return found


class _CodexReader:
    def __init__(self, found: ExternalSession) -> None:
        self._found = found
        self._at = 0.0
        self._model = ""
        self._spent: Any = None

    def read_line(self, line: Line) -> None:
        self._at = parse_seconds(line.get("timestamp"), self._at)
        kind, payload = text_member(line, "type"), line.get("payload")
        if _ITEM.fullmatch(kind):
            self._read_item(line)
        elif kind not in _ENVELOPES or not isinstance(payload, dict):
            if "type" not in line and "id" in line:  # the first line of earlier versions
                self._read_facts(line)
            elif line.get("record_type") != "state":
                self._found.left_out[f"lines of type {str(line.get('type'))[:40]!r}"] += 1
        elif kind == "response_item":
            self._read_item(payload)
        elif kind == "event_msg":
            self._read_event(payload)
        elif kind == "compacted":
            self._read_summary(payload)
        else:
            self._read_facts(payload)

    def _read_facts(self, payload: Line) -> None:
        found = self._found
        found.session_id = found.session_id or text_member(payload, "id")
        found.cwd = found.cwd or text_member(payload, "cwd")
        self._model = text_member(payload, "model") or self._model

    def _read_event(self, payload: Line) -> None:
        match payload:
            case {"type": "thread_rolled_back"}:
                self._found.forget_turns(number_member(payload, "num_turns"))
            case {"type": "token_count", "info": {"last_token_usage": dict(last), **rest}}:
                spent, entry = rest.get("total_token_usage"), self._found.last_answer
                # Codex repeats the same counts at every change of the rate limits.
                if entry is None or spent == self._spent:
                    return
                self._spent = spent
                usage = Usage(
                    input=number_member(last, "input_tokens"),
                    output=number_member(last, "output_tokens"),
                    cache_read=number_member(last, "cached_input_tokens"),
                    reasoning=number_member(last, "reasoning_output_tokens"),
                )
                entry.usage = usage if entry.usage is None else entry.usage + usage

    def _read_summary(self, payload: Line) -> None:
        history = payload.get("replacement_history")
        texts = [
            block_texts(item.get("content"))
            for item in (history if isinstance(history, list) else ())
            if isinstance(item, dict) and item.get("type") == "message"
        ]
        kept = [text for text in texts if text and not _WRITTEN_BY_PROGRAM.match(text)]
        summary = "\n\n".join(kept) or text_member(payload, "message")
        self._found.add_prompt(summary, self._at, origin="harness", anew=True)

    def _read_item(self, item: Line) -> None:
        match text_member(item, "type"):
            case "message":
                self._read_message(item)
            case "reasoning":
                text = block_texts(item.get("summary")) or block_texts(item.get("content"))
                if text:
                    self._answer().blocks.append(ThinkingBlock(text=text))
            case kind if _ITEM.fullmatch(kind):
                self._read_output(item) if kind.endswith("_output") else self._read_call(item)
            case _:
                self._found.left_out[f"items of type {str(item.get('type'))[:40]!r}"] += 1

    def _read_message(self, item: Line) -> None:
        text = block_texts(item.get("content"))
        role = item.get("role")
        if role == "assistant":
            if text:
                self._answer().blocks.append(TextBlock(text))
        elif role == "user" and not _WRITTEN_BY_PROGRAM.match(text):
            self._found.add_prompt(text, self._at)
        else:
            self._found.left_out["instructions of the program"] += 1

    def _read_call(self, item: Line) -> None:
        raw = item.get("arguments", item.get("input", item.get("action")))
        arguments = parsed_arguments(raw) if item.get("type") == "function_call" else raw
        if isinstance(arguments, str) and item.get("type") == "custom_tool_call":
            arguments = {"input": arguments}
        name = text_member(item, "name") or "local_shell"
        call_id = text_member(item, "call_id") or text_member(item, "id")
        self._found.add_call(self._answer(), call_id, name, arguments)

    def _read_output(self, item: Line) -> None:
        output = item.get("output")
        value = parsed_arguments(output)
        is_error = False
        if isinstance(value, dict) and ("output" in value or "content" in value):
            output = value.get("output", value.get("content"))
            metadata = value.get("metadata")
            code = metadata.get("exit_code") if isinstance(metadata, dict) else None
            is_error = code not in (None, 0) or value.get("success") is False
        call_id = text_member(item, "call_id")
        self._found.add_result(call_id, block_texts(output), self._at, is_error=is_error)

    def _answer(self) -> Any:
        return self._found.open_answer or self._found.add_answer(self._at, model=self._model)
