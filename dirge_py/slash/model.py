"""`/model`, `/effort` and `/prompt`: which model answers, how long it thinks, with whose prompt."""

import asyncio
from typing import TYPE_CHECKING

from dirge_py.lib.text import format_count
from dirge_py.slash.base import Choice, FrontEnd
from dirge_py.types.errors import UsageError
from dirge_py.types.extensions import Command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dirge_py.context.prompts import PromptBook
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.types.llm import ModelOption, ThinkingLevel


_AT_ONCE_S = 1.0
_LEVELS: "dict[ThinkingLevel, str]" = {
    "off": "answers at once, where the model can",
    "minimal": "hardly any",
    "low": "little, for plain work",
    "medium": "as most services would choose",
    "high": "long, for what is difficult",
    "xhigh": "as long as the model can",
}
_NONE = "none"


async def model(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    """A name that ends in `/` is that of a service: all its models are asked for, and shown."""
    spec: str | None = (args.strip("/") and args) or await _pick_usual(conversation, front)
    if spec is not None and spec.endswith("/"):
        spec = await _pick_any(spec.rstrip("/"), conversation, front)
    if spec is not None:
        before, now = conversation.settings.thinking, conversation.settings.set_model(spec)
        level = conversation.settings.thinking
        thinking = f", thinking {level}," if level != before else ""
        front.show(f"The model is {now}{thinking} from the next turn on.", tone="good")


async def _pick_usual(conversation: "Conversation", front: FrontEnd) -> str | None:
    choices = [_model_choice(each) for each in _by_provider(conversation.settings.models())]
    if choices and conversation.settings.model not in [choice.id for choice in choices]:
        choices.insert(0, Choice(id=conversation.settings.model, label=conversation.settings.model))
    choices += [
        Choice(id=f"{alias}/", label=f"{alias}/…", detail="all that it lists")
        for alias in conversation.settings.services()
    ]
    if not choices:
        front.show(f"The model is {conversation.settings.model}; no other is configured.")
        return None
    return await front.pick("Model", choices, current=conversation.settings.model)


async def _pick_any(alias: str, conversation: "Conversation", front: FrontEnd) -> str | None:
    asked = asyncio.ensure_future(conversation.settings.models_of(alias))
    try:
        if not (await asyncio.wait({asked}, timeout=_AT_ONCE_S))[0]:
            front.show(f"Asking {alias} for its models.")
        choices = [_model_choice(each) for each in await asked]
    finally:
        asked.cancel()
    if not choices:
        raise UsageError(f"{alias} lists no models.", hint=f"Name one: /model {alias}/ID")
    return await front.pick(f"Models of {alias}", choices, current=conversation.settings.model)


def _model_choice(choice: "ModelOption") -> Choice:
    detail = _detail(choice.window_tokens, choice.price)
    return Choice(id=choice.spec, label=choice.spec, detail=detail)


async def effort(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    level: str | None = args
    if not args:
        choices = [Choice(id=name, label=name, detail=words) for name, words in _LEVELS.items()]
        level = await front.pick("Thinking", choices, current=conversation.settings.thinking)
    if level is None:
        return
    found = next((known for known in _LEVELS if known == level), None)
    if found is None:
        raise UsageError(f"There is no level {level!r}.", hint=f"Levels: {', '.join(_LEVELS)}.")
    conversation.settings.set_thinking(found)
    front.show(f"Thinking {found}, from the next turn on: {_LEVELS[found]}.", tone="good")


def _by_provider(choices: "Sequence[ModelOption]") -> "Sequence[ModelOption]":
    """The same, those of one provider together, that of the present model first."""
    aliases = list(dict.fromkeys(_alias(choice) for choice in choices))
    return sorted(choices, key=lambda choice: aliases.index(_alias(choice)))


def _alias(choice: "ModelOption") -> str:
    return choice.spec.partition("/")[0]


def _detail(window_tokens: int, price: str) -> str:
    window = f"{format_count(window_tokens)} tokens" if window_tokens else ""
    return "  ".join(part for part in (window, price) if part)


def model_names(conversation: "Conversation") -> list[str]:
    return [choice.spec for choice in conversation.settings.models()]


def levels(conversation: "Conversation") -> list[str]:
    return list(_LEVELS)


async def prompt(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    book = conversation.settings.prompts
    if book is None or not book.names:
        raise UsageError(
            "There are no prompts.",
            hint="Write one into `prompts/<name>.md` beside your config.toml.",
        )
    name: str | None = args
    if not args:
        name = await front.pick("Prompt", _prompt_choices(book), current=_current_prompt(book))
    if name is None:
        return
    chosen = book.choose(None if name == _NONE else name)
    if chosen is None:
        front.show("No prompt is in use from the next run on.", tone="good")
        return
    denied = f" It denies {', '.join(chosen.deny_tools)}." if chosen.deny_tools else ""
    front.show(f"The prompt {chosen.name} is in use from the next run on.{denied}", tone="good")


def _prompt_choices(book: "PromptBook") -> list[Choice]:
    named = [Choice(id=name, label=name, detail=book.describe(name)) for name in book.names]
    return [*named, Choice(id=_NONE, label=_NONE, detail="use no prompt")]


def _current_prompt(book: "PromptBook") -> str:
    return book.current.name if book.current is not None else _NONE


def prompt_names(conversation: "Conversation") -> list[str]:
    book = conversation.settings.prompts
    return [*book.names, _NONE] if book is not None else []


COMMANDS = (
    Command(
        name="model",
        summary="show or switch the model",
        usage="[alias/]id[:level] | alias/",
        run=model,
        headless=True,
        complete=model_names,
    ),
    Command(
        name="effort",
        summary="show or set how long the model thinks",
        usage="[off|minimal|low|medium|high|xhigh]",
        run=effort,
        aliases=("thinking", "think"),
        complete=levels,
        headless=True,
    ),
    Command(
        name="prompt",
        summary="use a prompt of yours, with the tools it denies",
        usage="[NAME|none]",
        run=prompt,
        while_running="no",
        complete=prompt_names,
    ),
)
