"""`/rewind`, `/undo`, `/redo`, `/retry`, `/tree`, `/fork` and `/clone`: moves within a session."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from dirge_py.conversation.conversation import Conversation
from dirge_py.git.objects import TreeChange
from dirge_py.lib.text import one_line, plural, visible
from dirge_py.session.rewind import RewindPreview, RewindResult, RewindScope, RewindTarget
from dirge_py.session.tree import RewindPoint, SessionTree
from dirge_py.slash.base import Choice, FrontEnd, ask_option, ask_options, command
from dirge_py.types.errors import UsageError

_LEFT_OUT = "Too large for a snapshot, or ignored by git then, so left as they are"
_HERE = "here"
_MOST_DIGITS = 9
_MOST_FILES = 20
_MOST_OFFERED = 30
_SIGNS = {"added": "+", "changed": "~", "removed": "-"}
_WOULD = {"added": "will come back", "changed": "will change", "removed": "will be removed"}
_BOTH = "conversation and files"
_CONVERSATION = "only the conversation"
_FILES = "only the files"
_SCOPES: dict[str, RewindScope] = {_BOTH: "both", _CONVERSATION: "conversation", _FILES: "files"}
_HEADLINES = {
    "redo": "The last move is undone.",
    "clone": "You are on a new branch that ends at that message. /redo reverses that.",
    "switch": "You are at that point now. /redo goes back to where you were.",
    "fork": "You are on a new branch. /redo reverses that.",
}


@command(
    "rewind",
    "go back to before an earlier prompt: conversation, files, or both",
    usage="[N]",
    aliases=("checkpoint",),
    while_running="no",
    complete=lambda c: [str(number) for number, _ in enumerate(_prompt_ids(c), 1)],
)
async def rewind(args: str, conversation: Conversation, front: FrontEnd) -> None:
    prompt = await _chosen_point(args, conversation, front)
    if prompt is None:
        return
    target = conversation.timeline.before(prompt.id)
    preview = await conversation.timeline.preview(target)
    if (scope := await _ask_scope(preview, front)) is not None:
        await _move(conversation, front, target, scope, preview)


@command("redo", "reverse the last /undo, /rewind or move in /tree", while_running="no")
async def redo(args: str, conversation: Conversation, front: FrontEnd) -> None:
    _refuse_arguments(args, "redo")
    target = conversation.timeline.before_last_move()
    await _move(conversation, front, target, None, await conversation.timeline.preview(target))


async def _go_back(args: str, conversation: Conversation, front: FrontEnd, *, why: str) -> None:
    """Go back to before the last prompt; asks only if files would change."""
    _refuse_arguments(args, why)
    target = conversation.timeline.before(why=why)
    preview = await conversation.timeline.preview(target)
    options = {"go back": "", "cancel": ""}
    text = _preview_text(preview)
    if not preview.changes or await ask_option(front, "Rewind", text, options) == "go back":
        await _move(conversation, front, target, None)


@command("undo", "undo the last prompt and its file changes", while_running="no")
async def undo(args: str, conversation: Conversation, front: FrontEnd) -> None:
    await _go_back(args, conversation, front, why="undo")


@command(
    "retry", "undo the last prompt and its file changes, to edit and resend it", while_running="no"
)
async def retry(args: str, conversation: Conversation, front: FrontEnd) -> None:
    await _go_back(args, conversation, front, why="retry")


def _refuse_arguments(args: str, name: str) -> None:
    if args:
        raise UsageError(f"/{name} takes no arguments.", hint="/rewind N goes back N prompts.")


@command(
    "tree",
    "show the branches of this session; with an id: go there",
    usage="[ID]",
    while_running="listing",
    headless=True,
    complete=lambda c: list(c.timeline.tree().names) if c.session_id else [],
)
async def tree(args: str, conversation: Conversation, front: FrontEnd) -> None:
    timeline = conversation.timeline
    if not args:
        front.show("\n".join(draw_tree(timeline.tree())) or "This session has no messages yet.")
        return
    target = timeline.node(args)
    preview = await timeline.preview(target)
    has_files = bool(preview.changes or preview.yours)
    scope = await _ask_scope(preview, front) if has_files else "conversation"
    if scope is not None:
        await _move(conversation, front, target, scope, preview)


def _prompt_ids(conversation: Conversation) -> list[str]:
    return [p.id for p in conversation.timeline.prompts()] if conversation.session_id else []


@command(
    "fork",
    "start a branch before an earlier prompt, which comes back to the input",
    usage="[ID]",
    aliases=("branch",),
    while_running="no",
    complete=_prompt_ids,
)
async def fork(args: str, conversation: Conversation, front: FrontEnd) -> None:
    timeline = conversation.timeline
    prompt = args or await _pick_point(front, "Branch from before", timeline.prompts())
    if prompt is not None:
        await _move(conversation, front, timeline.before(prompt, why="fork"), "conversation")


@command(
    "clone",
    "start a branch that ends at a message",
    usage="[ID]",
    while_running="no",
    complete=lambda c: [point.id for point in c.timeline.points()] if c.session_id else [],
)
async def clone(args: str, conversation: Conversation, front: FrontEnd) -> None:
    timeline = conversation.timeline
    points = [point for point in timeline.points() if point.text.strip()]
    message = args or await _pick_point(front, "Branch that ends at", points, is_marked=True)
    if message is not None:
        await _move(conversation, front, timeline.behind(message), "conversation")


async def _pick_point(
    front: FrontEnd, title: str, points: Sequence[RewindPoint], *, is_marked: bool = False
) -> str | None:
    """The id of the point the user picks; "" if there are no points, None if they cancel."""
    choices = []
    for point in points:
        mark = ("❯ " if point.is_prompt else "• ") if is_marked else ""
        choices.append(_choice(point, mark))
    return await front.pick(title, choices) if choices else ""


def _choice(point: RewindPoint, mark: str = "", note: str = "") -> Choice:
    label, detail = mark + one_line(point.text, 80), relative_time(point.at) + note
    return Choice(id=point.id, label=label, detail=detail)


async def _chosen_point(
    args: str, conversation: Conversation, front: FrontEnd
) -> RewindPoint | None:
    """The prompt to go back before: by its number from the end, or picked."""
    prompts = conversation.timeline.prompts(None if args else 20)
    if not prompts:
        raise UsageError("There is nothing to go back to.", hint="This session has no prompts yet.")
    if args:
        if not args.isdecimal() or len(args) > _MOST_DIGITS or not 1 <= int(args) <= len(prompts):
            text = f"/rewind takes a number of prompts from 1 to {len(prompts)}, not {args!r}."
            raise UsageError(text, hint="/rewind without a number lets you pick.")
        return prompts[int(args) - 1]
    changed = await conversation.timeline.changed_since(prompts)
    choices = [Choice(id=_HERE, label="(current)", detail="stay here")]
    for prompt in prompts:
        count = changed.get(prompt.id)
        files = "" if count is None else f", {plural(count, 'file')} changed since"
        choices.append(_choice(prompt, note=files))
    chosen = await front.pick("Rewind to before", choices, current=_HERE)
    return next((prompt for prompt in prompts if prompt.id == chosen), None)


async def _ask_scope(preview: RewindPreview, front: FrontEnd) -> RewindScope | None:
    """What the move covers; None if the user cancels."""
    options = {_CONVERSATION: "the files stay as they are"}
    if preview.changes or preview.yours:
        options = {_BOTH: "", **options, _FILES: "the messages stay"}
    options["cancel"] = ""
    chosen = await ask_option(front, "Rewind", _preview_text(preview), options)
    return _SCOPES.get(chosen or "")


async def _ask_for_user_files(preview: RewindPreview, front: FrontEnd) -> Sequence[str] | None:
    """Which files that the user changed go back as well; None if they cancel."""
    offered = preview.yours[:_MOST_OFFERED]
    text = (
        "You changed these files since then. Which ones should go back, too? The others are kept."
    )
    if more := len(preview.yours) - len(offered):
        text += f" {more} more are always kept."
    notes = {c.path: f"{_WOULD[c.kind]}{_line_counts(c)}" for c in offered}
    return await ask_options(front, "Yours", text, notes)


async def _move(
    conversation: Conversation,
    front: FrontEnd,
    target: RewindTarget,
    scope: RewindScope | None,
    preview: RewindPreview | None = None,
) -> None:
    """Move to `target` and report it; first ask which of the user's own changes go back, too."""
    also: Sequence[str] | None = ()
    if preview and preview.yours and (scope or target.what) != "conversation":
        also = await _ask_for_user_files(preview, front)
    if also is None:
        return
    result = await conversation.timeline.move_to(target, scope, also=also)
    front.show(_result_text(result), tone="error" if result.failed else "good")
    if result.text:
        front.set_input(result.text)


def _preview_text(preview: RewindPreview) -> str:
    lines = [_left_behind(preview.left_behind)]
    if preview.unavailable:
        lines.append(f"The files stay as they are: {preview.unavailable}.")
    elif not preview.changes and not preview.yours:
        lines.append("No file will change.")
    if preview.changes:
        lines.append(f"{plural(len(preview.changes), 'file')} will be restored:")
        lines += _change_lines(preview.changes)
    if preview.yours:
        lines.append("Changed by you since, and kept unless you choose them:")
        lines += _change_lines(preview.yours)
    if preview.left_out:
        lines.append(f"{_LEFT_OUT}: {_joined_names(preview.left_out)}")
    return "\n".join(lines)


def _result_text(moved: RewindResult) -> str:
    left = _left_behind(moved.left_behind) if moved.left_behind else "No message is left out."
    headline = _HEADLINES.get(moved.why, f"{left} /redo reverses that.")
    if moved.what == "files":
        headline = "The files went back; the conversation stays. /redo reverses that."
    lines = [headline]
    if moved.done:
        lines.append(f"{plural(len(moved.done), 'file')} restored: {_joined_names(moved.done)}")
    if moved.failed:
        lines.append(f"{plural(len(moved.failed), 'file')} couldn't be restored:")
        lines += _capped([f"  {visible(path)}: {visible(why)}" for path, why in moved.failed])
    if moved.kept:
        lines.append(f"Changed by you since, and kept: {_joined_names(moved.kept)}")
    if moved.left_out:
        lines.append(f"{_LEFT_OUT}: {_joined_names(moved.left_out)}")
    if moved.what == "conversation" and moved.unavailable:
        lines.append(f"The files stay as they are: {moved.unavailable}.")
    return "\n".join([*lines, *moved.notices])


def _left_behind(count: int) -> str:
    verb = "stays" if count == 1 else "stay"
    return f"{plural(count, 'message')} {verb} on another branch (/tree)."


def _change_lines(changes: Sequence[TreeChange]) -> list[str]:
    return _capped([f"  {_SIGNS[c.kind]} {visible(c.path)}{_line_counts(c)}" for c in changes])


def _line_counts(change: TreeChange) -> str:
    return "" if change.lines is None else f"  +{change.lines[0]} -{change.lines[1]}"


def _capped(lines: list[str]) -> list[str]:
    more = len(lines) - _MOST_FILES
    return [*lines[:_MOST_FILES], f"  and {more} more"] if more > 0 else lines


def _joined_names(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _MOST_FILES} more" if len(paths) > _MOST_FILES else ""
    return ", ".join(visible(path) for path in paths[:_MOST_FILES]) + more


def relative_time(at: str) -> str:
    """How long ago a time in ISO 8601 was, as text."""
    try:
        seconds = (datetime.now(UTC) - datetime.fromisoformat(at)).total_seconds()
    except (ValueError, TypeError):
        return ""
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{int(seconds // size)} {unit} ago"
    return "just now"


def draw_tree(tree: SessionTree) -> Iterator[str]:
    """Yield a line per prompt and move, ▸ at the current one, side branches above and indented."""
    nodes = tree.nodes
    main = set()
    at = tree.here
    while at is not None:
        main.add(at)
        at = nodes[at].above
    roots = [number for number, node in enumerate(nodes) if node.above is None]
    width = max(map(len, tree.names), default=0)
    # Each entry: a node, what stands before it, and what stands before those below it.
    waiting = _indented(roots, main, "")
    while waiting:
        number, sign, indent = waiting.pop()
        node = nodes[number]
        here = "▸" if number == tree.here else " "
        mark = "↩ " if node.kind == "move" else ""
        text = visible(node.text) or "…"
        age = relative_time(node.at)
        yield f"{here} {tree.names[number]:<{width}}  {sign}{mark}{text}  {age}".rstrip()
        waiting += _indented(node.below, main, indent)


def _indented(below: list[int], main: set[int], indent: str) -> list[tuple[int, str, str]]:
    """The abandoned branches, the first one last, behind the one that continues straight."""
    if not below:
        return []
    straight = next((number for number in below if number in main), below[-1])
    left = [number for number in reversed(below) if number != straight]
    return [(straight, indent, indent), *((n, f"{indent}├─ ", f"{indent}│  ") for n in left)]
