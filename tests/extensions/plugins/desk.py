"""Plugins written on the spot, and runs of the real loop that they take part in."""

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
from tests.agent_loop.kit import Ran, Tool, ran

SHORT_S = 0.05
"""The time limit where a test wants something to take longer."""

PATIENT_S = 20.0


@dataclass
class Desk:
    """Plugins by name: `register` functions, or files of a folder. `told` is what was notified."""

    folder: Path
    told: list[str] = field(default_factory=list)
    found: list[PluginSource] = field(default_factory=list)

    def add(self, name: str, register: Callable[[Any], None]) -> "Desk":
        self.found.append(PluginSource(name=name, where=f"test {name}", load=lambda: register))
        return self

    def write(self, name: str, source: str) -> Path:
        path = self.folder / f"{name}.py"
        path.write_text(dedent(source))
        return path

    def host(self, *, limit_s: float = PATIENT_S, **options: Any) -> PluginHost:
        return PluginHost(self.found, limit_s=limit_s, notify=self.told.append, **options)


async def run_with(
    host: PluginHost,
    model: ScriptedModel,
    *prompts: str,
    tools: Sequence[Any] = (),
    before: Sequence[Hooks] = (),
    after: Sequence[Hooks] = (),
    config: Mapping[str, Any] | None = None,
) -> Ran:
    """A run with the host's hooks between others', its interceptors, and its sink."""
    base = LoopConfig(interceptors=host.around_tool(), **(config or {}))
    recorder = Watched(host)
    return await ran(
        model,
        *(prompts or ("go",)),
        tools=tools or [Tool()],
        config=compose(*before, *host.hooks(), *after, config=base),
        recorder=recorder,
    )


class Watched(EventRecorder):
    """Records, and tells the host."""

    def __init__(self, host: PluginHost) -> None:
        super().__init__()
        self._host = host

    def __call__(self, event: Any) -> None:
        super().__call__(event)
        self._host.on_event(event)
