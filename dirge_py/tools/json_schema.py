"""Values against a JSON Schema: arguments of tools that bring one of their own, and answers."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dirge_py.lib.identity_cache import IdentityCache
from dirge_py.types.tools import ArgumentProblem, InvalidArguments

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

_KINDS = {"type": "type", "enum": "enum", "const": "enum"}
_LONGEST_MESSAGE = 300


def validate_schema(
    schema: Mapping[str, Any], arguments: Any, *, tool: str = "the tool"
) -> Mapping[str, Any]:
    """The arguments, which fit; the schema is compiled once.

    JSON Schema 2020-12 unless the schema names another draft. Nothing is fetched: a `$ref` that
    leads out of the schema is an error.

    Raises:
        InvalidArguments: with every problem where it is, or because the schema itself is wrong.
    """
    if not isinstance(arguments, Mapping):
        raise InvalidArguments(f"The arguments of `{tool}` must be one JSON object.")
    try:
        validator = _compiled(schema)
        problems = [each for error in validator.iter_errors(arguments) for each in _problems(error)]
    except Exception as error:
        raise InvalidArguments(
            f"The parameters of `{tool}` are no valid JSON Schema ({_first_line(error)}), so no "
            "call can be checked. Use another tool, and tell the user."
        ) from error
    if not problems:
        return arguments
    lines = [f"- {each.message}" for each in problems]
    raise InvalidArguments("\n".join([f"The arguments of `{tool}` do not fit:", *lines]), problems)


def value_problems(schema: Mapping[str, Any], value: Any) -> Sequence[str]:
    """What is wrong with any value, one line each with its place; the schema is a valid one."""
    try:
        errors = list(_compiled(schema).iter_errors(value))
        return [_line(each) for error in errors for each in _problems(error)]
    except Exception as error:
        return [f"it cannot be checked ({_first_line(error)})"]


def schema_fault(schema: Mapping[str, Any]) -> str:
    """Why nothing can be checked after this schema, or "".

    Every `$ref` must lead somewhere within it.
    """
    if not isinstance(schema.get("$schema", ""), str):
        return "its $schema must be text"
    try:
        validator = _compiled(schema)
        lost = _lost_reference(schema)
        if lost:
            return f"its $ref {lost!r} leads nowhere; nothing is fetched"
        # One that refers to itself without end is found out by any value.
        list(validator.iter_errors(None))
        list(validator.iter_errors({}))
    except RecursionError:
        return "it is nested too deeply, or refers to itself without end"
    except Exception as error:
        place = getattr(error, "json_path", "$")
        return _fault(error) + (f" (at {place})" if place != "$" else "")
    return ""


def _fault(error: Exception) -> str:
    """What is wrong with a schema. Of the two forms a `type` has, who wrote one means that."""
    forms = [each for each in getattr(error, "context", ()) if each.validator == "enum"]
    return _first_line(forms[0] if forms else error)


def _lost_reference(schema: Mapping[str, Any]) -> str:
    """A `$ref` that leads out of the schema, or nowhere; "" if there is none."""
    from referencing.exceptions import Unresolvable  # noqa: PLC0415
    from referencing.jsonschema import (  # noqa: PLC0415
        DRAFT202012,
        EMPTY_REGISTRY,
        specification_with,
    )

    kind = specification_with(schema.get("$schema", ""), default=DRAFT202012)
    root = kind.create_resource(schema)
    waiting = [(root, EMPTY_REGISTRY.resolver_with_root(root))]
    while waiting:
        resource, resolver = waiting.pop()
        contents = resource.contents
        reference = contents.get("$ref") if isinstance(contents, Mapping) else None
        if isinstance(reference, str):
            try:
                resolver.lookup(reference)
            except Unresolvable:
                return reference
        waiting += [(each, resolver.in_subresource(each)) for each in resource.subresources()]
    return ""


def _line(problem: ArgumentProblem) -> str:
    place = "".join(
        f"[{step}]" if isinstance(step, int) else f".{step}" for step in problem.path
    ).lstrip(".")
    is_named = problem.kind in ("missing", "extra") or not place
    return f"{place}: {problem.message}" if not is_named or "." in place else problem.message


def _first_line(error: Exception) -> str:
    return (str(error).split("\n")[0] or type(error).__name__)[:_LONGEST_MESSAGE]


def _compile(schema: Any) -> "Validator":
    # Imported late: a start that has no such tool does not pay for it.
    from jsonschema import Draft202012Validator  # noqa: PLC0415
    from jsonschema.validators import validator_for  # noqa: PLC0415
    from referencing.jsonschema import EMPTY_REGISTRY  # noqa: PLC0415

    kind = validator_for(schema, default=Draft202012Validator)
    kind.check_schema(schema)
    # Without a registry of its own it would fetch what a `$ref` names.
    validator: Validator = kind(schema, registry=EMPTY_REGISTRY)
    return validator


_compiled = IdentityCache(_compile)


def _problems(error: "ValidationError") -> Iterator[ArgumentProblem]:
    path = tuple(error.absolute_path)
    message = error.message
    if len(message) > _LONGEST_MESSAGE:
        message = f"{message[:_LONGEST_MESSAGE]}…"
    if error.validator == "required":
        # One error for each name; which one it is stands in its message alone.
        for name in error.validator_value:
            if name not in error.instance and error.message.startswith(repr(name)):
                yield ArgumentProblem(
                    path=(*path, name), kind="missing", message=f"`{name}` is required"
                )
    elif error.validator == "additionalProperties" and error.validator_value is False:
        for name in _extras(error):
            yield ArgumentProblem(path=(*path, name), kind="extra", message=f"`{name}` is unknown")
    else:
        kind = _KINDS.get(str(error.validator), "other")
        yield ArgumentProblem(path=path, kind=kind, message=message)  # type: ignore[arg-type]


def _extras(error: "ValidationError") -> Iterator[str]:
    schema: Mapping[str, Any] = error.schema
    patterns = schema.get("patternProperties", ())
    for name in error.instance:
        is_named = name in schema.get("properties", ())
        if not is_named and not any(re.search(each, name) for each in patterns):
            yield name
