"""`/model`: which model answers, and switching it."""

from typing import TYPE_CHECKING

from dirge_py.contributions import Command
from dirge_py.slash.base import Choice, FrontEnd

if TYPE_CHECKING:
    from dirge_py.conversation import Conversation


async def model(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    spec: str | None = args
    if not args:
        choices = [
            Choice(
                id=choice.spec,
                label=choice.spec,
                detail=_detail(choice.window_tokens, choice.price),
            )
            for choice in conversation.models()
        ]
        if not choices:
            front.show(f"The model is {conversation.model}; no other is configured.")
            return
        spec = await front.pick("Model", choices, current=conversation.model)
    if spec is not None:
        front.show(
            f"The model is {conversation.set_model(spec)} from the next turn on.", tone="good"
        )


def _detail(window_tokens: int, price: str) -> str:
    window = f"{window_tokens // 1000}k tokens" if window_tokens else ""
    return "  ".join(part for part in (window, price) if part)


def known(conversation: "Conversation") -> list[str]:
    return [choice.spec for choice in conversation.models()]


COMMANDS = (
    Command(
        name="model",
        summary="show or switch the model",
        usage="[alias/]id[:level]",
        run=model,
        headless=True,
        complete=known,
    ),
)
