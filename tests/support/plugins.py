"""Plugins a test defines, and runs of the real agent loop with them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from typing import Any

from dirge_py.agent_loop import LoopConfig, compose
from dirge_py.extensions.plugins.discovery import PluginSource
from dirge_py.extensions.plugins.host import PluginHost
from dirge_py.testing import EventRecorder, ScriptedModel
from dirge_py.types.hooks import Hooks
from tests.support.loop_runs import LoopRun, Tool, run_loop

SHORT_S = 0.05
"""The time limit in tests of what exceeds it."""

PATIENT_S = 20.0


@dataclass
class PluginFolder:
    """Plugins by name: `register` functions or files. `notices` is what the host notified."""

    folder: Path
    notices: list[str] = field(default_factory=list)
    found: list[PluginSource] = field(default_factory=list)

    def add(self, name: str, register: Callable[[Any], None]) -> "PluginFolder":
        self.found.append(PluginSource(name=name, where=f"test {name}", load=lambda: register))
        return self

    def write(self, name: str, source: str) -> Path:
        path = self.folder / f"{name}.py"
        path.write_text(dedent(source))
        return path

    def host(self, *, limit_s: float = PATIENT_S, **options: Any) -> PluginHost:
        return PluginHost(self.found, limit_s=limit_s, notify=self.notices.append, **options)


async def run_with(
    host: PluginHost,
    model: ScriptedModel,
    *prompts: str,
    tools: Sequence[Any] = (),
    before: Sequence[Hooks] = (),
    after: Sequence[Hooks] = (),
    config: Mapping[str, Any] | None = None,
) -> LoopRun:
    """A run with the host's hooks between others, its interceptors, and its sink."""
    base = LoopConfig(interceptors=host.around_tool(), **(config or {}))
    recorder = HostRecorder(host)
    return await run_loop(
        model,
        *(prompts or ("go",)),
        tools=tools or [Tool()],
        config=compose(*before, *host.hooks(), *after, config=base),
        recorder=recorder,
    )


class HostRecorder(EventRecorder):
    """Records events and passes them to the host."""

    def __init__(self, host: PluginHost) -> None:
        super().__init__()
        self._host = host

    def __call__(self, event: Any) -> None:
        super().__call__(event)
        self._host.on_event(event)
