"""`/tree`, `/fork` and `/clone`: the branches of a session."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dirge_py.lib.text import visible
from dirge_py.slash.base import Choice, FrontEnd
from dirge_py.slash.rewind import ask_for_user_files, ask_what, move_to, relative_time, shortened
from dirge_py.types.extensions import Command

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.session.tree import SessionTree


async def tree(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    timeline = conversation.timeline
    if not args:
        found = timeline.tree()
        front.show("\n".join(draw_tree(found)) if found.nodes else "Nothing was said yet.")
        return
    destination = timeline.node(args)
    preview = await timeline.preview(destination)
    has_files = bool(preview.changes or preview.yours)
    what = await ask_what(preview, front) if has_files else "conversation"
    if what is None:
        return
    also = await ask_for_user_files(preview, front) if what != "conversation" else ()
    if also is not None:
        await move_to(conversation, front, destination, what, also)


async def fork(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    timeline = conversation.timeline
    prompt: str | None = args
    if not args:
        choices = [
            Choice(id=one.id, label=shortened(one.text), detail=relative_time(one.at))
            for one in timeline.prompts()
        ]
        prompt = await front.pick("A branch before", choices) if choices else ""
    if prompt is not None:
        await move_to(conversation, front, timeline.before(prompt, why="fork"), "conversation")


async def clone(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    timeline = conversation.timeline
    message: str | None = args
    if not args:
        choices = [
            Choice(
                id=one.id,
                label=f"{'❯' if one.is_prompt else '•'} {shortened(one.text)}",
                detail=relative_time(one.at),
            )
            for one in timeline.points()
            if one.text.strip()
        ]
        message = await front.pick("A branch that ends at", choices) if choices else ""
    if message is not None:
        await move_to(conversation, front, timeline.behind(message), "conversation")


def draw_tree(found: "SessionTree") -> Iterator[str]:
    """One line per prompt and per move, ▸ where the conversation stands.

    The way to there is a straight line; what was left is set in, above what came instead.
    """
    nodes = found.nodes
    main = set()
    at = found.here
    while at is not None:
        main.add(at)
        at = nodes[at].above
    roots = [at for at, node in enumerate(nodes) if node.above is None]
    width = max(map(len, found.names), default=0)
    # Each entry: a node, what stands before it, and what stands before those below it.
    waiting = list(reversed(_set_in(roots, main, "")))
    while waiting:
        number, sign, room = waiting.pop()
        node = nodes[number]
        here = "▸" if number == found.here else " "
        mark = "↩ " if node.kind == "move" else ""
        text = visible(node.text) or "…"
        age = relative_time(node.at)
        yield f"{here} {found.names[number]:<{width}}  {sign}{mark}{text}  {age}".rstrip()
        waiting += reversed(_set_in(node.below, main, room))


def _set_in(below: list[int], main: set[int], room: str) -> list[tuple[int, str, str]]:
    """Branches that were left, then the one that goes straight on."""
    if not below:
        return []
    straight = next((number for number in below if number in main), below[-1])
    left = [number for number in below if number != straight]
    return [
        *((number, f"{room}├─ ", f"{room}│  ") for number in left),
        (straight, room, room),
    ]


def nodes(conversation: "Conversation") -> list[str]:
    return list(conversation.timeline.tree().names) if conversation.session_id else []


def prompts(conversation: "Conversation") -> list[str]:
    if not conversation.session_id:
        return []
    return [point.id for point in conversation.timeline.prompts()]


def messages(conversation: "Conversation") -> list[str]:
    return [point.id for point in conversation.timeline.points()] if conversation.session_id else []


COMMANDS = (
    Command(
        name="tree",
        summary="the branches of this session; with an id: go there",
        usage="[ID]",
        run=tree,
        while_running="listing",
        headless=True,
        complete=nodes,
    ),
    Command(
        name="fork",
        summary="a new branch before a prompt, which comes back to the input",
        usage="[ID]",
        run=fork,
        aliases=("branch",),
        while_running="no",
        complete=prompts,
    ),
    Command(
        name="clone",
        summary="a new branch that ends at a message",
        usage="[ID]",
        run=clone,
        while_running="no",
        complete=messages,
    ),
)
