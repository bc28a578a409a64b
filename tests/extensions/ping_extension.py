"""An extension for tests that uses every part of the contract."""

from collections.abc import Sequence
from typing import Any

from dirge_py.tools.function_tool import tool
from dirge_py.types.abort import AbortSignal
from dirge_py.types.events import LoopEvent
from dirge_py.types.extensions import (
    Command,
    Extension,
    ExtensionHost,
    ExtensionStatus,
    KeyBinding,
    PromptCheck,
    RunContext,
    Section,
    Summarize,
    Theme,
)
from dirge_py.types.hooks import AfterToolCallResult, Hooks, TurnInfo
from dirge_py.types.llm import StreamFn
from dirge_py.types.messages import Message, TextBlock, UserMessage
from dirge_py.types.tools import Interceptor, LoopToolResult, Proceed, ToolCall


@tool
async def ping() -> str:
    """Answer `pong`."""
    return "pong"


async def _ping(args: str, conversation: Any, front: Any) -> None:
    front.show(f"PONG {args}".strip())


class Ping(Extension):
    """Answers pings, and records its input."""

    name = "ping"
    summary = "answers pings"

    def __init__(self) -> None:
        self.log: list[str] = []

    def tools(self) -> list[Any]:
        return [ping]

    def commands(self) -> list[Command]:
        return [Command(name="ping", summary="answers", run=_ping, headless=True)]

    def key_bindings(self) -> list[KeyBinding]:
        return [KeyBinding(id="ping", keys=("f9",), command="ping key", summary="answers")]

    def themes(self) -> list[Theme]:
        return [Theme(name="ping", colors={"accent": "#00ffaa"})]

    def hooks(self, run: RunContext) -> list[Hooks]:
        self.log.append(f"hooks for {run.model}")

        async def after(
            _info: TurnInfo, call: ToolCall, result: LoopToolResult
        ) -> AfterToolCallResult | None:
            if call.name != "ping":
                return None
            return AfterToolCallResult(content=(*result.content, TextBlock("hooked")))

        return [Hooks(name="ping", after_tool_call=after)]

    def on_event(self, event: LoopEvent) -> None:
        self.log.append(event.type)

    def around_tool(self, run: RunContext) -> list[Interceptor]:
        async def around(call: ToolCall, proceed: Proceed) -> LoopToolResult:
            self.log.append(f"around {call.name}")
            return await proceed()

        return [around]

    def around_model(self, stream_fn: StreamFn) -> StreamFn:
        self.log.append("around model")
        return stream_fn

    def around_summary(self, summarize: Summarize) -> Summarize:
        self.log.append("around summary")
        return summarize

    def prompt_checks(self) -> list[PromptCheck]:
        async def check(message: UserMessage) -> str | None:
            return "no pong, please" if message.text == "pong" else None

        return [check]

    def prompt_sections(self) -> list[Section]:
        return [Section(name="ping", priority=49, text="Answer every ping.")]

    def edit_prompt(self, sections: Sequence[Section]) -> list[Section]:
        return [*sections, Section(name="edited", priority=99, text="Ping was here.")]

    def notices(self) -> list[str]:
        return ["ping is on"]

    async def start(self, host: ExtensionHost) -> None:
        assert host.conversation is not None
        folder = host.store("ping")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "started").write_text(str(host.cwd), encoding="utf-8")
        self.log.append("started")

    async def on_run_end(self, messages: Sequence[Message], signal: AbortSignal) -> None:
        self.log.append(f"run added {len(messages)}")

    async def before_close(self) -> None:
        self.log.append("closing")

    async def close(self) -> None:
        self.log.append("closed")

    def for_fork(self, options: Any) -> "Ping | None":
        return self if options.workspace == "shared" else None

    def status(self) -> ExtensionStatus:
        return ExtensionStatus(text="listening")


MADE: list[Ping] = []
"""All instances, the newest last."""


def make(host: ExtensionHost) -> Ping:
    MADE.append(Ping())
    return MADE[-1]
