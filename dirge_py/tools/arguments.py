"""Arguments of tools as pydantic models: their JSON Schemas, and what is wrong with a call's.

Imported with the first tool that runs: a turn without tool calls needs no pydantic.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from dirge_py.files.resolve import check_spelling
from dirge_py.lib.nearest import nearest
from dirge_py.lib.schemas import Path as SchemaPath
from dirge_py.lib.schemas import Schema, child, parts, properties_of, types_at
from dirge_py.types.errors import FileError
from dirge_py.types.tools import ArgumentProblem, InvalidArguments


def check_path_text(path: str) -> str:
    """Return the path. Raises ValueError if no file can have this name."""
    try:
        check_spelling(path)
        path.encode()
    except UnicodeEncodeError:
        raise ValueError("contains half of a surrogate pair") from None
    except FileError as error:
        raise ValueError(error.message) from None
    return path


PathText = Annotated[str, AfterValidator(check_path_text)]
"""A path as a model wrote it; text that no file name can have is an invalid argument."""


class ToolArgs(BaseModel):
    """Arguments of a tool; the model sees each field's description."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


def parse_arguments(
    args: type[BaseModel], arguments: Any, *, tool: str, schema: Schema
) -> BaseModel:
    """Return the arguments as `args`. Raises InvalidArguments with a text for the model."""
    own = arguments
    with suppress(Exception):  # a value that can't be copied did not come from a model
        own = deepcopy(arguments)  # what is remembered must not change with the arguments
    try:
        model = args.model_validate(own)
    except ValidationError as error:
        raise invalid_arguments(error, tool, schema, arguments) from None
    if booleans := list(booleans_for_numbers(arguments, schema)):
        problem = f"do not fit: {_places(booleans)} must be a number."
        raise InvalidArguments(f"The arguments of `{tool}` {problem}", booleans)
    if unknown := list(undeclared_properties(arguments, schema)):
        raise InvalidArguments(f"`{tool}` has no property {_places(unknown)}.", unknown)
    return model


def parse_part(
    args: type[BaseModel], arguments: Mapping[str, Any], *, tool: str, schema: Schema
) -> BaseModel:
    """Return incomplete arguments as `args`. Raises ValueError if one of them is wrong."""
    try:
        return args.model_validate(arguments)
    except ValidationError as error:
        # An error about the whole may be due to the missing part.
        is_wrong = any(each["type"] != "missing" and each["loc"] for each in error.errors())
        if is_wrong or first_required(schema) not in arguments:
            raise ValueError(describe_mistakes(error, tool, schema)) from None
        return args.model_construct(None, **arguments)


def first_required(schema: Schema) -> str:
    """Return the first required argument, else the first one."""
    return next(iter((*schema.get("required", ()), *schema.get("properties", ()))), "")


def _places(problems: Sequence[ArgumentProblem]) -> str:
    return ", ".join(f"`{'.'.join(map(str, each.path))}`" for each in problems)


_KINDS: Mapping[str, Literal["missing", "enum", "extra"]] = {
    "missing": "missing",
    "extra_forbidden": "extra",
    "literal_error": "enum",
    "enum": "enum",
}
"""The kinds of problems by pydantic's error types."""
_OPENING = ("additionalProperties", "patternProperties")
"""Keywords that allow properties with other names."""


@lru_cache(maxsize=256)
def parameters_of(args: type[BaseModel]) -> Mapping[str, Any]:
    """Return the JSON Schema of `args`, as short as possible: every request contains it."""
    schema: dict[str, Any] = _slim(args.model_json_schema())
    schema.pop("description", None)
    return schema


def invalid_arguments(
    error: ValidationError, tool: str, schema: Schema, arguments: Any
) -> InvalidArguments:
    """Return the error for the loop: a text for the model, and the place of each problem."""
    problems = [
        ArgumentProblem(
            path=_argument_path(each["loc"], arguments),
            kind=_KINDS.get(each["type"])
            or ("type" if each["type"].endswith(("_type", "_parsing")) else "other"),
            message=each["msg"],
        )
        for each in error.errors(include_url=False, include_context=False)
    ]
    return InvalidArguments(describe_mistakes(error, tool, schema), problems)


def describe_mistakes(error: ValidationError, tool: str, schema: Mapping[str, Any]) -> str:
    """Describe what is wrong with the arguments, one line per mistake, and what was expected."""
    known, required = list(schema.get("properties", {})), schema.get("required", [])
    lines = [f"- {_mistake(each, known)}" for each in error.errors(include_url=False)]
    expected = ", ".join(name if name in required else f"{name} (optional)" for name in known)
    return "\n".join([f"The arguments of `{tool}` do not fit:", *lines, f"Expected: {expected}."])


def _argument_path(steps: tuple[str | int, ...], arguments: Any) -> SchemaPath:
    """Return the path in the arguments, without pydantic's names for branches of a union."""
    path: list[str | int] = []
    for number, step in enumerate(steps, start=1):
        places = range(len(arguments)) if isinstance(arguments, list) else arguments
        if not isinstance(places, range | Mapping):
            continue
        if step in places or (number == len(steps) and places is arguments):
            arguments = arguments[step] if step in places else None
            path.append(step)
    return tuple(path)


def _nested(
    value: Any, schema: Any, root: Schema, path: SchemaPath = ()
) -> Iterator[tuple[SchemaPath, Any, Any]]:
    """Yield (path, value, its schema) for the value, and what in it may have a problem."""
    yield path, value, schema
    steps: Iterable[tuple[Any, Any]] = enumerate(value) if isinstance(value, list) else ()
    for step, each in value.items() if isinstance(value, Mapping) else steps:
        if isinstance(each, bool | Mapping | list):
            yield from _nested(each, child(schema, step, root), root, (*path, step))


def booleans_for_numbers(arguments: Any, root: Schema) -> Iterator[ArgumentProblem]:
    """Yield every `true` or `false` where a number belongs: pydantic would read it as 1 or 0."""
    for path, value, schema in _nested(arguments, root, root):
        types = types_at(schema, root) if isinstance(value, bool) else ()
        if "boolean" not in types and "integer" in types:
            yield ArgumentProblem(path=path, kind="type", message="a number, not a boolean")


def undeclared_properties(arguments: Any, root: Schema) -> Iterator[ArgumentProblem]:
    """Yield every property that the schema does not declare.

    By default, an embedder's models accept unknown properties, and drop them.
    """
    for path, value, schema in _nested(arguments, root, root):
        known = properties_of(schema, root) if isinstance(value, Mapping) else {}
        if known and not any(part.get(word) for part in parts(schema, root) for word in _OPENING):
            for name in value:
                if name not in known:
                    place, message = (*path, name), "no such property"
                    yield ArgumentProblem(path=place, kind="extra", message=message)


def _slim(node: Any) -> Any:
    """Return `node` without titles, and without `null` beside another type."""
    if isinstance(node, list):
        return [_slim(each) for each in node]
    if not isinstance(node, dict):
        return node
    slim: dict[str, Any] = {
        # A property may be called `title`: its name must stay.
        key: {name: _slim(each) for name, each in value.items()}
        if key == "properties"
        else _slim(value)
        for key, value in node.items()
        if key != "title" and not (key == "default" and value is None)
    }
    choices = [each for each in slim.get("anyOf", []) if each != {"type": "null"}]
    if len(choices) == 1:
        del slim["anyOf"]
        slim = {**choices[0], **slim}
    return slim


def _mistake(error: Any, known: list[str]) -> str:
    place = ".".join(str(step) for step in error["loc"]) or "arguments"
    if error["type"] == "missing":
        return f"`{place}` is required."
    if error["type"] == "extra_forbidden":
        near = nearest(place, known)
        return f"`{place}` is unknown." + (f" Did you mean `{near}`?" if near else "")
    message, value = error["msg"], repr(error["input"])
    shown = value if len(value) <= 60 else f"{value[:57]}…"
    return f"`{place}`: {message[:1].lower()}{message[1:]} (got {shown})."
