"""Session files of Claude Code: `~/.claude/projects/<folder>/<uuid>.jsonl`.

Each line is a JSON object. Lines of type `user` and `assistant` hold a `message` in the shape of
the Messages API; `uuid` and `parentUuid` make branches, of which the one that ends last is current.
An answer takes several lines, one per block, with the same `message.id`.

Source: public descriptions and schemas of the format up to version 2.1.144. It has no official
documentation, so unknown lines are counted and left out.
"""

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

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

_TALK = ("user", "assistant")
# Lines that the program writes for itself.
_NOTE = late_pattern(
    "summary|system|progress|attachment|file-history-snapshot|queue-operation|(custom|ai)-title"
    "|agent-(name|setting)|last-prompt|pr-link|permission-mode|bridge-session|worktree-state"
)
_UUID = late_pattern(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_WRITTEN_BY_PROGRAM = late_pattern(
    r"\s*(<(command-|local-command-|system-reminder|bash-|task-notification)|Caveat: |\[Request )"
)


def looks_like_claude(lines: Sequence[Line]) -> bool:
    return any(_is_talk(line) and "uuid" in line for line in lines)


def _is_talk(line: Line) -> bool:
    return text_member(line, "type") in _TALK and isinstance(line.get("message"), dict)


def read_claude(text: str, file_name: str) -> ExternalSession:
    """Parse the session; without messages if `text` is not a Claude Code session."""
    found = ExternalSession(program="claude")
    lines = parse_lines(text, found.left_out)
    for line in lines:
        kind = text_member(line, "type")
        if kind not in _TALK and not _NOTE.fullmatch(kind):
            found.left_out[f"lines of type {kind[:40]!r}"] += 1
        _read_facts(found, line)
    stem = PurePath(file_name).stem
    if _UUID.fullmatch(stem) or not found.session_id:
        found.session_id = stem
    at = 0.0
    answers: dict[str, Any] = {}
    for line in _current_branch(lines, found):
        at = parse_seconds(line.get("timestamp"), at)
        if line["type"] == "user":
            _read_user(found, line, at)
        else:
            _read_answer(found, line, at, answers)
    return found


def _read_facts(found: ExternalSession, line: Line) -> None:
    found.session_id = text_member(line, "sessionId") or found.session_id
    found.cwd = found.cwd or text_member(line, "cwd")
    match line.get("type"):
        case "custom-title":
            found.title = text_member(line, "customTitle") or found.title
        case "ai-title":
            found.title = found.title or text_member(line, "aiTitle")
        case "summary":
            found.title = found.title or text_member(line, "summary")


def _current_branch(lines: Sequence[Line], found: ExternalSession) -> Sequence[Line]:
    """The lines of the current branch, from the first to the last message."""
    talk = list(filter(_is_talk, lines))
    main = [line for line in talk if not line.get("isSidechain")]
    found.left_out["messages of sub-agents"] += len(talk) - len(main) if main else 0
    # The file of a sub-agent holds only its own messages.
    chosen = main or talk
    path = _path(lines, chosen)
    answers = {_answer_id(line) for line in chosen if text_member(line, "uuid") in path} - {""}

    def is_on_path(line: Line) -> bool:
        is_named = text_member(line, "uuid") in path or "uuid" not in line
        return is_named or _answer_id(line) in answers

    on_path = filter(is_on_path, chosen)
    calls = {text_member(block, "id") for line in on_path for block in _blocks(line, "tool_use")}
    branch = [
        line
        for line in chosen
        if is_on_path(line)
        or any(text_member(block, "tool_use_id") in calls for block in _blocks(line, "tool_result"))
    ]
    found.left_out["messages of abandoned branches"] += len(chosen) - len(branch)
    return branch


def _path(lines: Sequence[Line], chosen: Sequence[Line]) -> set[str]:
    """The ids from the last message up to the first; a missing parent is the line before."""
    by_id = {uuid: line for line in lines if (uuid := text_member(line, "uuid"))}
    before: dict[str, str] = {}
    last = ""
    for line in chosen:
        before[text_member(line, "uuid")] = last
        last = text_member(line, "uuid") or last
    path: set[str] = set()
    here = last
    while here and here not in path:
        path.add(here)
        line = by_id.get(here, {})
        above = text_member(line, "parentUuid") or text_member(line, "logicalParentUuid")
        here = above if above in by_id or not above else before.get(here, "")
    return path


def _answer_id(line: Line) -> str:
    return text_member(line["message"], "id") if line.get("type") == "assistant" else ""


def _blocks(line: Line, kind: str) -> list[Line]:
    content = line["message"].get("content")
    blocks = content if isinstance(content, list) else []
    return [block for block in blocks if isinstance(block, dict) and block.get("type") == kind]


def _read_user(found: ExternalSession, line: Line, at: float) -> None:
    content = line["message"].get("content")
    for block in _blocks(line, "tool_result"):
        call_id, output = text_member(block, "tool_use_id"), block_texts(block.get("content"))
        found.add_result(call_id, output, at, is_error=block.get("is_error") is True)
    text, is_summary = block_texts(content), bool(line.get("isCompactSummary"))
    is_written = is_summary or line.get("isMeta") or _WRITTEN_BY_PROGRAM.match(text)
    found.add_prompt(text, at, origin="harness" if is_written else "user", anew=is_summary)


def _read_answer(found: ExternalSession, line: Line, at: float, answers: dict[str, Any]) -> None:
    message = line["message"]
    model = text_member(message, "model")
    if model == "<synthetic>" or line.get("isApiErrorMessage"):
        found.left_out["error messages of the program"] += 1
        return
    entry = answers.get(_answer_id(line))
    if entry is None:
        entry = found.add_answer(at, model=model)
        if _answer_id(line):
            answers[_answer_id(line)] = entry
    content = message.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    for block in content if isinstance(content, list) else ():
        kind = block.get("type") if isinstance(block, dict) else None
        if kind == "text" and text_member(block, "text"):
            entry.blocks.append(TextBlock(text_member(block, "text")))
        elif kind == "thinking" and text_member(block, "thinking"):
            # Without its signature, which only the original service can check.
            entry.blocks.append(ThinkingBlock(text=text_member(block, "thinking")))
        elif kind == "tool_use":
            arguments = block.get("input")
            found.add_call(entry, text_member(block, "id"), text_member(block, "name"), arguments)
        elif kind not in ("text", "thinking", "redacted_thinking"):
            found.left_out[f"blocks of type {str(kind)[:40]!r}"] += 1
    if isinstance(message.get("usage"), dict):
        entry.usage = _usage(message["usage"])


def _usage(reported: Line) -> Usage:
    read = number_member(reported, "cache_read_input_tokens")
    write = number_member(reported, "cache_creation_input_tokens")
    return Usage(
        # Their `input_tokens` don't include cached tokens; ours do.
        input=number_member(reported, "input_tokens") + read + write,
        output=number_member(reported, "output_tokens"),
        cache_read=read,
        cache_write=write,
    )
