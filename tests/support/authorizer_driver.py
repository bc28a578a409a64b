"""Drives the permission hook: real rules, tools and files; a scripted user."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dirge_py.permission.authorizer import Authorizer
from dirge_py.permission.engine import PermissionEngine
from dirge_py.permission.rules import Mode, Rule
from dirge_py.processes.environment import EnvironmentPolicy
from dirge_py.processes.runner import Runner
from dirge_py.tools.base import ToolServices
from dirge_py.tools.toolbox import Toolbox, discover_tools
from dirge_py.types.abort import AbortSignal
from dirge_py.types.events import LoopEvent
from dirge_py.types.hooks import BeforeToolCallResult, CallDecision, Context, TurnInfo
from dirge_py.types.questions import PermissionAnswer, PermissionRequest
from dirge_py.types.tools import LoopTool, ToolCall
from tests.permission.conftest import Project

Answers = Callable[[PermissionRequest], PermissionAnswer]
YES = PermissionAnswer(effect="allow")
NO = PermissionAnswer(effect="deny")


@dataclass
class ScriptedAsker:
    """Answers by the function `answer`; `asked` holds the requests of every question."""

    answer: Answers
    asked: list[list[PermissionRequest]] = field(default_factory=list)

    async def permission(self, requests: Sequence[PermissionRequest]) -> Sequence[PermissionAnswer]:
        self.asked.append(list(requests))
        return [self.answer(request) for request in requests]

    @property
    def questions(self) -> list[PermissionRequest]:
        return [request for batch in self.asked for request in batch]


class AuthorizerDriver:
    """One conversation's permission hook, called as the loop calls it."""

    def __init__(
        self,
        project: Project,
        *rules: Rule,
        mode: Mode = "standard",
        answer: PermissionAnswer = NO,
        **more: Any,
    ) -> None:
        self.project = project
        self.gate: PermissionEngine = project.gate(*rules, mode=mode)
        self.user = ScriptedAsker(lambda request: answer)
        self.runner = Runner(EnvironmentPolicy(), launcher=more.pop("launcher", None))
        self.services = ToolServices(files=project.workspace, processes=self.runner)
        self.toolbox = Toolbox(discover_tools(), self.services, str(project.root))
        self.granted: list[str] = []
        self.events: list[LoopEvent] = []
        self._count = 0
        self.authorizer = Authorizer(
            engine=self.gate,
            asker=self.user,
            workspace=project.workspace,
            runner=self.runner,
            cwd=str(project.root),
            on_grant=self.granted.append,
            **more,
        )

    def tool(self, name: str) -> LoopTool:
        return next(tool for tool in self.toolbox.loop_tools if tool.name == name)

    def call(self, name: str, **arguments: Any) -> ToolCall:
        self._count += 1
        return ToolCall(
            id=f"call{self._count}", name=name, arguments=arguments, tool=self.tool(name)
        )

    def bash(self, command: str) -> ToolCall:
        return self.call("bash", command=command)

    def info(
        self,
        calls: Sequence[ToolCall],
        *,
        run_id: str = "run",
        turn: int = 1,
        decisions: Mapping[str, CallDecision] | None = None,
    ) -> TurnInfo:
        return TurnInfo(
            run_id=run_id,
            outer_turn=1,
            turn=turn,
            context=Context(system_prompt="", messages=(), tools=()),
            new_messages=(),
            signal=AbortSignal(),
            emit=self.events.append,
            calls=tuple(calls),
            decisions=decisions or {},
        )

    async def decide(
        self, call: ToolCall, info: TurnInfo | None = None
    ) -> BeforeToolCallResult | None:
        hook: Any = self.authorizer.bundle().before_tool_call
        given = hook(info or self.info([call]), call)
        answer: BeforeToolCallResult | None = await given if inspect.isawaitable(given) else given
        return answer

    async def allows(self, call: ToolCall, info: TurnInfo | None = None) -> bool:
        return await self.decide(call, info) is None

    async def run(self, call: ToolCall, info: TurnInfo | None = None) -> str:
        """The text the model gets: the refusal, or the result of the call."""
        answer: Any = await self.decide(call, info)
        if answer is not None:
            return str(answer.content)
        assert call.tool is not None
        done = await call.tool.execute(call.id, call.arguments, AbortSignal(), lambda update: None)
        return done.text
