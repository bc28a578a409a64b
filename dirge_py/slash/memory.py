"""`/memory` and `/remember`: what is kept from one session to the next."""

from typing import TYPE_CHECKING, get_args

from dirge_py.extensions.memory.extension import Memory
from dirge_py.slash.base import FrontEnd
from dirge_py.types.errors import UsageError
from dirge_py.types.extensions import Command
from dirge_py.types.memory import MemoryConflict, MemoryProvider, MemoryUpdate, StoreName

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation

_TITLES: dict[StoreName, str] = {"memory": "This project", "user": "You, in every project"}
_USER_FLAG = "--user"
_LATER = "The model is told from the next run on."


async def memory(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    provider = _provider(conversation)
    match args.split():
        case []:
            front.show(
                "\n\n".join([await _shown(provider, store) for store in get_args(StoreName)])
            )
        case ["edit"]:
            await _edit(provider, "memory", front)
        case ["edit", "memory" | "user" as store]:
            await _edit(provider, store, front)
        case _:
            raise UsageError(
                f"/memory does not know {args!r}.",
                hint="/memory shows what is kept, /memory edit [user] opens it in your editor.",
            )


async def remember(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    first, _, rest = args.partition(" ")
    is_user = first == _USER_FLAG
    text = rest if is_user else args
    if not text.strip():
        raise UsageError(
            "/remember needs words to keep.",
            hint="/remember TEXT keeps them for this project, /remember --user TEXT for all.",
        )
    store: StoreName = "user" if is_user else "memory"
    change = MemoryUpdate(store=store, action="add", content=text)
    done = await _provider(conversation).update(change)
    front.show(f"{done} {_LATER}", tone="good")


async def _shown(provider: MemoryProvider, store: StoreName) -> str:
    text = (await provider.read(store)).strip()
    return f"{_TITLES[store]}: {provider.where(store)}\n{text or '(nothing yet)'}"


async def _edit(provider: MemoryProvider, store: StoreName, front: FrontEnd) -> None:
    before = await provider.read(store)
    after = await front.edit_text(before)
    # Whether the last line is ended is the editor's business.
    if after is None or after.rstrip("\n") == before.rstrip("\n"):
        front.show("Nothing was changed.")
        return
    change = MemoryUpdate(store=store, action="replace", content=after, expected=before)
    try:
        done = await provider.update(change)
    except MemoryConflict:
        front.set_input(after)
        raise
    front.show(f"{done} {_LATER}", tone="good")


def _provider(conversation: "Conversation") -> MemoryProvider:
    memory = conversation.extension(Memory)
    if memory is None:
        raise UsageError("Nothing is remembered here.", hint="Set `enabled = true` under [memory].")
    return memory.provider


def _words(conversation: "Conversation") -> list[str]:
    # One that goes on behind another would be taken in its place.
    return ["edit"]


COMMANDS = (
    Command(
        name="memory",
        summary="what is remembered from session to session, and where; edit it",
        usage="[edit [user]]",
        run=memory,
        headless=True,
        complete=_words,
    ),
    Command(
        name="remember",
        summary="keep a note for later sessions in this project, or in all",
        usage="[--user] TEXT",
        run=remember,
        headless=True,
    ),
)
