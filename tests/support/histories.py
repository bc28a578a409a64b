"""Message histories, a scripted summarizer, and a context view with small limits."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dirge_py.config.schema import ContextTable
from dirge_py.context.compaction import CompactionJob, CompactionLevel
from dirge_py.context.shape import ViewShape
from dirge_py.context.system_prompt import PromptEdit, edit_sections, join_sections
from dirge_py.context.tokens import TokenCounter
from dirge_py.context.view import ContextParts, ContextRequest, ContextView
from dirge_py.types.extensions import Section
from dirge_py.types.llm import SystemText
from dirge_py.types.messages import (
    AssistantMessage,
    Message,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    user_text,
)


def build_prompt(sections: Sequence[Section], edits: Sequence[PromptEdit] = ()) -> SystemText:
    """The prompt in the form in which it is sent."""
    return join_sections(edit_sections(sections, edits))


GOOD = "## Active task\nGo on with {n}.\n## Goal\nShip it.\n## Completed actions\n1. Read a file."


def assistant_text(text: str) -> AssistantMessage:
    return AssistantMessage(content=(TextBlock(text),))


def step(number: int, text: str = "ok", *, name: str = "read", **more: Any) -> list[Message]:
    """A tool call and its result."""
    call = ToolCallBlock(id=f"c{number}", name=name, arguments={"path": f"src/file_{number}.py"})
    return [
        AssistantMessage(content=(TextBlock(f"step {number}"), call)),
        ToolResultMessage(tool_call_id=call.id, tool_name=name, content=(TextBlock(text),), **more),
    ]


def single_prompt_run(steps: int, chars: int = 200) -> tuple[Message, ...]:
    """One prompt and many tool calls with short results, as in an autonomous run."""
    messages: list[Message] = [user_text("Make the tests pass, please.")]
    for number in range(steps):
        messages += step(number, f"{number} ".ljust(chars, "x"))
    return tuple(messages)


def chat(exchanges: int, chars: int = 400) -> tuple[Message, ...]:
    messages: list[Message] = []
    for number in range(exchanges):
        messages += [
            user_text(f"question {number} ".ljust(chars, "q")),
            assistant_text(f"answer {number} ".ljust(chars, "a")),
        ]
    return (*messages, user_text("the newest question"))


@dataclass
class Summaries:
    """A summarizer with the given answers, then good summaries."""

    answers: list[str | Exception] = field(default_factory=list)
    prompts: list[str] = field(default_factory=list)
    budgets: list[int] = field(default_factory=list)

    async def __call__(self, prompt: str, budget_tokens: int) -> str:
        self.prompts.append(prompt)
        self.budgets.append(budget_tokens)
        if len(self.prompts) > len(self.answers):
            return GOOD.format(n=len(self.prompts))
        answer = self.answers[len(self.prompts) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer


def job(
    messages: Sequence[Message],
    *,
    window: int = 10_000,
    level: CompactionLevel = "fold",
    shape: ViewShape | None = None,
    counter: TokenCounter | None = None,
) -> CompactionJob:
    counter = counter or TokenCounter(4.0)
    shape = shape or ViewShape()
    return CompactionJob(
        messages=messages,
        shape=shape,
        counter=counter,
        fixed=0,
        window=window,
        size=counter.count(messages),
        scale=1.0,
        level=level,
        fold_at=0.75,
    )


def view(summaries: Summaries | None = None, **more: Any) -> ContextView:
    settings = more.pop("settings", None) or ContextTable(**more.pop("set", {}))
    counter = more.pop("counter", None)
    made = ContextView(ContextParts(settings=settings, summarise=summaries, **more))
    made.counter = counter or made.counter
    return made


async def at(view: ContextView, messages: Sequence[Message], share: float, **more: Any) -> Any:
    """Prepare `messages` after the service reported this share of the window."""
    window = more.pop("window_tokens", 10_000)
    signal = more.pop("signal", None)
    request = ContextRequest(messages=messages, window_tokens=window, **more)
    view.measured(request)
    view.note_usage(int(window * share))
    return await view.prepare(request, signal)
