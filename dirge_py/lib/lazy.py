"""What is loaded or made at its first use: functions of other modules, and regular expressions.

`late` is for features that most starts do not use:

if TYPE_CHECKING:
    from dirge_py.agent_loop.argument_repair import repair
else:
    repair = late("dirge_py.agent_loop.argument_repair", "repair")
"""

import re
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any


def late(module: str, name: str) -> Callable[..., Any]:
    """Return a function that stands for `name` of `module`; classes work as well."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(import_module(module), name)(*args, **kwargs)

    call.__name__ = name
    return call


if TYPE_CHECKING:
    late_pattern = re.compile
else:

    class late_pattern:  # noqa: N801 - it stands for the function `re.compile`
        """A regular expression that is compiled when it is first used, with `re.compile`.

        A start imports hundreds of them, a tenth of a millisecond each, and uses a few. Functions
        of `re` do not take it as an argument: call its methods.
        """

        def __init__(self, pattern: str | bytes, flags: int = 0) -> None:
            self._source = (pattern, flags)

        def __getattr__(self, name: str) -> Any:
            # Called for each method once: from then on it is an attribute.
            value = getattr(re.compile(*self._source), name)
            setattr(self, name, value)
            return value
