"""One tool call: parsed and prepared to run, and the results that no tool wrote."""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import getitem
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from dirge_py.agent_loop.argument_repair import (
    RepairedArguments,
    UnknownProperty,
    nest_arguments,
    repair_arguments,
    schema_for_model,
)
from dirge_py.agent_loop.tool_names import suggested_tools
from dirge_py.lib import schemas
from dirge_py.lib.nearest import nearest
from dirge_py.types.errors import ModelRetry, ToolFailed
from dirge_py.types.hooks import ToolOverride
from dirge_py.types.messages import TextBlock, ToolCallBlock
from dirge_py.types.tools import (
    ArgumentProblem,
    CallProblem,
    InvalidArguments,
    LoopTool,
    LoopToolResult,
    Operation,
    ToolCall,
    ToolOutcome,
    ToolValidator,
    changes_something,
    claims_only,
    exception_names,
    text_result,
)

ABORTED = text_result(
    "Aborted while it ran. What it had done by then was not undone: look before you repeat it.",
    outcome="aborted",
    is_error=True,
)
NEVER_RAN = text_result(
    "Aborted before it ran; it did nothing.", outcome="aborted", is_error=True, synthetic="aborted"
)
SUPPRESSED = text_result(
    "Not run: the run was stopped before this call. Do not simply repeat it.",
    outcome="suppressed",
    is_error=True,
    synthetic="suppressed",
)
UNDECIDED = text_result(
    "Not run: the call needs a decision, and nobody can decide it later outside a run.",
    outcome="denied",
    is_error=True,
)
WITHHELD = text_result(
    "[result withheld: the run was stopped before its check finished]\nThe call itself "
    "completed and was not undone: check what it did before you repeat it.",
    outcome="aborted",
    is_error=True,
    withheld="the run was stopped before its check finished",
)
WAITING = text_result("Waits for a decision.", outcome="suppressed")
PROBLEM_OUTCOMES: Mapping[CallProblem, ToolOutcome] = {
    "unknown_tool": "unknown_tool",
    "invalid_arguments": "invalid",
    "truncated": "invalid",
}
CLOSED = "truncation_fixed"
"""Counts every call whose arguments broke off, also where they could not be repaired."""
SLIPS = "json_slips"
"""Counts every call whose arguments were read although they were not quite JSON."""

_AGAIN = "Make the call again with shorter arguments, or split the work into several calls."
_AS_JSON = (
    "Write the whole call again, with all its arguments, as one valid JSON object: double quotes "
    'around names and texts; inside a text `\\"` for a quote, `\\\\` for a backslash, `\\n` for a '
    "line end; a comma between properties; nothing before or after the object."
)
_AROUND = 30
_PREVIEW_BYTES = 500
_GOT_BYTES = 200
_EXPECTED_BYTES = 600
_MOST_PROBLEMS = 8
_LOGGED_BYTES = 4096
_MOST_NAMED = 4
_READING: frozenset[Operation] = frozenset(("read",))
_SAYS_ALL: frozenset[Operation] = frozenset(("read", "edit", "execute"))
"""Their calls consist of a path, a command or a text: other properties only label the call."""

_logger = logging.getLogger(__name__)

if TYPE_CHECKING:
    from dirge_py.lib.lenient_json import LenientReading


def prepare_call(
    block: ToolCallBlock,
    tools: Sequence[LoopTool],
    validate: ToolValidator | None,
    *,
    repair: bool = True,
) -> ToolCall:
    """Return the call with its tool and the arguments to use, or with its `problem`."""
    tool = next((tool for tool in tools if tool.name == block.name), None)
    written = block.arguments
    call = ToolCall(id=block.id, name=block.name, arguments=written, tool=tool, written=written)
    if tool is None:
        text = _unknown(block.name, [tool.name for tool in tools])
        return replace(call, problem="unknown_tool", problem_text=text)
    if not isinstance(written, str):
        return _fitted(call, tool, validate, repair=repair)
    parsed = parse_arguments(written, may_repair=repair)
    call = replace(call, arguments=parsed.value, written=parsed.value)
    match parsed.state:
        case "malformed":
            return _malformed(call, parsed.problem)
        case "cut_off":
            got = f"Got: {cut_json(parsed.value, _PREVIEW_BYTES)}"
            call = replace(call, repairs=(CLOSED,) if repair else ())
            return _cut_off(call, "so it did not run", f"{parsed.problem}\n{got}")
    if parsed.slips:
        kinds, raw = ", ".join(parsed.slips), cut_json(written, _LOGGED_BYTES)
        _logger.info("read the arguments of %s in spite of %s: %s", call.name, kinds, raw)
        notes = tuple(f"`{call.name}`: {note}" for note in parsed.notes)
        call = replace(call, repairs=(SLIPS,), notes=notes)
    if parsed.state == "closed":
        return _closed(replace(call, repairs=(CLOSED, *call.repairs)), tool, validate)
    return _fitted(call, tool, validate, repair=repair)


def with_arguments(call: ToolCall, arguments: Any, validate: ToolValidator | None) -> ToolCall:
    """Return the call with other arguments, validated: they may solve its problem, or cause one."""
    tool = call.tool
    if tool is None:
        return replace(call, arguments=arguments)
    call = replace(call, arguments=arguments, problem=None, problem_text="")
    try:
        return replace(call, arguments=_valid(tool, arguments, validate))
    except Exception as error:
        return _invalid(call, tool, error)


def _fitted(
    call: ToolCall,
    tool: LoopTool,
    validate: ToolValidator | None,
    *,
    repair: bool = True,
    keep_nulls: bool = False,
) -> ToolCall:
    """Return the call with arguments in the shape that the tool asks for."""

    def reshape(arguments: Any) -> Any:
        return tool.prepare_arguments(nest_arguments(tool.parameters, arguments))

    arguments = call.arguments
    try:
        arguments = reshape(arguments)
        if not repair:
            return replace(call, arguments=_valid(tool, arguments, validate))
        repaired = repair_arguments(
            tool.name,
            tool.parameters,
            arguments,
            lambda value: _valid(tool, value, validate),
            reshape=reshape,
            keep_nulls=keep_nulls,
        )
    except Exception as error:
        return _invalid(replace(call, arguments=arguments), tool, error)
    fitted = replace(call, arguments=repaired.arguments)
    if essential := _essential_properties(fitted, repaired):
        return _refused(replace(call, arguments=arguments), essential)
    if repaired.kinds:
        kinds, written = ", ".join(repaired.kinds), cut_json(call.written, _LOGGED_BYTES)
        _logger.info("repaired the arguments of %s (%s): %s", call.name, kinds, written)
    repairs, notes = (*call.repairs, *repaired.kinds), (*call.notes, *repaired.notes)
    return replace(fitted, repairs=repairs, notes=notes)


def _closed(call: ToolCall, tool: LoopTool, validate: ToolValidator | None) -> ToolCall:
    """Return a call whose truncated arguments could be closed; only calls that read may run."""
    # A name without a value was meant to have one, so its null is kept.
    fitted = _fitted(call, tool, validate, keep_nulls=True)
    if fitted.problem is not None:
        return _cut_off(fitted, "so it did not run", fitted.problem_text)
    if changes_something(fitted, _READING):  # Half a todo list would replace the whole one.
        return _cut_off(fitted, "so it did not run: an incomplete change must not be made")
    used = cut_json(call.written, _PREVIEW_BYTES)
    note = f"`{call.name}`: the arguments were cut off; it ran with {used}."
    return replace(fitted, notes=(note, *fitted.notes))


def _cut_off(call: ToolCall, consequence: str, details: str = "") -> ToolCall:
    text = f"The arguments of this `{call.name}` call were cut off, {consequence}. {_AGAIN}"
    return replace(call, problem="truncated", problem_text=f"{text}\n{details}".rstrip())


def _malformed(call: ToolCall, reason: str) -> ToolCall:
    raw = cut_json(call.written, _LOGGED_BYTES)
    _logger.info("the arguments of %s are not JSON (%s): %s", call.name, reason, raw)
    text = (
        f"The arguments of this `{call.name}` call are not valid JSON, so it did not run and "
        f"changed nothing. {reason}\n{_AS_JSON}"
    )
    return replace(call, problem="invalid_arguments", problem_text=text)


def _valid(tool: LoopTool, arguments: Any, validate: ToolValidator | None) -> Mapping[str, Any]:
    if not isinstance(arguments, Mapping):
        raise InvalidArguments("The arguments must be one JSON object.")
    return arguments if validate is None else validate(tool, arguments)


def _invalid(call: ToolCall, tool: LoopTool, error: Exception) -> ToolCall:
    message = str(error) or type(error).__name__
    problems = error.problems if isinstance(error, InvalidArguments) else ()
    text = explain_invalid_arguments(
        call.name, tool.parameters, call.arguments, message=message, problems=problems
    )
    _logger.info("invalid arguments for %s: %s", call.name, error)
    return replace(call, problem="invalid_arguments", problem_text=text)


def _essential_properties(call: ToolCall, repaired: RepairedArguments) -> Sequence[UnknownProperty]:
    """Return the dropped properties that may have been the point of a changing call."""
    if not repaired.dropped or claims_only(call, _READING):
        return ()
    takes_labels = claims_only(call, _SAYS_ALL)
    return [e for e in repaired.dropped if not (e.is_reason or (e.is_label and takes_labels))]


def _refused(call: ToolCall, unknown: Sequence[UnknownProperty]) -> ToolCall:
    """Refuse a call for unknown properties, because they may have been its point."""
    problems = [
        f"`{call.name}` has no property `{readable_path(extra.path)}`. "
        f"Its properties: {', '.join(f'`{name}`' for name in extra.known)}."
        for extra in unknown[:_MOST_NAMED]
    ]
    _logger.info("refused %s: %s", call.name, " ".join(problems))
    text = (
        f"{' '.join(dict.fromkeys(problems))} Nothing was run and nothing was changed: without it "
        "the call might do something else than you mean. Use the properties that exist, or leave "
        "it out if the call is correct without it."
    )
    return replace(call, problem="invalid_arguments", problem_text=text)


def _unknown(name: str, known: Sequence[str]) -> str:
    if meant := suggested_tools(name, known):
        choices = " or ".join(f"`{tool}`" for tool in meant)
        return f"There is no tool `{name}`. Did you mean {choices}?"
    if not known:
        return f"There is no tool `{name}`; no tools are available."
    return f"There is no tool `{name}`. There are: {', '.join(sorted(known))}."


def parse_arguments(raw: str, *, may_repair: bool = True) -> "LenientReading":
    """Parse `raw`; unescaped line ends inside strings are accepted, slips only with `may_repair`.

    A text that breaks off is closed if what there is of it can be read. One that cannot be read is
    its own value.
    """
    from dirge_py.lib.lenient_json import LenientReading, read_object

    text = raw if raw.strip() else "{}"
    try:
        value = json.loads(text, strict=False, parse_constant=refuse_constant)
        return LenientReading(state="whole", value=value)
    except RecursionError:
        return LenientReading(state="malformed", value=raw, problem="It is nested too deep.")
    except ValueError as error:
        place = error.pos if isinstance(error, json.JSONDecodeError) else 0
        problem = str(error).partition(": line ")[0]
    reading = read_object(raw)
    if reading.problem:
        place, problem = reading.position, reading.problem
    elif may_repair:
        return reading
    state: Literal["cut_off", "malformed"]
    state = "cut_off" if reading.state in ("closed", "cut_off") else "malformed"
    return LenientReading(state=state, value=raw, problem=_at(raw, place, problem))


def _at(raw: str, position: int, problem: str) -> str:
    """Return a sentence that says where in the arguments the problem is."""
    line, column = raw.count("\n", 0, position) + 1, position - raw.rfind("\n", 0, position)
    before, after = raw[max(position - _AROUND, 0) : position], raw[position : position + _AROUND]
    return f"Line {line}, column {column}: {problem}. There (marked ⟦⟧): {before}⟦⟧{after}"


def refuse_constant(name: str) -> NoReturn:
    """Reject NaN and Infinity in `json.loads`, which JSON does not allow. Raises ValueError."""
    raise ValueError(f"{name} is not a JSON number")


def explain_invalid_arguments(
    tool: str,
    schema: schemas.Schema,
    arguments: Any,
    *,
    message: str,
    problems: Sequence[ArgumentProblem] = (),
) -> str:
    """Explain in four labelled parts; the schema shown is that of the place the advice is about."""
    # The problem to advise on: an unknown name is the easiest to fix.
    unknown_words = (
        problem
        for problem in problems
        if problem.kind == "enum"
        and schemas.choices_at(schemas.schema_at(schema, problem.path), schema)
    )
    chosen = next(unknown_words, problems[0] if problems else None)
    expected: Any = schema
    if chosen is not None:
        path = chosen.path[:-1] if chosen.kind == "extra" else chosen.path
        expected = schemas.schema_at(schema, path) or schema
    if expected is schema:
        expected = schema_for_model(schema)
    rejected = [f"at {json_pointer(each.path)}: {each.message}" for each in problems]
    if len(rejected) > _MOST_PROBLEMS:
        rejected[_MOST_PROBLEMS:] = [f"and {len(rejected) - _MOST_PROBLEMS} more"]
    return "\n".join(
        (
            f"Rejected: `{tool}` did not run: {'; '.join(rejected) or message}",
            f"Expected: {cut_json(expected, _EXPECTED_BYTES)}",
            f"Got: {cut_json(arguments, _GOT_BYTES)}",
            f"Try: {_advice(schema, chosen, value_at(arguments, chosen.path if chosen else ()))}",
        )
    )


def json_pointer(path: schemas.Path) -> str:
    """Return a place in arguments as a JSON pointer; the top is `/`."""
    return "/" + "/".join(str(step).replace("~", "~0").replace("/", "~1") for step in path)


def readable_path(path: schemas.Path) -> str:
    """Return a place in arguments as people write it: `edits[0].count`."""
    steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in path]
    return "".join(steps).removeprefix(".")


def cut_json(value: Any, most_bytes: int) -> str:
    """Return compact JSON of `value`, at most `most_bytes`, truncated with an ellipsis."""
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    except (ValueError, TypeError, RecursionError):
        text = type(value).__name__
    raw = text.encode(errors="replace")
    if len(raw) <= most_bytes:
        return raw.decode()
    return raw[: most_bytes - len("…".encode())].decode(errors="ignore") + "…"


def value_at(arguments: Any, path: schemas.Path) -> Any:
    """Return the value at `path`; None if there is none."""
    try:
        return reduce(getitem, path, arguments)
    except (LookupError, TypeError):
        return None


def _advice(schema: schemas.Schema, problem: ArgumentProblem | None, value: Any) -> str:
    if problem is None or not problem.path:
        return "call it again with one JSON object that fits what is expected."
    name, where = problem.path[-1], json_pointer(problem.path)
    here = schemas.schema_at(schema, problem.path)
    around = schemas.schema_at(schema, problem.path[:-1])
    if problem.kind == "missing":
        return f"add `{name}`{_as_type(here, schema)}."
    if problem.kind == "extra":
        known = list(schemas.properties_of(around, schema))
        near = nearest(str(name), known)
        return f"leave out `{name}`." if near is None else f"write `{near}` instead of `{name}`."
    choices = schemas.choices_at(here, schema)
    if problem.kind == "enum" and choices:
        words = [each for each in choices if isinstance(each, str)]
        near = nearest(value, words) if isinstance(value, str) else None
        meant = f" You probably meant {json.dumps(near, ensure_ascii=False)}." if near else ""
        return f"give {where} one of {cut_json(list(choices), _GOT_BYTES)}.{meant}"
    if value is None and problem.kind == "type":
        if name in schemas.required_in(around, schema):
            return f"give {where} a value{_as_type(here, schema)}: it is required."
        return f"leave out {where}, or give it a value{_as_type(here, schema)}."
    if schemas.types_at(here, schema) == {"array"}:
        return f'write {where} as a JSON array, as in ["…"].'
    return f"give {where} a value{_as_type(here, schema)} that fits what is expected."


def _as_type(here: schemas.Schema, schema: schemas.Schema) -> str:
    named = here.get("type")
    types = [named] if isinstance(named, str) else sorted(schemas.types_at(here, schema))
    return f" ({' or '.join(types)})" if len(types) < 4 else ""


def error_result(error: Exception) -> LoopToolResult:
    """Return what the model reads when a tool raised."""
    text, details = str(error), dict[str, Any](outcome="error")
    match error:
        case ToolFailed():
            own = {} if type(error) is ToolFailed else {"exception": exception_names(error)}
            details = {**own, **error.details, "outcome": error.outcome}
        case ModelRetry():
            details = {"outcome": "invalid", "retry": True}
        case TimeoutError():
            text = text or "It timed out."
            details = {"outcome": "timeout", "exception": exception_names(error)}
        case _:
            _logger.error("a tool raised", exc_info=error)
            text = text or type(error).__name__
            details["exception"] = exception_names(error)
    return LoopToolResult(content=(TextBlock(text),), details=details, is_error=True)


def answered_result(answer: ToolOverride, call: ToolCall) -> LoopToolResult:
    """Return the result that a hook gave in the tool's place."""
    content = answer.content or "This call was blocked."
    blocks = (TextBlock(content),) if isinstance(content, str) else tuple(content)
    refused = "denied" if call.problem is None else PROBLEM_OUTCOMES[call.problem]
    return LoopToolResult(
        content=blocks,
        details={"outcome": refused if answer.is_error else "ok", **answer.details},
        is_error=answer.is_error,
        terminate=answer.terminate,
    )


def withheld_result(result: LoopToolResult) -> LoopToolResult:
    """Return what is kept of a result that not every hook has seen; dirge's own texts are kept."""
    return result if result is ABORTED else replace(WITHHELD, terminate=result.terminate)


def with_outcome(result: LoopToolResult) -> LoopToolResult:
    """Return the result with a `details["outcome"]` that does not contradict `is_error`."""
    if result.details.get("outcome") not in (None, "ok" if result.is_error else None):
        return result
    outcome = "error" if result.is_error else "ok"
    return replace(result, details={**result.details, "outcome": outcome})


def signature(name: str, arguments: Any) -> str:
    """Return the name, NUL, and the arguments as canonical JSON: equal for equal calls."""
    return f"{name}\0{canonical_json(arguments)}"


def canonical_json(value: Any) -> str:
    """Return compact JSON with keys sorted at every depth and `1.0` written as `1`."""
    try:
        return json.dumps(_with_integers(value), sort_keys=True, separators=(",", ":"))
    except Exception:
        return json.dumps(object.__repr__(value))


def _with_integers(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _with_integers(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_with_integers(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
