"""Made-up session files in the formats of Claude Code and Codex."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

CLAUDE_ID = "4f35e220-c435-4cf7-b9b9-f40426042847"
CODEX_ID = "019a2d7a-41c4-78b1-b7cc-a45d62a89cd5"
SECRET = "sk-ant-api03-" + "Zq9" * 30


def lines(values: Sequence[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


def claude_line(kind: str, uuid: str, parent: str | None, message: Any, **more: Any) -> Any:
    second = int(uuid.strip("abcdefghijklmnopqrstuvwxyz") or 0)
    return {
        "parentUuid": parent,
        "isSidechain": False,
        "userType": "external",
        "cwd": "/home/me/shop",
        "sessionId": CLAUDE_ID,
        "version": "2.1.144",
        "gitBranch": "main",
        "type": kind,
        "message": message,
        "uuid": uuid,
        "timestamp": f"2026-05-26T07:27:{second:02}.079Z",
        **more,
    }


def claude_said(message_id: str, *blocks: Any, output: int = 5) -> Any:
    return {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-4-6",
        "content": list(blocks),
        "stop_reason": None,
        "usage": {
            "input_tokens": 4,
            "cache_creation_input_tokens": 100,
            "cache_read_input_tokens": 1000,
            "output_tokens": output,
        },
    }


def claude_result(call_id: str, text: Any, **more: Any) -> Any:
    block = {"type": "tool_result", "tool_use_id": call_id, "content": text, **more}
    return {"role": "user", "content": [block]}


def claude_call(call_id: str, command: str) -> Any:
    return {"type": "tool_use", "id": call_id, "name": "Bash", "input": {"command": command}}


CLAUDE = [
    {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}},
    claude_line(
        "user",
        "u1",
        None,
        {"role": "user", "content": "<local-command-caveat>…</local-command-caveat>"},
        isMeta=True,
    ),
    claude_line("user", "u2", "u1", {"role": "user", "content": "fix the login"}),
    claude_line(
        "assistant",
        "a3",
        "u2",
        claude_said("msg_1", {"type": "thinking", "thinking": "Hm.", "signature": "EqQB…"}),
    ),
    claude_line("assistant", "a4", "a3", claude_said("msg_1", {"type": "text", "text": "I look."})),
    claude_line("assistant", "a5", "a4", claude_said("msg_1", claude_call("t1", "ls"), output=9)),
    claude_line("user", "r6", "a5", claude_result("t1", "login.py")),
    claude_line(
        "assistant", "a7", "a5", claude_said("msg_1", claude_call("t2", "cat x"), output=9)
    ),
    claude_line(
        "user",
        "r8",
        "a7",
        claude_result("t2", [{"type": "text", "text": "no such file"}], is_error=True),
        toolUseResult="Error",
    ),
    claude_line(
        "assistant", "a9", "r8", claude_said("msg_2", {"type": "text", "text": "A dead end."})
    ),
    # Gone back to before the answer above.
    claude_line(
        "assistant",
        "a10",
        "r8",
        claude_said("msg_3", {"type": "text", "text": f"Fixed, with {SECRET}."}),
    ),
    claude_line("user", "s11", "a10", {"role": "user", "content": "sub"}, isSidechain=True),
    {"type": "ai-title", "aiTitle": "Login repair", "sessionId": CLAUDE_ID},
    {"type": "moon-phase", "value": 3},
]


def codex_line(second: int, kind: str, payload: Any) -> Any:
    return {"timestamp": f"2026-10-29T00:59:{second:02}.317Z", "type": kind, "payload": payload}


def codex_message(role: str, text: str) -> Any:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def codex_tokens(total: int, last: int) -> Any:
    return {
        "type": "token_count",
        "info": {
            "total_token_usage": {"input_tokens": total},
            "last_token_usage": {
                "input_tokens": last,
                "cached_input_tokens": 40,
                "output_tokens": 7,
                "reasoning_output_tokens": 3,
            },
        },
        "rate_limits": {},
    }


CODEX = [
    codex_line(
        1,
        "session_meta",
        {"id": CODEX_ID, "cwd": "/home/me/shop", "cli_version": "0.46.0", "git": {}},
    ),
    codex_line(1, "response_item", codex_message("developer", "You are …")),
    codex_line(
        1, "response_item", codex_message("user", "<environment_context>…</environment_context>")
    ),
    codex_line(2, "response_item", codex_message("user", "list the files")),
    codex_line(2, "event_msg", {"type": "user_message", "message": "list the files"}),
    codex_line(2, "turn_context", {"cwd": "/home/me/shop", "model": "gpt-5-codex"}),
    codex_line(3, "event_msg", {"type": "agent_reasoning", "text": "**Listing**"}),
    codex_line(
        3,
        "response_item",
        {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "**Listing**"}],
            "encrypted_content": "gAAAA…",
        },
    ),
    codex_line(
        4,
        "response_item",
        {
            "type": "function_call",
            "name": "shell",
            "arguments": '{"command":["bash","-lc","ls"]}',
            "call_id": "call_1",
        },
    ),
    codex_line(
        5,
        "response_item",
        {
            "type": "function_call_output",
            "call_id": "call_1",
            "output": '{"output":"a.txt\\n","metadata":{"exit_code":0,"duration_seconds":0.1}}',
        },
    ),
    codex_line(5, "event_msg", codex_tokens(100, 100)),
    codex_line(5, "event_msg", codex_tokens(100, 100)),
    codex_line(
        6,
        "response_item",
        {
            "type": "custom_tool_call",
            "call_id": "call_2",
            "name": "apply_patch",
            "input": "*** Begin Patch",
        },
    ),
    codex_line(
        7,
        "response_item",
        {
            "type": "custom_tool_call_output",
            "call_id": "call_2",
            "output": '{"output":"failed","metadata":{"exit_code":1}}',
        },
    ),
    codex_line(8, "response_item", codex_message("assistant", "There is a.txt.")),
    codex_line(8, "event_msg", codex_tokens(250, 150)),
    codex_line(9, "response_item", {"type": "ghost_snapshot", "ghost_commit": {}}),
]
