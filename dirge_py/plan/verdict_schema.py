"""The shape of a verdict, for services that can hold an answer to one."""

from typing import Any, get_args

from dirge_py.agent_loop.answer_schema import AnswerSchema, CheckedValue
from dirge_py.plan.verdict import Status, parse_verdict

_ITEM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "requirement": {"type": "string"},
        "status": {"type": "string", "enum": list(get_args(Status))},
        "evidence": {"type": "array", "items": {"type": "string"}},
        "note": {"type": "string"},
    },
    "required": ["requirement", "status", "evidence", "note"],
    "additionalProperties": False,
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "verdict": {"type": "string", "enum": ["DONE", "NEEDS_FIX"]},
        "checklist": {"type": "array", "items": _ITEM},
        "missing": {"type": "string"},
    },
    "required": ["verdict", "checklist", "missing"],
    "additionalProperties": False,
}
"""Every member is required, as the strictest services want it."""


class _VerdictAnswer(AnswerSchema):
    """What the answer of a reviewer has to be who is asked for nothing but the verdict.

    One in a block of JSON, with words before it, is read as well: it is what other services send.
    """

    __slots__ = ()

    def of_text(self, text: str) -> CheckedValue:
        verdict = parse_verdict(as_block(text))
        return CheckedValue(None, [verdict]) if isinstance(verdict, str) else CheckedValue(text)


def verdict_answer() -> AnswerSchema:
    """A verdict, for services that can hold an answer to its schema."""
    return _VerdictAnswer(told=SCHEMA, is_wrapped=False, check=lambda value: ())


def as_block(text: str) -> str:
    """A verdict that came bare, after the schema, as `parse_verdict` wants it."""
    return f"```json\n{text.strip()}\n```" if text.lstrip().startswith("{") else text
