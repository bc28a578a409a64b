"""Which of the built-in tools a conversation offers."""

from collections.abc import Collection
from difflib import get_close_matches
from typing import Any

from dirge_py.config.schema import Config
from dirge_py.tools.base import Tool
from dirge_py.tools.registry import discover, names
from dirge_py.types.errors import ConfigError


def chosen_tools(config: Config, others: Collection[str] = ()) -> list[Tool[Any]]:
    """The built-in tools that `[tools]` and the flags leave; `others` may be named there, too.

    Raises:
        ConfigError: a name is that of no tool.
    """
    known = [*names(), *others]
    for name in (*(config.tools.enabled or ()), *config.tools.disabled):
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"Did you mean `{near[0]}`?" if near else f"There are: {', '.join(known)}."
            raise ConfigError(f"there is no tool `{name}`.", hint=hint)
    if config.tools.enabled == []:
        return []
    return [
        tool
        for tool in discover()
        if (config.tools.enabled is None or tool.name in config.tools.enabled)
        and tool.name not in config.tools.disabled
    ]
