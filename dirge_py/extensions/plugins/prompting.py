"""The points outside the loop: a prompt about to be sent, the system prompt, a summary."""

from collections.abc import Callable, Sequence

from dirge_py.context.prompt_sections import Section, append, override, prepend
from dirge_py.context.summary import Summarise
from dirge_py.extensions.plugins.answers import PromptChange
from dirge_py.extensions.plugins.asking import HookCaller
from dirge_py.extensions.plugins.calling import Misbehaved
from dirge_py.extensions.plugins.points import Registration
from dirge_py.types.hooks import StopRun, ToolOverride
from dirge_py.types.messages import UserMessage, joined_text
from dirge_py.types.outcomes import HookTerminated


async def refusal_of(
    caller: HookCaller, hooks: Sequence[Registration], message: UserMessage
) -> str | None:
    """The first reason not to send this prompt."""
    for hook in hooks:
        try:
            answer: ToolOverride | None = await caller.ask(hook, message)
        except StopRun as stop:
            return _reason(stop)
        if answer is not None:
            return _text(answer) or f"the plugin `{hook.plugin}` refused it"
    return None


def summarising(
    caller: HookCaller, hooks: Callable[[], Sequence[Registration]], otherwise: Summarise
) -> Summarise:
    """A summariser that asks plugins first, and `otherwise` if none of them has a summary."""

    async def summarise(prompt: str, budget_tokens: int) -> str:
        for hook in hooks():
            summary: str | None = await caller.ask(hook, prompt, budget_tokens)
            if summary and summary.strip():
                return summary
        return await otherwise(prompt, budget_tokens)

    return summarise


def edited(
    caller: HookCaller,
    hooks: Sequence[Registration],
    sections: Sequence[Section],
    *,
    may_override: Callable[[str], bool],
) -> Sequence[Section]:
    """The sections with what plugins put before, behind, or in the place of them.

    Every hook sees the sections without the others' changes; of each kind of change the first wins.
    """
    before, behind, instead = "", "", ""
    names: dict[str, str] = {}
    for hook in hooks:
        change: PromptChange | None = caller.ask_blocking(hook, tuple(sections))
        if change is None:
            continue
        if change.override and not may_override(hook.plugin):
            words = (
                f"to replace the prompt set `allow_override = true` under [plugins.{hook.plugin}]"
            )
            caller.failed(hook, Misbehaved(words))
            continue
        if change.prepend and not before:
            before, names["before"] = change.prepend, hook.plugin
        if change.append and not behind:
            behind, names["behind"] = change.append, hook.plugin
        if change.override and not instead:
            instead, names["instead"] = change.override, hook.plugin
    if instead:
        sections = override(f"plugin {names['instead']}", instead)(sections)
    if before:
        sections = prepend(f"plugin {names['before']}", before)(sections)
    if behind:
        sections = append(f"plugin {names['behind']}", behind)(sections)
    return sections


def _text(answer: ToolOverride) -> str:
    return answer.content if isinstance(answer.content, str) else joined_text(tuple(answer.content))


def _reason(stop: StopRun) -> str:
    outcome = stop.outcome
    return outcome.reason if isinstance(outcome, HookTerminated) else str(outcome)
