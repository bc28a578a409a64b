"""Style sheets read once for all apps of a test process: each app has the same ones.

Reading them is a sixth of what an app costs that is started for one test.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

from textual.css.stylesheet import Stylesheet

_READ: dict[Any, Any] = {}


def share() -> None:
    """Have every `Stylesheet` of this process take what another one with its variables has read."""
    read: Callable[..., Any] = Stylesheet._parse_rules

    @wraps(read)
    def parse_rules(self: Stylesheet, *args: Any, **options: Any) -> Any:
        key = (tuple(sorted(self._variables.items())), args, tuple(sorted(options.items())))
        if key not in _READ:
            _READ[key] = read(self, *args, **options)
        return _READ[key]

    Stylesheet._parse_rules = parse_rules  # type: ignore[method-assign]
