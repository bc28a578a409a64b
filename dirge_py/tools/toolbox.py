"""Prepares tools for the loop: schemas, validation, and one call run with its services.

It finds the built-in tools: every `<name>.py` in this folder with a `<name>.md` beside it.
"""

import importlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from dirge_py.lib.nearest import nearest
from dirge_py.tools.base import Tool, ToolContext, ToolServices
from dirge_py.tools.schema import (
    booleans_for_numbers,
    describe_mistakes,
    invalid_arguments,
    parameters_of,
    undeclared_properties,
    validate_schema,
)
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
    text_result,
)


class BoundTool:
    """A tool with its services: implements `LoopTool` and `Previews` of `types.tools`."""

    def __init__(self, tool: Tool[Any], services: ToolServices, cwd: str) -> None:
        self.tool = tool
        self.name = tool.name
        self.label = tool.label
        self.execution_mode: ToolExecutionMode | None = tool.mode
        self.timeout_s = tool.timeout_s
        self.polls = tool.polls
        self.hints = tool.hints
        self._services = services
        self._cwd = cwd

    @cached_property
    def description(self) -> str:
        return self.tool.description

    @cached_property
    def parameters(self) -> Mapping[str, Any]:
        return parameters_of(self.tool.args)

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
        return self.tool.claims(self._parse(arguments), self._context())

    def claims_of_part(self, arguments: Mapping[str, Any]) -> Sequence[Claim]:
        """Return the claims of incomplete arguments. Raises ValueError if one of them is wrong."""
        try:
            model = self._parse(arguments)
        except ValidationError as error:
            # An error about the whole may be due to the missing part.
            is_wrong = any(each["type"] != "missing" and each["loc"] for each in error.errors())
            if is_wrong or _first_required(self) not in arguments:
                raise ValueError(describe_mistakes(error, self.name, self.parameters)) from None
            model = self.tool.args.model_construct(None, **arguments)
        return self.tool.claims(model, self._context())

    def preview(self, arguments: Mapping[str, Any]) -> Preview | None:
        """Return what a call would change. Reads files. Raises DirgeError like the call itself."""
        return self.tool.preview(self._parse(arguments), self._context())

    async def execute(
        self, call_id: str, arguments: Mapping[str, Any], signal: AbortSignal, on_update: OnUpdate
    ) -> LoopToolResult:
        ctx = self._context(call_id, signal, on_update)
        call = ToolCall(id=call_id, name=self.name, arguments=arguments, tool=self)
        proceed: Proceed = partial(self._run, arguments, ctx)
        for around in reversed(self.tool.around):
            proceed = partial(around, call, proceed)
        try:
            return await proceed()
        finally:
            self._services.files.release(call_id)

    async def _run(self, arguments: Mapping[str, Any], ctx: ToolContext) -> LoopToolResult:
        try:
            if reason := self.unavailable:
                raise ToolFailed(f"`{self.name}` is not available now: {reason}.")
            result = await self.tool.run(self._parse(arguments), ctx)
        except ModelRetry:
            raise
        except DirgeError as error:
            return _as_result(error)
        return text_result(result) if isinstance(result, str) else result

    def validate(self, arguments: Any) -> Mapping[str, Any]:
        """Return the arguments as they will be used; InvalidArguments has a text for the model."""
        try:
            model = self._parse(arguments)
        except ValidationError as error:
            raise invalid_arguments(error, self.name, self.parameters, arguments) from None
        schema = self.parameters
        if booleans := list(booleans_for_numbers(arguments, schema, schema)):
            problem = f"do not fit: {_places(booleans)} must be a number."
            raise InvalidArguments(f"The arguments of `{self.name}` {problem}", booleans)
        if unknown := list(undeclared_properties(arguments, schema, schema)):
            raise InvalidArguments(f"`{self.name}` has no property {_places(unknown)}.", unknown)
        return model.model_dump(exclude_unset=True)

    def _parse(self, arguments: Any) -> BaseModel:
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
        if isinstance(arguments, str):
            arguments = {_first_required(tool): arguments}
        try:
            return tool.claims_of_part(tool.prepare_arguments(dict(arguments)))
        except ValueError as error:
            raise UsageError(str(error)) from None


def _places(problems: Sequence[ArgumentProblem]) -> str:
    return ", ".join(f"`{'.'.join(map(str, each.path))}`" for each in problems)


def _as_result(error: DirgeError) -> LoopToolResult:
    if isinstance(error, ToolFailed):
        details = {"outcome": error.outcome, **error.details}
        return LoopToolResult(content=(TextBlock(str(error)),), details=details, is_error=True)
    return text_result(error.in_one_line(), outcome="error", is_error=True)


def _first_required(tool: BoundTool) -> str:
    fields = tool.tool.args.model_fields
    required = (name for name, field in fields.items() if field.is_required())
    return next(required, next(iter(fields), ""))


_FOLDER = Path(__file__).parent


def tool_names() -> list[str]:
    """Return the names of the built-in tools, sorted; imports none of them."""
    return sorted(text.stem for text in _FOLDER.glob("*.md"))


def discover_tools() -> list[Tool[Any]]:
    """Return the built-in tools, sorted by name."""
    return [importlib.import_module(f"dirge_py.tools.{name}").TOOL for name in tool_names()]
