"""Prepares tools for the loop: validation, and one call run with its services.

It also names the built-in tools: `definitions.json` has what the model and the user get of them,
and the module of one is imported by its first call.
"""

import importlib
import json
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dirge_py.agent_loop.interceptors import intercepted
from dirge_py.agent_loop.tool_calls import refuse_constant
from dirge_py.lib.identity_cache import IdentityCache
from dirge_py.lib.nearest import nearest
from dirge_py.tools.base import Hints, Tool, ToolContext, ToolServices
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import DirgeError, ModelRetry, ToolFailed, UsageError
from dirge_py.types.messages import TextBlock
from dirge_py.types.tools import (
    ArgumentProblem,
    Claim,
    InvalidArguments,
    LoopTool,
    LoopToolResult,
    OnUpdate,
    Preview,
    Proceed,
    ToolCall,
    ToolExecutionMode,
    exception_names,
    structured_result,
    text_result,
)

if TYPE_CHECKING:
    from jsonschema import ValidationError as SchemaViolation
    from jsonschema.protocols import Validator
    from pydantic import BaseModel


_MOST_PARSED = 64
_JSON_SCALARS = (str, int, float, bool, type(None))


class BoundTool:
    """A tool with its services: implements `LoopTool` and `Previews` of `types.tools`.

    The arguments of a call are parsed once, when they are validated. Its claims, its preview and
    its run, which must not change it, find the result by the value of the arguments: a hook may
    have changed those in place.
    """

    def __init__(self, tool: Tool[Any], services: ToolServices, cwd: str) -> None:
        self.tool = tool
        self.name = tool.name
        self.label = tool.label
        self.execution_mode: ToolExecutionMode | None = tool.mode
        self.timeout_s = tool.timeout_s
        self.polls = tool.polls
        self.hints = tool.hints
        self.output_schema = tool.output_schema
        self.max_result_chars = tool.max_result_chars
        self._services = services
        self._cwd = cwd
        self._parsed: dict[Hashable, BaseModel] = {}

    @cached_property
    def description(self) -> str:
        return self.tool.description

    @cached_property
    def parameters(self) -> Mapping[str, Any]:
        return self.tool.parameters

    @property
    def unavailable(self) -> str:
        """Return why it cannot be used now, or ""; a tool whose check fails is unavailable."""
        try:
            return self.tool.unavailable(self._services)
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    @property
    def chain(self) -> Sequence[str]:
        """Return the names of the tool's own interceptors, the outermost first."""
        return [getattr(around, "__name__", type(around).__name__) for around in self.tool.around]

    def prepare_arguments(self, arguments: Any) -> Any:
        return self.tool.prepare(arguments)

    def claims(self, arguments: Mapping[str, Any]) -> Sequence[Claim]:
        return self.tool.claims(self._known(arguments), self._context())

    def claims_of_part(self, arguments: str | Mapping[str, Any]) -> Sequence[Claim]:
        """Return the claims of incomplete arguments; a string is the first required one.

        Raises ValueError if one of them is wrong.
        """
        from dirge_py.tools.arguments import first_required, parse_part

        if isinstance(arguments, str):
            arguments = {first_required(self.parameters): arguments}
        prepared = self.prepare_arguments(dict(arguments))
        model = parse_part(self.tool.args, prepared, tool=self.name, schema=self.parameters)
        return self.tool.claims(model, self._context())

    def preview(self, arguments: Mapping[str, Any]) -> Preview | None:
        """Return what a call would change. Reads files. Raises DirgeError like the call itself."""
        return self.tool.preview(self._known(arguments), self._context())

    async def execute(
        self, call_id: str, arguments: Mapping[str, Any], signal: AbortSignal, on_update: OnUpdate
    ) -> LoopToolResult:
        ctx = self._context(call_id, signal, on_update)
        call = ToolCall(id=call_id, name=self.name, arguments=arguments, tool=self)
        try:
            return await intercepted(call, partial(self._run, arguments, ctx), self.tool.around)()
        finally:
            self._services.files.release(call_id)

    async def _run(self, arguments: Mapping[str, Any], ctx: ToolContext) -> LoopToolResult:
        try:
            if reason := self.unavailable:
                raise ToolFailed(f"`{self.name}` is not available now: {reason}.")
            result = await self.tool.run(self._known(arguments), ctx)
        except ModelRetry:
            raise
        except DirgeError as error:
            named = {} if type(error) is ToolFailed else {"exception": exception_names(error)}
            if not isinstance(error, ToolFailed):
                return text_result(error.in_one_line(), outcome="error", is_error=True, **named)
            details = {**named, "outcome": error.outcome, **error.details}
            return LoopToolResult(content=(TextBlock(str(error)),), details=details, is_error=True)
        if not isinstance(result, str):
            return result
        if self.output_schema is None:
            return text_result(result)
        # The JSON value that the text is, or the text as the value.
        value: Any = result
        with suppress(ValueError, RecursionError):
            value = json.loads(result, parse_constant=refuse_constant)
        return structured_result(value, result)

    def validate(self, arguments: Any) -> Mapping[str, Any]:
        """Return the arguments as they will be used; InvalidArguments has a text for the model."""
        from dirge_py.tools.arguments import parse_arguments

        model = parse_arguments(self.tool.args, arguments, tool=self.name, schema=self.parameters)
        valid = model.model_dump(exclude_unset=True)
        with suppress(TypeError):
            self._parsed[_as_key(valid)] = model
        if len(self._parsed) > _MOST_PARSED:
            del self._parsed[next(iter(self._parsed))]
        return valid

    def _known(self, arguments: Mapping[str, Any]) -> "BaseModel":
        """Return the parsed form of these arguments; those that were not validated are parsed."""
        with suppress(KeyError, TypeError):
            return self._parsed[_as_key(arguments)]
        return self.tool.args.model_validate(arguments)

    def _context(
        self,
        call_id: str = "",
        signal: AbortSignal | None = None,
        on_update: OnUpdate = lambda partial: None,
    ) -> ToolContext:
        """Return the context of a call; without a call id, the one for claims and previews."""
        return ToolContext(
            cwd=self._cwd,
            services=self._services,
            call_id=call_id,
            signal=signal or AbortSignal(),
            on_update=on_update,
        )


class Toolbox:
    """The tools of one conversation, in the given order, without those whose service is missing."""

    def __init__(self, tools: Iterable[Tool[Any]], services: ToolServices, cwd: str) -> None:
        self._services, self._cwd = services, cwd
        self._bound = {
            tool.name: BoundTool(tool, services, cwd)
            for tool in tools
            if all(getattr(services, need, None) is not None for need in tool.needs)
        }

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._bound)

    @property
    def loop_tools(self) -> Sequence[LoopTool]:
        return tuple(self._bound.values())

    def bind_tools(self, tools: Iterable[Tool[Any] | LoopTool]) -> Sequence[LoopTool]:
        """Return further tools, bound to the same services, in their order; the last of a name."""
        named = {tool.name: tool for tool in tools}
        own = [tool for tool in named.values() if isinstance(tool, Tool)]
        ready = {name: tool for name, tool in named.items() if not isinstance(tool, Tool)}
        ready |= Toolbox(own, self._services, self._cwd)._bound
        return tuple(ready[name] for name in named if name in ready)

    def validate(self, tool: LoopTool, arguments: Any) -> Mapping[str, Any]:
        """Validate arguments; those of tools that are not bound here by their JSON Schema."""
        if isinstance(tool, BoundTool):
            return tool.validate(arguments)
        return validate_schema(tool.parameters, arguments, tool=tool.name)

    def claims(self, name: str, arguments: str | Mapping[str, Any]) -> Sequence[Claim]:
        """Return the claims of a call. Raises UsageError if the call is invalid.

        A string fills the tool's first required field. Others may be missing.
        """
        tool = self._bound.get(name)
        if tool is None:
            near = nearest(name, self._bound)
            hint = f"Did you mean `{near}`?" if near else f"Tools: {', '.join(self._bound)}."
            raise UsageError(f"There is no tool `{name}`.", hint=hint)
        try:
            return tool.claims_of_part(arguments)
        except ValueError as error:
            raise UsageError(str(error)) from None


async def check_result(call: ToolCall, proceed: Proceed) -> LoopToolResult:
    """Check a result by its tool's `output_schema`.

    An interceptor around the calls of all tools: here, too, a structured value becomes the text.
    """
    result = await proceed()
    if not isinstance(result, LoopToolResult):
        return result
    if "structured" in result.details and not result.content:
        shown = structured_result(result.details["structured"]).content
        result = replace(result, content=shown)
    schema = getattr(call.tool, "output_schema", None)
    problems: Sequence[str] = ()
    if schema is not None and not result.is_error:
        problems = ["it has no structured value"]
        if "structured" in result.details:
            problems = value_problems(schema, result.details["structured"])
    if problems:
        words = (
            f"The call of `{call.name}` was made, but its result doesn't fit the tool's output "
            "schema. Don't call it again only for that; use what it says with care, and tell the "
            "user."
        )
        text = "\n".join([words, *(f"- {problem}" for problem in problems), "The result:"])
        details = {**result.details, "outcome": "error"}
        content = (TextBlock(text), *result.content)
        result = replace(result, content=content, details=details, is_error=True)
    return result


def _as_key(value: Any) -> Hashable:
    """Return a key that is equal for equal JSON only: `1`, `1.0` and `true` differ.

    Raises TypeError for values that JSON does not have.
    """
    if isinstance(value, dict):
        return dict, tuple((_as_key(name), _as_key(each)) for name, each in value.items())
    if isinstance(value, list):
        return list, tuple(map(_as_key, value))
    if type(value) not in _JSON_SCALARS:
        raise TypeError(f"{type(value).__name__} is not JSON.")
    return type(value), value


_DEFINITIONS = Path(__file__).with_name("definitions.json")


class BuiltInTool(Tool[Any]):
    """A built-in tool by its definition; what needs its code imports its module."""

    def __init__(self, name: str, definition: Mapping[str, Any]) -> None:
        self._definition = definition
        needs, hints = tuple(definition["needs"]), Hints(**definition["hints"])
        vars(self).update(definition["properties"], name=name, needs=needs, hints=hints)

    @property
    def description(self) -> str:
        description: str = self._definition["description"]
        return description

    @property
    def parameters(self) -> Mapping[str, Any]:
        parameters: Mapping[str, Any] = self._definition["parameters"]
        return parameters

    @cached_property
    def _tool(self) -> Tool[Any]:
        try:
            tool: Tool[Any] = importlib.import_module(f"dirge_py.tools.{self.name}").TOOL
        except ImportError as error:
            # Its files changed since the start.
            raise ToolFailed(
                f"dirge was updated while running; start it again ({error})."
            ) from error
        return tool

    @property
    def args(self) -> "type[BaseModel]":  # type: ignore[override]
        return self._tool.args

    async def run(self, args: "BaseModel", ctx: ToolContext) -> LoopToolResult | str:
        return await self._tool.run(args, ctx)

    def claims(self, args: "BaseModel", ctx: ToolContext) -> Sequence[Claim]:
        return self._tool.claims(args, ctx)

    def preview(self, args: "BaseModel", ctx: ToolContext) -> Preview | None:
        return self._tool.preview(args, ctx)

    def prepare(self, arguments: Any) -> Any:
        return self._tool.prepare(arguments)


@cache
def _definitions() -> Mapping[str, Mapping[str, Any]]:
    definitions: Mapping[str, Mapping[str, Any]] = json.loads(_DEFINITIONS.read_bytes())
    return definitions


def tool_names() -> list[str]:
    """Return the names of the built-in tools, sorted."""
    return list(_definitions())


def discover_tools() -> list[Tool[Any]]:
    """Return the built-in tools, sorted by name; imports none of their modules."""
    return [BuiltInTool(*each) for each in _definitions().items()]


_KEYWORD_KINDS = {"type": "type", "enum": "enum", "const": "enum"}
_LONGEST_MESSAGE = 300


def validate_schema(
    schema: Mapping[str, Any], arguments: Any, *, tool: str = "the tool"
) -> Mapping[str, Any]:
    """Return the arguments if they match. Raises InvalidArguments; a `$ref` is never fetched."""
    if not isinstance(arguments, Mapping):
        raise InvalidArguments(f"The arguments of `{tool}` must be one JSON object.")
    try:
        validator = _compiled(schema)
        problems = [
            each for error in validator.iter_errors(arguments) for each in _problems_of(error)
        ]
    except Exception as error:
        raise InvalidArguments(
            f"The parameters of `{tool}` are not a valid JSON Schema ({_first_line(error)}), so no "
            "call can be checked. Use another tool, and tell the user."
        ) from error
    if not problems:
        return arguments
    lines = [f"- {each.message}" for each in problems]
    raise InvalidArguments("\n".join([f"The arguments of `{tool}` do not fit:", *lines]), problems)


def value_problems(schema: Mapping[str, Any], value: Any) -> Sequence[str]:
    """Return what is wrong with a value, one line each with its place. The schema must be valid."""
    try:
        errors = list(_compiled(schema).iter_errors(value))
        return [_describe_problem(each) for error in errors for each in _problems_of(error)]
    except Exception as error:
        return [f"it cannot be checked ({_first_line(error)})"]


def schema_fault(schema: Mapping[str, Any]) -> str:
    """Return why no value can be checked against this schema, such as a lost `$ref`; else ""."""
    if not isinstance(schema.get("$schema", ""), str):
        return "its $schema must be text"
    try:
        validator = _compiled(schema)
        if lost := _lost_reference(schema):
            return f"its $ref {lost!r} leads nowhere; nothing is fetched"
        # A schema with endless references fails with any value.
        list(validator.iter_errors(None))
        list(validator.iter_errors({}))
    except RecursionError:
        return "it is nested too deeply, or refers to itself without end"
    except Exception as error:
        path = getattr(error, "json_path", "$")
        # `type` may be a list, too, but the error about a wrong word should list the right ones.
        inner = (each for each in getattr(error, "context", ()) if each.validator == "enum")
        return _first_line(next(inner, error)) + (f" (at {path})" if path != "$" else "")
    return ""


def _lost_reference(schema: Mapping[str, Any]) -> str:
    """Return a `$ref` that leads out of the schema, or nowhere; "" if there is none."""
    from referencing import jsonschema
    from referencing.exceptions import Unresolvable

    draft = jsonschema.specification_with(schema.get("$schema", ""), default=jsonschema.DRAFT202012)
    root = draft.create_resource(schema)
    waiting = [(root, jsonschema.EMPTY_REGISTRY.resolver_with_root(root))]
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


def _describe_problem(problem: ArgumentProblem) -> str:
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in problem.path)
    place = "".join(steps).lstrip(".")
    is_named = problem.kind in ("missing", "extra") or not place
    return f"{place}: {problem.message}" if not is_named or "." in place else problem.message


def _first_line(error: Exception) -> str:
    return (str(error).split("\n")[0] or type(error).__name__)[:_LONGEST_MESSAGE]


def _compile(schema: Any) -> "Validator":
    # Imported late: most starts don't need it.
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for
    from referencing.jsonschema import EMPTY_REGISTRY

    kind = validator_for(schema, default=Draft202012Validator)
    kind.check_schema(schema)
    # Without an explicit registry, it would fetch the targets of `$ref`.
    validator: Validator = kind(schema, registry=EMPTY_REGISTRY)
    return validator


_compiled = IdentityCache(_compile)


def _problems_of(error: "SchemaViolation") -> Iterator[ArgumentProblem]:
    path = tuple(error.absolute_path)
    message = error.message
    if len(message) > _LONGEST_MESSAGE:
        message = f"{message[:_LONGEST_MESSAGE]}…"
    if error.validator == "required":
        # There is one error for each missing name, which only its message contains.
        for name in error.validator_value:
            if name not in error.instance and error.message.startswith(repr(name)):
                yield ArgumentProblem(
                    path=(*path, name), kind="missing", message=f"`{name}` is required"
                )
    elif error.validator == "additionalProperties" and error.validator_value is False:
        known, patterns = (error.schema.get(key, ()) for key in ("properties", "patternProperties"))
        for name in error.instance:
            if name in known or any(re.search(pattern, name) for pattern in patterns):
                continue
            yield ArgumentProblem(path=(*path, name), kind="extra", message=f"`{name}` is unknown")
    else:
        kind = _KEYWORD_KINDS.get(str(error.validator), "other")
        yield ArgumentProblem(path=path, kind=kind, message=message)  # type: ignore[arg-type]
