"""`/memory` and `/remember`: the notes that dirge keeps between sessions."""

from typing import get_args

from dirge_py.conversation.conversation import Conversation
from dirge_py.extensions.memory.extension import Memory
from dirge_py.slash.base import FrontEnd, command
from dirge_py.types.errors import UsageError
from dirge_py.types.memory import MemoryConflict, MemoryProvider, MemoryUpdate, StoreName

_TITLES: dict[StoreName, str] = {"memory": "This project", "user": "You, in every project"}
_LATER = "The model sees it from the next run on."


@command(
    "memory",
    "show or edit the notes that are kept between sessions",
    usage="[edit [user]]",
    headless=True,
    # Not `edit user`: a completion that begins with another one would hide it.
    complete=lambda conversation: ["edit"],
)
async def memory(args: str, conversation: Conversation, front: FrontEnd) -> None:
    provider = _provider(conversation)
    match args.split():
        case []:
            parts = []
            for store in get_args(StoreName):
                text = (await provider.read(store)).strip() or "(nothing yet)"
                parts.append(f"{_TITLES[store]}: {provider.where(store)}\n{text}")
            front.show("\n\n".join(parts))
        case ["edit"]:
            await _edit(provider, "memory", front)
        case ["edit", "memory" | "user" as store]:
            await _edit(provider, store, front)
        case _:
            hint = "/memory shows the notes, /memory edit [user] opens them in your editor."
            raise UsageError(f"/memory doesn't take {args!r}.", hint=hint)


@command(
    "remember",
    "keep a note for later sessions of this project, or of all",
    usage="[--user] TEXT",
    headless=True,
)
async def remember(args: str, conversation: Conversation, front: FrontEnd) -> None:
    first, _, rest = args.partition(" ")
    store: StoreName = "user" if first == "--user" else "memory"
    text = rest if store == "user" else args
    if not text.strip():
        hint = "/remember TEXT keeps it for this project, /remember --user TEXT for all."
        raise UsageError("/remember needs a note.", hint=hint)
    change = MemoryUpdate(store=store, action="add", content=text)
    front.show(f"{await _provider(conversation).update(change)} {_LATER}", tone="good")


async def _edit(provider: MemoryProvider, store: StoreName, front: FrontEnd) -> None:
    before = await provider.read(store)
    after = await front.edit_text(before)
    # Editors differ in whether the last line ends with a newline.
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


def _provider(conversation: Conversation) -> MemoryProvider:
    memory = conversation.extension(Memory)
    if memory is None:
        raise UsageError("Memory is off here.", hint="Set `enabled = true` under [memory].")
    return memory.provider
