"""A plugin's function as a tool."""

import functools
from collections.abc import Callable
from typing import Any

from dirge_py.extensions.plugins.calling import as_exception, is_async
from dirge_py.extensions.plugins.output import as_plugin
from dirge_py.extensions.plugins.points import Registration
from dirge_py.tools.base import Tool
from dirge_py.tools.function_tool import FunctionTool, ToolOptions
from dirge_py.types.errors import ToolFailed


def as_tool(handle: Registration, manner: ToolOptions) -> Tool[Any]:
    """The function as `tools.function_tool.tool` would make one, with the manners of a plugin.

    Raises:
        TypeError: the function cannot be a tool.
    """
    return FunctionTool(_mannered(handle), manner)


def _mannered(handle: Registration) -> Callable[..., Any]:
    """The function, heard on stderr, unable to end the program, and refused once it was closed."""
    fn = handle.fn

    async def as_coroutine(*args: Any, **kwargs: Any) -> Any:
        _check(handle)
        with as_plugin():
            try:
                return await fn(*args, **kwargs)
            except (SystemExit, KeyboardInterrupt) as error:
                raise as_exception(error) from None

    def as_function(*args: Any, **kwargs: Any) -> Any:
        _check(handle)
        with as_plugin():
            try:
                return fn(*args, **kwargs)
            except (SystemExit, KeyboardInterrupt) as error:
                raise as_exception(error) from None

    return functools.wraps(fn)(as_coroutine if is_async(fn) else as_function)


def _check(handle: Registration) -> None:
    if not handle.is_on:
        raise ToolFailed(f"The plugin `{handle.plugin}` was turned off. Go on without this tool.")
