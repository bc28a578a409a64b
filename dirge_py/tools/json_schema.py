"""Arguments against a JSON Schema, for tools that bring one of their own: plugins, servers, SDK."""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dirge_py.calls import ArgumentProblem, InvalidArguments
from dirge_py.lib.per_object import PerObject

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
        text = str(error).split("\n")[0][:_LONGEST_MESSAGE]
        raise InvalidArguments(
            f"The parameters of `{tool}` are no valid JSON Schema ({text}), so no call can be "
            "checked. Use another tool, and tell the user."
        ) from error
    if not problems:
        return arguments
    lines = [f"- {each.message}" for each in problems]
    raise InvalidArguments("\n".join([f"The arguments of `{tool}` do not fit:", *lines]), problems)


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


_compiled = PerObject(_compile)


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
