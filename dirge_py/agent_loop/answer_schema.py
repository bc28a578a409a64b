"""The schema of a structured answer, as models and services get it, and the check of answers.

Any other schema than an object is sent as an object with the one member `result`.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from dirge_py.agent_loop.tool_calls import refuse_constant
from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.abort import AbortSignal
from dirge_py.types.messages import TextBlock
from dirge_py.types.tools import Claim, LoopToolResult, OnUpdate, ToolExecutionMode

TOOL = "submit_result"
MEMBER = "result"

ValueCheck: TypeAlias = Callable[[Any], Sequence[str]]
"""Returns what is wrong with a value, one line per problem; empty if the value fits."""

_FENCED = late_pattern(r"```(?:json|JSON)?[ \t]*\n(.*)\n[ \t]*```", re.DOTALL)
_NAMED_SCHEMAS = frozenset(
    ("properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions")
)
_VALUES = ("const", "enum", "default", "examples")


@dataclass(frozen=True, slots=True)
class CheckedValue:
    """A value from an answer. It fits the schema if there are no `problems`."""

    value: Any
    """The value."""
    problems: Sequence[str] = ()
    """What is wrong with the value, one line per problem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerSchema:
    """A JSON Schema with the function that checks values; build it with `answer_schema`."""

    json_schema: Mapping[str, Any]
    """The schema that models and services see, always the same object."""
    is_wrapped: bool
    """Whether models send the value as the member `result` of an object."""
    check: ValueCheck
    """Finds the problems of a value."""

    def check_value(self, value: Any) -> CheckedValue:
        """Return the value with all its problems."""
        try:
            json.dumps(value, allow_nan=False)
        except (ValueError, TypeError, RecursionError) as error:
            return CheckedValue(None, [f"JSON cannot represent it: {error}"])
        try:
            return CheckedValue(value, self.check(value))
        except Exception as error:
            # `check` may be an embedder's function and raise anything.
            return CheckedValue(None, [f"The check raised an error: {error!r}"])

    def check_arguments(self, arguments: Any) -> CheckedValue:
        """Check the arguments of a call of the tool."""
        if not self.is_wrapped:
            return self.check_value(arguments)
        if not isinstance(arguments, Mapping) or list(arguments) != [MEMBER]:
            return CheckedValue(None, [f"The arguments must be one member, `{MEMBER}`"])
        return self.check_value(arguments[MEMBER])

    def check_text(self, text: str) -> CheckedValue:
        """Check a text answer: JSON alone, optionally in a code fence."""
        fenced = _FENCED.fullmatch(text.strip())
        try:
            value = json.loads(fenced.group(1) if fenced else text, parse_constant=refuse_constant)
        except (ValueError, RecursionError) as error:
            return CheckedValue(None, [f"It is not JSON alone ({error})"])
        if self.is_wrapped and isinstance(value, Mapping) and list(value) == [MEMBER]:
            inner = self.check_value(value[MEMBER])
            # The schema itself may ask for an object with this member.
            outer = self.check_value(value) if inner.problems else inner
            return inner if outer.problems else outer
        return self.check_value(value)


def answer_schema(schema: Mapping[str, Any], check: ValueCheck) -> AnswerSchema:
    """Return the `AnswerSchema` of a valid JSON Schema and the `check` for its values."""
    if schema.get("type") == "object":
        return AnswerSchema(json_schema=schema, is_wrapped=False, check=check)
    inner = {name: value for name, value in schema.items() if name != "$schema"}
    if "$id" not in schema and "id" not in schema:
        inner = _moved(inner, f"#/properties/{MEMBER}")
    wrapper: dict[str, Any] = {
        "type": "object",
        "properties": {MEMBER: inner},
        "required": [MEMBER],
        "additionalProperties": False,
    }
    if "$schema" in schema:
        wrapper = {"$schema": schema["$schema"], **wrapper}
    return AnswerSchema(json_schema=wrapper, is_wrapped=True, check=check)


class SubmitResult:
    """The tool that submits the model's answer. It gets checked arguments, and ends the run."""

    name = TOOL
    label = "Submit the result"
    description = (
        "Give the result of the whole task, once everything else is done. It ends the run. The "
        "caller reads these arguments and nothing else."
    )
    execution_mode: ToolExecutionMode | None = None
    polls = True
    """A repeated call gets the problems again; it does not count as a repetition."""

    def __init__(self, schema: AnswerSchema) -> None:
        self._schema = schema

    @property
    def parameters(self) -> Mapping[str, Any]:
        return self._schema.json_schema

    def prepare_arguments(self, arguments: Any) -> Any:
        return arguments

    def claims(self, _arguments: Mapping[str, Any]) -> Sequence[Claim]:
        return [Claim("meta", TOOL)]

    async def execute(
        self,
        _call_id: str,
        arguments: Mapping[str, Any],
        _signal: AbortSignal,
        _on_update: OnUpdate,
    ) -> LoopToolResult:
        details = {"outcome": "ok", "submitted": self._schema.check_arguments(arguments).value}
        return LoopToolResult(
            content=(TextBlock("Accepted. Submit it again only if it changes."),),
            details=details,
            terminate=True,
        )


def compact(value: Any) -> str:
    """Return JSON in one line; only characters without a UTF-8 form are escaped as ASCII."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"))
    return text


def _moved(schema: Any, to: str) -> Any:
    """Return a schema whose references to its own root point to `to`, where it is embedded."""
    if isinstance(schema, list):
        return [_moved(each, to) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    moved: dict[str, Any] = {}
    for word, value in schema.items():
        if word == "$ref" and isinstance(value, str) and (value == "#" or value[:2] == "#/"):
            moved[word] = to + value[1:]
        elif word in _NAMED_SCHEMAS and isinstance(value, Mapping):
            moved[word] = {
                name: each if _has_own_id(each) else _moved(each, to)
                for name, each in value.items()
            }
        else:
            is_unchanged = word in _VALUES or _has_own_id(value)
            moved[word] = value if is_unchanged else _moved(value, to)
    return moved


def _has_own_id(schema: Any) -> bool:
    """Whether the schema has an `$id`, so that its references start from itself."""
    return isinstance(schema, Mapping) and "$id" in schema
