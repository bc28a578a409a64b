"""What a model reads when its arguments do not fit: rejected, expected, got, try."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from dirge_py.agent_loop.flatten import told_schema
from dirge_py.lib.nearest import nearest
from dirge_py.lib.schemas import (
    Path,
    Schema,
    choices_at,
    properties_of,
    required_in,
    schema_at,
    types_at,
)
from dirge_py.types.tools import ArgumentProblem

_GOT_BYTES = 200
_EXPECTED_BYTES = 600
_MOST_PROBLEMS = 8


def explain(
    tool: str,
    schema: Schema,
    arguments: Any,
    *,
    message: str,
    problems: Sequence[ArgumentProblem] = (),
) -> str:
    """Four labelled parts; the schema shown is that of the place which the advice is about."""
    chosen = _most_telling(schema, problems)
    expected = schema if chosen is None else _expected_at(schema, chosen)
    if expected is schema:
        expected = told_schema(schema)
    return "\n".join(
        (
            f"Rejected: `{tool}` did not run: {_rejected(message, problems)}",
            f"Expected: {cut_json(expected, _EXPECTED_BYTES)}",
            f"Got: {cut_json(arguments, _GOT_BYTES)}",
            f"Try: {_advice(schema, chosen, value_at(arguments, chosen.path if chosen else ()))}",
        )
    )


def pointer(path: Path) -> str:
    """A place in arguments as a JSON pointer; the top is `/`."""
    return "/" + "/".join(str(step).replace("~", "~0").replace("/", "~1") for step in path)


def place(path: Path) -> str:
    """The same place as people write it: `edits[0].count`."""
    steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in path]
    return "".join(steps).removeprefix(".")


def cut_json(value: Any, most_bytes: int) -> str:
    """Compact JSON of `value`, at most so many bytes; what is cut ends with an ellipsis."""
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    except (ValueError, TypeError, RecursionError):
        text = type(value).__name__
    raw = text.encode(errors="replace")
    if len(raw) <= most_bytes:
        return raw.decode()
    return raw[: most_bytes - len("…".encode())].decode(errors="ignore") + "…"


def value_at(arguments: Any, path: Path) -> Any:
    """What stands at `path`; None where nothing does."""
    for step in path:
        if isinstance(step, int):
            is_there = isinstance(arguments, list) and -1 < step < len(arguments)
        else:
            is_there = isinstance(arguments, Mapping) and step in arguments
        if not is_there:
            return None
        arguments = arguments[step]
    return arguments


def _rejected(message: str, problems: Sequence[ArgumentProblem]) -> str:
    if not problems:
        return message
    told = [f"at {pointer(each.path)}: {each.message}" for each in problems[:_MOST_PROBLEMS]]
    more = len(problems) - len(told)
    return "; ".join([*told, *([f"and {more} more"] if more else [])])


def _most_telling(schema: Schema, problems: Sequence[ArgumentProblem]) -> ArgumentProblem | None:
    """The problem to give advice about: an unknown word is the easiest to put right."""
    for each in problems:
        if each.kind == "enum" and choices_at(schema_at(schema, each.path), schema):
            return each
    return problems[0] if problems else None


def _expected_at(schema: Schema, problem: ArgumentProblem) -> Any:
    path = problem.path[:-1] if problem.kind == "extra" else problem.path
    return schema_at(schema, path) or schema


def _advice(schema: Schema, problem: ArgumentProblem | None, given: Any) -> str:
    if problem is None or not problem.path:
        return "call it again with one JSON object that fits what is expected."
    name, where = problem.path[-1], pointer(problem.path)
    here = schema_at(schema, problem.path)
    around = schema_at(schema, problem.path[:-1])
    if problem.kind == "missing":
        return f"add `{name}`{_as_type(here, schema)}."
    if problem.kind == "extra":
        known = list(properties_of(around, schema))
        near = nearest(str(name), known)
        return f"leave out `{name}`." if near is None else f"write `{near}` instead of `{name}`."
    choices = choices_at(here, schema)
    if problem.kind == "enum" and choices:
        return _one_of(where, choices, given)
    if given is None and problem.kind == "type":
        if name in required_in(around, schema):
            return f"give {where} a value{_as_type(here, schema)}: it is required."
        return f"leave out {where}, or give it a value{_as_type(here, schema)}."
    if types_at(here, schema) == {"array"}:
        return f'write {where} as a JSON array, as in ["…"].'
    return f"give {where} a value{_as_type(here, schema)} that fits what is expected."


def _as_type(here: Schema, schema: Schema) -> str:
    told = here.get("type")
    types = [told] if isinstance(told, str) else sorted(types_at(here, schema))
    return f" ({' or '.join(types)})" if len(types) < 4 else ""


def _one_of(place: str, choices: Sequence[Any], given: Any) -> str:
    listed = cut_json(list(choices), _GOT_BYTES)
    words = [each for each in choices if isinstance(each, str)]
    near = nearest(given, words) if isinstance(given, str) else None
    meant = f" You probably meant {json.dumps(near, ensure_ascii=False)}." if near else ""
    return f"give {place} one of {listed}.{meant}"
