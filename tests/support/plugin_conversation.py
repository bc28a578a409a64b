"""A conversation with plugins: real tools and rules, a scripted model and user."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dirge_py import slash
from dirge_py.agent_loop import LoopConfig, compose
from dirge_py.conversation.conversation import Conversation
from dirge_py.conversation.deps import ConversationDeps, RunSettings
from dirge_py.conversation.extensions import ExtensionSet
from dirge_py.extensions.plugins.discovery import find_files
from dirge_py.extensions.plugins.host import PluginHost
from dirge_py.extensions.plugins.registration import Plugins
from dirge_py.files.workspace import Workspace
from dirge_py.frontend.print.print_mode import PrintFront
from dirge_py.slash.registry import Registry, discover
from dirge_py.testing import EventRecorder, ScriptedModel
from dirge_py.tools.base import ToolServices
from dirge_py.tools.toolbox import Toolbox, tool_names
from dirge_py.types.events import SystemNotice
from dirge_py.types.messages import ToolResultMessage
from dirge_py.types.questions import PermissionAnswer
from tests.support.project import ScriptedProject


@dataclass
class PluginConversation:
    """An open conversation, what happened in it, and a front end for its commands."""

    conversation: Conversation
    host: PluginHost
    recorder: EventRecorder
    front: PrintFront
    project: ScriptedProject

    @property
    def model(self) -> ScriptedModel:
        return self.project.model

    @property
    def notices(self) -> list[str]:
        return [notice.content for notice in self.recorder.of(SystemNotice)]

    @property
    def results(self) -> list[ToolResultMessage]:
        return [m for m in self.conversation.messages if isinstance(m, ToolResultMessage)]

    async def type(self, line: str) -> str:
        """Run a slash command; returns what it shows."""
        self.front.shown.clear()
        typed = self.front.commands.read(line)
        assert typed is not None
        await self.front.commands.run(typed, self.conversation, self.front)
        return "\n".join(self.front.shown)


@asynccontextmanager
async def open_with_plugins(
    project: ScriptedProject, folder: Path, *, allow: Sequence[str] = (), **settings: Any
) -> AsyncIterator[PluginConversation]:
    """A conversation with the plugins of `folder`; the user allows every request."""
    project.user.answer = PermissionAnswer(effect="allow")
    async with project.open(allow=tuple(allow)) as bare:
        notices = bare._deps.late_notices
        host = PluginHost(
            find_files(folder), settings=settings, built_in=tool_names(), notify=notices.append
        )
        assert host.notices() == ()
        conversation = Conversation(with_plugins(bare._deps, host))
        recorder = EventRecorder()
        conversation.subscribe(recorder)
        commands = Registry(discover(slash))
        commands.use_extensions(conversation.extensions.commands())
        try:
            yield PluginConversation(conversation, host, recorder, PrintFront(commands), project)
        finally:
            await host.close()


def with_plugins(deps: ConversationDeps, host: PluginHost) -> ConversationDeps:
    """The dependencies of a conversation with these plugins added."""

    def configure(run: RunSettings) -> LoopConfig:
        hooks = compose(run.bundle, *host.hooks())
        config = deps.run.configure(replace(run, bundle=hooks))
        return replace(config, interceptors=[*config.interceptors, *host.around_tool()])

    cwd = deps.environment.cwd
    tools = Toolbox(host.tools(), ToolServices(files=Workspace([cwd], cwd)), str(cwd)).loop_tools
    run = replace(
        deps.run,
        configure=configure,
        tools=(*deps.run.tools, *tools),
        prompt_checks=host.prompt_checks(),
    )
    others = [each for each in deps.extensions.all if not isinstance(each, Plugins)]
    extensions = ExtensionSet([*others, host])
    return replace(deps, run=run, sinks=(*deps.sinks, host.on_event), extensions=extensions)
