"""Slash commands about the screen: keys, terminal, clipboard, transcript, panels, theme."""

import asyncio
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast, get_args

from textual.app import SuspendNotSupported

from dirge_py.lib.lazy import late, late_pattern
from dirge_py.sdk.doctor import terminal
from dirge_py.sdk.doctor.report import CheckResult, as_text
from dirge_py.slash.base import Choice, ask_option, command
from dirge_py.types.errors import DirgeError, UsageError
from dirge_py.ui import actions
from dirge_py.ui.app import TuiFrontEnd
from dirge_py.ui.chrome import WIDE, ChromePresenter, Side
from dirge_py.ui.keymap import Key, key_problems, spell
from dirge_py.ui.terminal.clipboard import last_copy_file
from dirge_py.ui.theme.styles import AUTO_THEME, theme_names, user_themes

if TYPE_CHECKING:
    from dirge_py.config.edit import save_theme
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.sdk.doctor.checks import examine
    from dirge_py.ui.app import DirgeApp
else:
    save_theme = late("dirge_py.config.edit", "save_theme")
    examine = late("dirge_py.sdk.doctor.checks", "examine")


_SCOPES: Mapping[str, str] = {
    "composer": "Writing", "screen": "Screen", "search": "Searching earlier prompts",
    "reading": "Reading the transcript", "find": "Finding text", "shell": "Your shell command",
    "list": "Lists", "dialog": "Permission questions", "hunks": "A change, hunk by hunk",
    "picker": "Session list", "form": "Questions from the model",
    "trust": "Trust question",
}  # fmt: skip
_ENDING = """
Change keys under [keys] in your settings: `action = "ctrl+t"` in every scope that has the \
action, `"scope.action" = …` in one; `["f5", "ctrl+x f"]` for several, two keys with a space for \
a chord, "none" for no key. A slash command with its arguments, "/model fast", is an action, too."""


@command(
    "keybindings", "list every action with its keys, and how to change them", aliases=("keys",)
)
async def keybindings(args: str, conversation: "Conversation", front: TuiFrontEnd) -> None:
    front.show(listing(front.app.keymap.keys) + _ENDING)


def listing(keys: Sequence[Key]) -> str:
    """Return all actions by scope, with keys, name and words."""
    shown = [(key, ", ".join(map(spell, key.keys)) or "-") for key in keys]
    wide = max(len(names) for _, names in shown)
    name_wide = max(len(key.action) for key in keys)
    lines: list[str] = []
    for scope in dict.fromkeys(key.scope for key in keys):
        lines += ["", f"{_SCOPES.get(scope, scope.capitalize())} ({scope})"]
        lines += [
            f"  {names:<{wide}}  {key.action:<{name_wide}}  {key.words}".rstrip()
            for key, names in shown
            if key.scope == scope
        ]
    return "\n".join(lines[1:]) + "\n"


_OF_THE_TERMINAL = (
    *("terminal", "size", "locale", "colors", "screen", "vte", "answers", "keys", "widths"),
    *("synchronized output", "focus reports", "bracketed paste", "clipboard"),
)
_YES = "Append them"


@command("doctor", "find problems with your terminal and setup, and how to fix them")
async def doctor(args: str, conversation: "Conversation", front: TuiFrontEnd) -> None:
    front.show(as_text(await _examine(front.app, conversation)))


@command(
    "terminal-setup", "suggest changes to your terminal and tmux settings; asks before it writes"
)
async def terminal_setup(args: str, conversation: "Conversation", front: TuiFrontEnd) -> None:
    results = await _examine(front.app, conversation, is_offline=True)
    lines = terminal.missing_lines(results)
    others = [r for r in results if r.fix and not r.tmux_line and r.name in _OF_THE_TERMINAL]
    advice = [f"{result.name}: {result.words}\n  {result.fix}" for result in others]
    if lines:
        advice.append("\n".join(["Add these lines to ~/.tmux.conf:", *lines]))
    front.show("\n".join(advice) or "This terminal needs no setup.")
    question = "Append these lines to ~/.tmux.conf? A copy of the file is kept."
    options = {"Leave it as it is": "", _YES: ""}
    if lines and await ask_option(front, "tmux", question, options) == _YES:
        kept = terminal.append_lines(lines, Path.home())
        backup = f" The old file is saved as {kept}." if kept else ""
        now = "`tmux source-file ~/.tmux.conf` applies it."
        front.show(f"Appended to ~/.tmux.conf. {now}{backup}", tone="good")


async def _examine(
    app: "DirgeApp", conversation: "Conversation", *, is_offline: bool = False
) -> list[CheckResult]:
    return await asyncio.to_thread(
        examine,
        await _answers(app),
        cwd=conversation.cwd,
        size=(app.size.width, app.size.height),
        key_problems=key_problems,
        extensions=conversation.extensions.all,
        is_offline=is_offline,
    )


async def _answers(app: "DirgeApp") -> "terminal.TerminalAnswers | None":
    """Query the terminal while the app is suspended, as it would read the answers as keys."""
    app.is_handed_over = True
    try:
        with app.batch_update(), app.suspend():
            assert sys.__stdin__ is not None and sys.__stderr__ is not None
            simple, files = terminal.is_simple(os.environ), (sys.__stdin__, sys.__stderr__)
            return terminal.ask_terminal(*(file.fileno() for file in files), is_simple=simple)
    except (SuspendNotSupported, OSError):
        return None
    finally:
        await app.reclaim_screen()


_FENCE = late_pattern(r"^ {0,3}(`{3,}|~{3,})[^\n]*\n(.*?)^ {0,3}\1[`~]*[ \t]*$", re.M | re.S)


@command(
    "copy",
    "copy the last answer, the Nth last, or the last code block; --file: where it is",
    usage="[N | code | --file]",
    complete=lambda _: ("code", "--file"),
)
async def copy(args: str, conversation: "Conversation", front: TuiFrontEnd) -> None:
    if args == "--file":
        file = last_copy_file()
        front.show(str(file) if file.exists() else "Nothing has been copied yet.")
        return
    answers = [m.text for m in conversation.messages if m.role == "assistant" and m.text.strip()]
    if args == "code":
        blocks = [block[2] for answer in answers for block in _FENCE.finditer(answer)]
        if not blocks:
            raise UsageError("No answer has a code block yet.")
        front.show(front.app.copy_text(blocks[-1].removesuffix("\n")))
        return
    if args and not (args.isdecimal() and int(args)):
        raise UsageError(f"/copy doesn't take {args!r}.", hint="/copy [N | code | --file]")
    number = int(args or 1)
    if number > len(answers):
        some = f"There are only {len(answers)} answers."
        raise UsageError(some if answers else "There is no answer to copy yet.")
    front.show(front.app.copy_text(answers[-number].strip("\n")))


@command("pager", "read the transcript in $PAGER")
async def pager(args: str, conversation: "Conversation", front: TuiFrontEnd) -> None:
    await actions.pager(front.app)


@command("edit", "write the next prompt in $EDITOR", usage="[TEXT]")
async def edit(args: str, conversation: "Conversation", front: TuiFrontEnd) -> None:
    text = await front.edit_text(args)
    front.set_input(args if text is None else text)


@command("redraw", "redraw the screen")
async def redraw(args: str, conversation: "Conversation", front: TuiFrontEnd) -> None:
    front.app.draw_anew()


_PANELS = ("on", "off", "auto")
_SIDES = get_args(Side)


@command(
    "panel",
    "show side panels: always, never, or when they fit",
    usage="[on|off|auto]",
    complete=lambda _: _PANELS,
)
async def panel(args: str, conversation: "Conversation", front: TuiFrontEnd) -> None:
    chrome = front.app.chrome
    if args and args not in _PANELS:
        raise UsageError(f"/panel doesn't take {args!r}.", hint="/panel [on|off|auto]")
    if args:
        chrome.panel = cast(Literal["on", "off", "auto"], args)
        chrome.fit(front.app.size.width)
    front.show(_describe(chrome))


@command(
    "display",
    "choose which of left, main and right to show",
    usage="[left|main|right]",
    complete=lambda _: ("left|main|right", "left|main", "main|right", "main"),
)
async def display(args: str, conversation: "Conversation", front: TuiFrontEnd) -> None:
    chrome = front.app.chrome
    wanted = args.replace("|", " ").replace(",", " ").split()
    if odd := [side for side in wanted if side not in _SIDES]:
        raise UsageError(
            f"/display doesn't take {odd[0]!r}.",
            hint=f"The parts are {'|'.join(_SIDES)}; `left main` or `left|main` names two.",
        )
    if wanted:
        chrome.display = [side for side in _SIDES if side in wanted]
        chrome.fit(front.app.size.width)
    front.show(_describe(chrome))


def _describe(chrome: ChromePresenter) -> str:
    words = f"Panels: {chrome.panel}; displayed: {'|'.join(chrome.display)}."
    if chrome.panel == "auto":
        words += f" Panels are shown from {WIDE} columns on."
    elif chrome.panel == "on" and not chrome.is_shown:
        words += " The screen is too narrow for a panel."
    return words


_STATES = {"on": True, "off": False}


@command("search", "find words in the transcript", usage="[WORDS]", aliases=("find",))
async def search(args: str, conversation: "Conversation", front: TuiFrontEnd) -> None:
    front.app.find_bar.open(front.app.composer, args)


@command(
    "reasoning",
    "show or hide the model's thinking, from the next answer on",
    usage="[on|off]",
    complete=lambda _: tuple(_STATES),
)
async def reasoning(args: str, conversation: "Conversation", front: TuiFrontEnd) -> None:
    if args and args not in _STATES:
        raise UsageError(f"/reasoning doesn't take {args!r}.", hint="/reasoning [on|off]")
    actions.show_thinking(front.app, _STATES.get(args, not front.app.ui_settings.show_thinking))


@command(
    "theme",
    "switch the color theme, and keep it for later starts",
    usage="[NAME]",
    complete=lambda _: theme_names(),
)
async def theme(args: str, conversation: "Conversation", front: TuiFrontEnd) -> None:
    name: str | None = args
    if not name:
        detail = {AUTO_THEME: "dark or light, like your terminal"}
        detail |= dict.fromkeys(user_themes(), "yours")
        choices = [Choice(id=n, label=n, detail=detail.get(n, "")) for n in theme_names()]
        name = await front.app.theme_switcher.pick(choices, front.app.picker)
        front.app.composer.focus()
    if name and name not in theme_names():
        raise UsageError(f"There is no theme {name!r}.", hint="See /theme.")
    if name:
        front.app.set_colors(name)
        if not front.app.theme_switcher.problem:
            await _keep_theme(name, front)


async def _keep_theme(name: str, front: TuiFrontEnd) -> None:
    """Write the theme into the settings, and say what happened."""
    opener, file = front.app.session_opener, front.settings_file
    if file is None:
        front.show(f"Theme: {name}, until you quit.")
        return
    try:
        await asyncio.to_thread(save_theme, name, file=file)
    except DirgeError as error:
        words = f"Theme: {name}, until you quit. dirge cannot store it: {error.in_one_line()}"
        front.show(words, tone="warning")
        return
    own = opener.project_theme
    later = f" In this project, its own theme ({own}) applies at the next start." if own else ""
    front.show(f"Theme: {name}. Stored as `theme` under [ui] in {file}.{later}", tone="good")


@command("vim", "turn Vim keys in the input on or off")
async def vim(args: str, conversation: "Conversation", front: TuiFrontEnd) -> None:
    composer = front.app.composer
    composer.use_vim(is_on=not composer.has_vim)
    words = "on until you quit; Esc switches to normal mode" if composer.has_vim else "off"
    keymap = "vim" if composer.has_vim else "default"
    if keymap != front.app.ui_settings.keymap:
        words += f'. `keymap = "{keymap}"` under [ui] of your settings keeps it that way'
    front.show(f"Vim keys are {words}.")
