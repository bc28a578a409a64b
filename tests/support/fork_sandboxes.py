"""Chooses the sandbox for forks in a test."""

from functools import cache, partial

import pytest

from dirge_py.processes.sandbox import probe
from dirge_py.processes.sandbox.probe import find_sandbox
from dirge_py.processes.sandbox.profile import NoSandbox, SandboxProfile
from tests.support.requirements import lacking

KINDS = ["bubblewrap", "landlock"]

_FINDERS = {"bubblewrap": find_sandbox, "landlock": partial(find_sandbox, programs=())}


def in_sandbox(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Make forks use a sandbox of this kind; "" for none."""
    if not kind:
        none = NoSandbox("none is wanted here", "")
        monkeypatch.setattr(probe, "find_sandbox", lambda project: none)
        return
    if not _works(kind):
        lacking(f"a working sandbox made with {kind}")
    monkeypatch.setattr(probe, "find_sandbox", _FINDERS[kind])


@cache
def _works(kind: str) -> bool:
    found = _FINDERS[kind](SandboxProfile(roots=(), home="/"))
    if isinstance(found, NoSandbox):
        return False
    found.close()
    return found.kind == kind
