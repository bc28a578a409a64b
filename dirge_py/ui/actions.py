"""The actions of the screen, a function for each, and the command palette."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from textual.app import SuspendNotSupported

from dirge_py.files.assets import PICTURE_LIMIT
from dirge_py.slash.base import Choice
from dirge_py.ui.app import Action, DirgeApp
from dirge_py.ui.keymap import spell
from dirge_py.ui.terminal.clipboard import read_clipboard
from dirge_py.ui.terminal.editor import edit_in_editor, read_in_pager
from dirge_py.ui.transcript.positions import whole_text

QUIT_WITHIN_S = 2.0
"""A second Ctrl+C within this time quits."""

BACK_WITHIN_S = 1.5
"""A second Esc on an empty input within this time goes back in the session."""

_MODES: tuple[Literal["standard", "accept", "plan"], ...] = ("standard", "accept", "plan")

_READING = {
    "line_down": "moves", "select": "selects", "copy_read": "copies", "find": "finds",
    "next_block": "next block", "toggle": "opens", "close": "back",
}  # fmt: skip
"""The actions of the hint about reading."""


async def interrupt(app: DirgeApp) -> None:
    """Interrupt; with nothing running and nothing typed, the second press goes back."""
    if app.controller.interrupt() or app.composer.text or app.controller.state != "ready":
        app.last_pressed.pop("interrupt", None)
        return
    if _is_second_press(app, "interrupt", within_s=BACK_WITHIN_S):
        app.last_pressed.pop("interrupt", None)
        await app.controller.submit("/rewind", "now")
    elif app.controller.conversation is not None and app.controller.conversation.messages:
        name = app.keymap.name_of("screen", "interrupt")
        app.hint(f"Press {name} again to go back to an earlier prompt.")


def stop(app: DirgeApp) -> None:
    """Copy, clear the input, interrupt, or quit (in a conversation: at a second press)."""
    if selected := app.selected_text:
        app.transcript.drop_selection()
        app.screen.clear_selection()
        app.composer.move_cursor(app.composer.cursor_location)
        app.hint(app.copy_text(selected))
        return
    was_pressed = _is_second_press(app, "stop", within_s=QUIT_WITHIN_S)
    if app.composer.text:
        app.composer.prompts.add(app.composer.text)
        app.composer.put("")
    elif not app.controller.interrupt():
        if was_pressed or app.controller.conversation is None:
            app.leave(0)
        else:
            app.hint(f"Press {app.keymap.name_of('screen', 'stop')} again to quit.")


def quit(app: DirgeApp) -> None:  # noqa: A001 - the action's name
    """Quit; while something runs, at a second press."""
    is_active = app.controller.is_busy or app.controller.state == "compacting"
    if is_active and not _is_second_press(app, "quit", within_s=QUIT_WITHIN_S):
        key = app.keymap.name_of("composer", "delete_or_quit")
        app.hint(f"Still working. Press {key} again to stop and quit.")
        return
    app.leave(0)


def suspend(app: DirgeApp) -> None:
    try:
        app.action_suspend_process()
    except SuspendNotSupported:
        app.hint("This terminal cannot be suspended.")


def background(app: DirgeApp) -> None:
    """Move the running command to the background; without one, move the cursor."""
    conversation = app.controller.conversation
    shells = conversation.environment.shells if conversation is not None else None
    shell_id = shells.to_background() if shells is not None else None
    if shell_id is None:
        app.composer.action_cursor_left()
        return
    app.notify_user(f"The command continues in the background as {shell_id}; /tasks lists it.")
    app.refresh_status()


def _is_second_press(app: DirgeApp, action: str, *, within_s: float) -> bool:
    now, before = time.monotonic(), app.last_pressed.get(action)
    app.last_pressed[action] = now
    return before is not None and now - before < within_s


def up_on_empty(app: DirgeApp) -> None:
    """Take the queue back; without one, show an earlier prompt."""
    if not app.controller.take_queue_back():
        app.composer.key_action_history_older()


def drop_queue(app: DirgeApp) -> None:
    """Drop the queue, which stays among the earlier prompts."""
    dropped = app.controller.drop_queue()
    for text in dropped:
        app.composer.prompts.add(text)
    if dropped:
        older = app.keymap.name_of("composer", "history_older")
        app.hint(f"Queue cleared ({len(dropped)}). {older} brings back each message.")
    else:
        app.hint("Nothing is queued.")


async def edit_outside(app: DirgeApp) -> None:
    """Edit the whole draft in the editor; unchanged pastes become placeholders again."""
    composer = app.composer
    edited = await edit_in_editor(app, composer.pastes.expand(composer.draft))
    if edited is not None:
        composer.put(edited)


async def paste(app: DirgeApp) -> None:
    """Insert the picture on the desktop's clipboard, or its text."""
    clip = await asyncio.to_thread(read_clipboard)
    conversation = app.controller.conversation
    if clip.problem:
        app.hint(clip.problem)
    elif not clip.image:
        app.composer.paste(clip.text)
    elif len(clip.image) > PICTURE_LIMIT:
        app.notify_user("The image is larger than 5 MiB. Scale it down first.", tone="warning")
    elif conversation is not None and conversation.settings.sees_pictures is False:
        model = conversation.settings.model
        words = f"{model} cannot read images. /model switches to another model."
        app.notify_user(words, tone="warning")
    else:
        app.composer.write(app.pictures.add(clip.image) + " ")


def cycle_mode(app: DirgeApp) -> None:
    """Switch to the next permission mode, which applies to the next tool call."""
    from dirge_py.slash.permission import MODES

    conversation = app.controller.conversation
    if conversation is None:
        return
    mode = conversation.settings.mode
    at = _MODES.index(mode) + 1 if mode in _MODES else 0
    chosen = _MODES[at % len(_MODES)]
    conversation.settings.set_mode(chosen)
    app.hint(f"Mode {chosen}: {MODES[chosen]}")


def read(app: DirgeApp) -> None:
    """Give the keyboard to the transcript."""
    # Held first, as the line of the hint would make the view scroll.
    app.transcript.hold()
    app.transcript.focus()
    named = ((app.keymap.name_of("reading", action), words) for action, words in _READING.items())
    app.hint(" · ".join(f"{name} {words}" for name, words in named if name))


def copy_read(app: DirgeApp) -> None:
    """Copy the selection in the transcript, or the line at its cursor."""
    text = app.transcript.reading.pop_selected_text()
    app.hint(app.copy_text(text) if text.strip() else "Nothing to copy here.")


def show_thinking(app: DirgeApp, is_shown: bool) -> None:
    """Show or hide thinking from the next answer on, in this and later sessions."""
    app.ui_settings = replace(app.ui_settings, show_thinking=is_shown)
    app.feed.renderer.show_thinking(is_shown)
    app.notify_user(f"Thinking is {'shown' if is_shown else 'hidden'} from the next answer on.")


async def pager(app: DirgeApp) -> None:
    await app.feed.drawn()
    await read_in_pager(app, whole_text(app.transcript.layout_of_blocks))


def release_mouse(app: DirgeApp) -> None:
    app.use_mouse(is_ours=not app.has_mouse)
    key = app.keymap.name_of("screen", "release_mouse")
    given = f"The terminal has the mouse now. {key} gives it back to dirge."
    app.hint("dirge has the mouse again." if app.has_mouse else given)


async def palette(app: DirgeApp) -> None:
    """Do a command or an action from a list; a command that needs arguments goes to the input."""
    chosen = await app.dialogs.pick("Commands and actions", palette_choices(app), "")
    if chosen is None:
        return
    app.composer.focus()
    command = app.commands.find(chosen[1:]) if chosen.startswith("/") else None
    if command is not None and command.usage and not command.usage.startswith("["):
        # Arguments in brackets are optional. The draft stays among the earlier prompts.
        app.composer.prompts.add(app.composer.text)
        app.composer.put(f"{chosen} ")
    elif command is not None:
        await app.controller.submit(chosen, "now")
    else:
        app.composer.post_message(app.composer.ActionRequested(chosen))


def palette_choices(app: DirgeApp) -> list[Choice]:
    """Return all commands, then all actions, with their keys."""
    keys = {row.action: ", ".join(map(spell, row.keys)) for row in app.keymap.keys if row.keys}
    commands = [
        Choice(
            id=f"/{command.name}",
            label=f"/{command.name} {command.usage}".rstrip(),
            detail=" · ".join(filter(None, (command.summary, keys.get(f"/{command.name}")))),
        )
        for command in app.commands
    ]
    actions = [
        Choice(id=row.action, label=row.words, detail=", ".join(map(spell, row.keys)))
        for row in app.keymap.keys
        if row.scope == "screen" and row.words and row.action[0] != "/" and row.action != "palette"
    ]
    return [*commands, *actions]


_NAMED = (
    *(background, copy_read, cycle_mode, drop_queue, edit_outside, interrupt, pager, palette),
    *(paste, quit, read, release_mouse, stop, suspend, up_on_empty),
)

ACTIONS: Mapping[str, Action] = {
    **{action.__name__: action for action in _NAMED},
    "find": lambda app: app.find_bar.open(app.focused or app.composer),
    "find_next": lambda app: app.find_bar.step(1),
    "find_previous": lambda app: app.find_bar.step(-1),
    "go_to_end": lambda app: app.transcript.go_to_end(),
    "go_to_start": lambda app: app.transcript.go_to_start(),
    "page_down": lambda app: app.transcript.scroll_lines(app.transcript.page_lines),
    "page_up": lambda app: app.transcript.scroll_lines(-app.transcript.page_lines),
    "redraw": lambda app: app.draw_anew(),
    "take_queue_back": lambda app: app.controller.take_queue_back(),
    "todos": lambda app: app.chrome.todos.toggle_class("shown"),
    "toggle_all": lambda app: app.transcript.toggle_all(),
    "toggle_reasoning": lambda app: show_thinking(app, not app.ui_settings.show_thinking),
}
"""Every action of the screen by its name in the keymap."""
