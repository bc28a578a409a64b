"""Functions whose module is loaded on their first call, for features that most starts do not use.

if TYPE_CHECKING:
    from dirge_py.agent_loop.argument_repair import repair
else:
    repair = late("dirge_py.agent_loop.argument_repair", "repair")
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any


def late(module: str, name: str) -> Callable[..., Any]:
    """Return a function that stands for `name` of `module`; classes work as well."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(import_module(module), name)(*args, **kwargs)

    call.__name__ = name
    return call
