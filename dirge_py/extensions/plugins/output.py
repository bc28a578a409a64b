"""What plugins print: it goes to stderr, because stdout belongs to whoever reads our results."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import IO, Any

_is_plugin: ContextVar[bool] = ContextVar("is_plugin", default=False)


class _SplitStdout:
    """Stands for `sys.stdout`: the real one, but stderr to code that runs for a plugin."""

    def __init__(self, real: IO[str]) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stderr if _is_plugin.get() else self._real, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._real)


def split_stdout() -> None:
    """From now on what plugins print goes to stderr.

    It stays so: a hook that was abandoned may print at any later time. What a plugin's child
    processes write, or it itself to file descriptor 1, is out of reach.
    """
    if not isinstance(sys.stdout, _SplitStdout):
        sys.stdout = _SplitStdout(sys.stdout)


@contextmanager
def as_plugin() -> Iterator[None]:
    """Code in here, its tasks, and threads that run in a copy of its context speak for a plugin."""
    token = _is_plugin.set(True)
    try:
        yield
    finally:
        _is_plugin.reset(token)
