"""A plugin's function as the body of a slash command."""

import asyncio
from typing import Any

from dirge_py.extensions.plugins.asking import reason
from dirge_py.extensions.plugins.calling import call
from dirge_py.extensions.plugins.points import PluginError, Registration
from dirge_py.types.errors import DirgeError
from dirge_py.types.extensions import CommandBody


def as_body(handle: Registration, name: str) -> CommandBody:
    """Runs the function without a time limit: a person asked for it and may be asked back."""

    async def run(args: str, conversation: Any, front: Any) -> None:
        if not handle.is_on:
            raise PluginError(f"/{name}: the plugin `{handle.plugin}` is off.")
        try:
            answer = await call(handle.fn, args, conversation, front, limit_s=None)
        except (DirgeError, asyncio.CancelledError):
            raise
        except Exception as error:
            handle.failures += 1
            raise PluginError(
                f"/{name} of the plugin `{handle.plugin}` failed: {reason(error, handle.path)}."
            ) from error
        if isinstance(answer, str):
            front.show(answer)

    return run
