"""`@tool`: a typed function as a tool.

    @tool(op="network", resource="url")
    async def fetch(url: Annotated[str, "Where from."], limit: int = 1000) -> str:
        \"\"\"Fetch a page as text.\"\"\"

The docstring is the description for the model, annotations make the schema, and `op` says what a
call does, for the permission check.
"""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from typing import Annotated, Any, Generic, ParamSpec, TypeVar, get_args, get_origin, overload
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, create_model
from pydantic.errors import PydanticSchemaGenerationError
from pydantic_core import to_jsonable_python

from dirge_py.lib.lazy import late_pattern
from dirge_py.tools.arguments import ToolArgs, parameters_of
from dirge_py.tools.base import NO_HINTS, Hints, Tool, ToolContext, ToolServices
from dirge_py.tools.threads import in_thread
from dirge_py.tools.toolbox import schema_fault
from dirge_py.types.tools import (
    Claim,
    Interceptor,
    LoopToolResult,
    Operation,
    ShellCommand,
    ToolExecutionMode,
    structured_result,
)

P = ParamSpec("P")
R = TypeVar("R")

_NAME = late_pattern(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


def _own_copy(value: Any) -> Any:
    if isinstance(value, list | dict | set | BaseModel):
        with suppress(Exception):  # it holds something that can't be copied
            return deepcopy(value)
    return value


class FunctionTool(Tool[Any], Generic[P, R]):
    """A function as a tool; calling it calls the function."""

    def __init__(
        self,
        function: Callable[P, R],
        *,
        op: Operation = "other",
        resource: str | None = None,
        name: str | None = None,
        description: str | None = None,
        mode: ToolExecutionMode | None = None,
        timeout_s: float | None = None,
        hints: Hints = NO_HINTS,
        title: str | None = None,
        output_schema: Mapping[str, Any] | type[BaseModel] | None = None,
        max_result_chars: int | None = None,
        available: Callable[[], bool | str] | None = None,
        around: Sequence[Interceptor] = (),
    ) -> None:
        """Take the options that `tool` describes. Raises TypeError as `tool`."""
        name = name or str(getattr(function, "__name__", ""))
        if not _NAME.fullmatch(name):
            raise TypeError(f"A tool cannot be named {name!r}: letters, digits, `_` and `-` only.")
        try:
            annotations = inspect.get_annotations(function, eval_str=True)
        except Exception as error:
            raise TypeError(f"The annotations of `{name}` cannot be read: {error}.") from error
        names = inspect.signature(function).parameters
        self._function, self._op, self._resource = function, op, resource
        self._description, self._available = description, available
        contexts = (e for e in names if e in ("ctx", "_ctx") or annotations.get(e) is ToolContext)
        self._context_name = next(contexts, None)
        args = _arguments(function, name, annotations, self._context_name)
        if resource is not None and resource not in args.model_fields:
            raise TypeError(f"`{name}` has no parameter {resource!r} that could be its resource.")
        if max_result_chars is not None and max_result_chars < 1:
            raise TypeError(f"`max_result_chars` of `{name}` must be at least 1.")
        # Built-in tools set this on their class; function tools share one class.
        vars(self).update(
            name=name,
            label=title or name.replace("_", " ").capitalize(),
            args=args,
            mode=mode,
            timeout_s=timeout_s,
            hints=hints,
            output_schema=_output_schema(output_schema, name),
            max_result_chars=max_result_chars,
            around=tuple(around),
        )

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._function(*args, **kwargs)

    @property
    def description(self) -> str:
        docstring = inspect.cleandoc(self._function.__doc__ or "")
        return self._description or docstring or self.label

    async def run(self, args: BaseModel, ctx: ToolContext) -> LoopToolResult | str:
        # Copies: the function may change what it gets, but `args` serves equal calls as well.
        values = {name: getattr(args, name) for name in type(args).model_fields}
        arguments = {name: _own_copy(value) for name, value in values.items()}
        if self._context_name is not None:
            arguments[self._context_name] = ctx
        function: Callable[..., Any] = self._function
        if inspect.iscoroutinefunction(function):
            return _as_result(await function(**arguments))
        # In a thread, because it may take long.
        value = await in_thread(ctx.signal, function, **arguments)
        return _as_result(await value if inspect.isawaitable(value) else value)

    def unavailable(self, services: ToolServices) -> str:
        answer = self._available() if self._available is not None else True
        if isinstance(answer, str):
            return answer
        return "" if answer else "it gives no reason"

    def claims(self, args: BaseModel, ctx: ToolContext) -> Sequence[Claim]:
        op, parameter = self._op, self._resource
        named = getattr(args, parameter, None) if parameter else None
        resource = self.name if named is None else str(named)
        match op:
            case "read" | "edit":
                return [Claim(op, ctx.absolute(resource))]
            case "execute":
                return [Claim("execute", ShellCommand(resource, ctx.cwd))]
            case "network":
                return [Claim("network", _host(resource))]
            case _:
                return [Claim(op, resource)]


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def tool(
    *,
    op: Operation = "other",
    resource: str | None = None,
    name: str | None = None,
    description: str | None = None,
    mode: ToolExecutionMode | None = None,
    timeout_s: float | None = None,
    hints: Hints = NO_HINTS,
    title: str | None = None,
    output_schema: Mapping[str, Any] | type[BaseModel] | None = None,
    max_result_chars: int | None = None,
    available: Callable[[], bool | str] | None = None,
    around: Sequence[Interceptor] = (),
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a tool of a typed function, async or not.

    A call claims `op` on the tool's name, so that the rule `op:name` matches it; with `resource`,
    on the value of that parameter: a path (read, edit), a command (execute), a URL or host
    (network), else a name. The default `other` asks wherever reading does not.

    Parameters: `Annotated[str, "text"]` describes one, a default makes it optional, `ctx` gets the
    `ToolContext` and is hidden from the model. A returned string or `LoopToolResult` is the result
    itself; anything else becomes JSON, and as `details["structured"]` is there for programs. With
    an `output_schema` every result must have such a value, and one that doesn't fit is an error.
    `ModelRetry` asks the model to call again with better
    arguments; `ToolFailed` says what to do instead; any other error is passed on as it is.

    Calls of one answer run at the same time if all of them only look. By `op`, only `read` and
    `meta` do, and `execute` of a read-only command; `mode="parallel"` lets this tool's calls run
    together with any others, `mode="sequential"` never.

    `timeout_s` is the tool's own time limit (settings win; 0 is none). Of a result longer than
    `max_result_chars`, about that much is sent to the model; all of it is stored in a file. `hints`
    describe it and grant nothing. `available()` is called before every model call: the tool is
    hidden while it returns False, or a text with the reason. `around` are interceptors of this tool
    alone, the first one outermost, inside those of all tools.

    Raises TypeError if the function cannot be a tool; the message says why.
    """
    if function is None:
        return lambda decorated: FunctionTool(decorated, **options)
    return FunctionTool(function, **options)


def _host(resource: str) -> str:
    """Return the host of a URL; the whole text if URL parsers could disagree about it."""
    if re.search(r"[\\@\s]", resource) or not resource.isprintable():
        return resource
    try:
        return urlsplit(resource).hostname or resource
    except ValueError:
        return resource


def _arguments(
    function: Callable[..., Any],
    name: str,
    annotations: Mapping[str, Any],
    context_name: str | None,
) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == context_name:
            continue
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"`{name}` cannot be a tool: give every parameter a name of its own.")
        if parameter.name not in annotations:
            raise TypeError(f"`{name}` cannot be a tool: `{parameter.name}` has no annotation.")
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (_with_description(annotations[parameter.name]), default)
    try:
        args: type[BaseModel] = create_model(f"{name}_arguments", __base__=ToolArgs, **fields)
        parameters_of(args)
    except (PydanticSchemaGenerationError, NameError, ValueError) as error:
        raise TypeError(f"`{name}` cannot be a tool: {error}") from error
    return args


def _output_schema(
    wanted: Mapping[str, Any] | type[BaseModel] | None, name: str
) -> Mapping[str, Any] | None:
    if isinstance(wanted, type):
        return wanted.model_json_schema(mode="serialization")
    if wanted is not None and (fault := schema_fault(wanted)):
        raise TypeError(f"The output schema of `{name}` cannot be used: {fault}.")
    return wanted


def _with_description(hint: Any) -> Any:
    """Return the annotation with a plain string in it as the field's description."""
    if get_origin(hint) is not Annotated:
        return hint
    kind, *notes = get_args(hint)
    fields = [Field(description=note) if isinstance(note, str) else note for note in notes]
    return Annotated[(kind, *fields)]


def _as_result(value: Any) -> LoopToolResult | str:
    if isinstance(value, LoopToolResult | str):
        return value
    return structured_result(to_jsonable_python(value))
