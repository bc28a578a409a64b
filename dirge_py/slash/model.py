"""`/model`: which model answers, and switching it."""

import asyncio
from typing import TYPE_CHECKING

from dirge_py.lib.text import format_count
from dirge_py.slash.base import Choice, FrontEnd
from dirge_py.types.errors import UsageError
from dirge_py.types.extensions import Command

if TYPE_CHECKING:
    from collections.abc import Sequence

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


async def model(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    """A name that ends in `/` is that of a service: all its models are asked for, and shown."""
    spec: str | None = (args.strip("/") and args) or await _of_the_usual(conversation, front)
    if spec is not None and spec.endswith("/"):
        spec = await _of_all(spec.rstrip("/"), conversation, front)
    if spec is not None:
        before, now = conversation.settings.thinking, conversation.settings.set_model(spec)
        level = conversation.settings.thinking
        thinking = f", thinking {level}," if level != before else ""
        front.show(f"The model is {now}{thinking} from the next turn on.", tone="good")


async def _of_the_usual(conversation: "Conversation", front: FrontEnd) -> str | None:
    choices = [_choice(each) for each in _by_provider(conversation.settings.models())]
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


async def _of_all(alias: str, conversation: "Conversation", front: FrontEnd) -> str | None:
    asked = asyncio.ensure_future(conversation.settings.models_of(alias))
    try:
        if not (await asyncio.wait({asked}, timeout=_AT_ONCE_S))[0]:
            front.show(f"Asking {alias} for its models.")
        choices = [_choice(each) for each in await asked]
    finally:
        asked.cancel()
    if not choices:
        raise UsageError(f"{alias} lists no models.", hint=f"Name one: /model {alias}/ID")
    return await front.pick(f"Models of {alias}", choices, current=conversation.settings.model)


def _choice(choice: "ModelOption") -> Choice:
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


def known(conversation: "Conversation") -> list[str]:
    return [choice.spec for choice in conversation.settings.models()]


def levels(conversation: "Conversation") -> list[str]:
    return list(_LEVELS)


COMMANDS = (
    Command(
        name="model",
        summary="show or switch the model",
        usage="[alias/]id[:level] | alias/",
        run=model,
        headless=True,
        complete=known,
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
)
