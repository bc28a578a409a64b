"""`dirge why`: what the permission engine would decide. Runs nothing, needs no provider."""

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from dirge_py.cli.arguments import Parser, parse_words
from dirge_py.cli.flags import rule_options
from dirge_py.config.load import load
from dirge_py.config.sources import Overrides
from dirge_py.lib.nearest import nearest
from dirge_py.lib.text import clean_json, visible
from dirge_py.permission.decision import explain
from dirge_py.sdk.explain import Explainer, open_explainer
from dirge_py.tools.toolbox import tool_names
from dirge_py.types.errors import DirgeError, UsageError
from dirge_py.types.modes import MODES, mode_named


def build_why_parser() -> Parser:
    parser = Parser(prog="dirge why")
    add = parser.add_argument
    add(
        "words",
        nargs="*",
        metavar="TOOL INPUT",
        help="a tool, and its first argument, or all as JSON",
    )
    add("--json", action="store_true", help="the decision as one JSON object")
    add("--jsonl", action="store_true", help='answer {"id","tool","input"} lines from stdin')
    add("--permission-mode", type=mode_named, choices=MODES)
    add("--yolo", dest="permission_mode", action="store_const", const="yolo")
    add("--accept-all", dest="permission_mode", action="store_const", const="accept")
    add("--restrictive", dest="permission_mode", action="store_const", const="restrictive")
    for flag in ("--allow", "--deny", "--allowedTools", "--disallowedTools", "--add-dir"):
        add(flag, action="append", default=[])
    add("-C", "--cwd", metavar="DIR", default=".")
    add("--config", metavar="FILE")
    return parser


def why_fits(rest: Sequence[str]) -> bool:
    """Whether the words after `why` ask the engine; `why does it fail` is a prompt.

    If the first word resembles the name of a tool, warns on stderr that it counts as a prompt.
    """
    if any(word in ("--jsonl", "--help", "-h") for word in rest):
        return True
    words = rest
    with suppress(UsageError):
        words = parse_words(build_why_parser(), rest, "words").words
    if not words or words[0] in tool_names():
        return bool(words)
    near = nearest(words[0], tool_names())
    if near and len(words) > 1:
        sys.stderr.write(f"This was sent as a prompt. Did you mean `dirge why {near} …`?\n")
    return False


def why(rest: Sequence[str]) -> int:
    """Answer one question, or with `--jsonl` one per line; returns the exit code."""
    flags = parse_words(build_why_parser(), rest, "words")
    config = load(Overrides(permission_mode=flags.permission_mode), path=flags.config)
    explainer = open_explainer(config, rule_options(flags), cwd=flags.cwd)
    try:
        if flags.jsonl:
            return _answer_lines(explainer)
        if len(flags.words) < 2:
            hint = "As in `dirge why bash 'git status'`."
            raise UsageError(f"`dirge why {flags.words[0]}` needs an input.", hint=hint)
        tool, text = flags.words[0], " ".join(flags.words[1:])
        decision = explainer.decide(tool, text)
        if flags.json:
            print(_json(decision.as_json()))
        else:
            print(visible(explain(decision, tool, text)))
        return 0
    finally:
        explainer.close()


def _json(value: Mapping[str, Any]) -> str:
    return clean_json(json.dumps(value, ensure_ascii=False))


def _answer_lines(explainer: Explainer) -> int:
    """Answer each line of stdin, in order, flushed; an invalid line also makes the exit code 1."""
    exit_code = 0
    for line in filter(str.strip, sys.stdin):
        answer = _answer_line(explainer, line)
        exit_code = 1 if "error" in answer else exit_code
        sys.stdout.write(_json(answer) + "\n")
        sys.stdout.flush()
    return exit_code


def _answer_line(explainer: Explainer, line: str) -> Mapping[str, Any]:
    identity: Any = None
    try:
        question = json.loads(line)
        if not isinstance(question, dict):
            return {"id": None, "error": "the line is not a JSON object"}
        identity = question.get("id")
        tool, tool_input = question.get("tool"), question.get("input")
        if not isinstance(tool, str) or not isinstance(tool_input, dict | str):
            return {"id": identity, "error": "`tool` and `input` are needed"}
        return {"id": identity, **explainer.decide(tool, tool_input).as_json()}
    except (ValueError, RecursionError) as error:
        words = f"not JSON: {error}"
    except DirgeError as error:
        words = error.message
    except Exception as error:
        # A bug in one question must not stop the answers to the others.
        words = f"{type(error).__name__}: {error}"
    return {"id": identity, "error": words}
