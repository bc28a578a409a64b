"""Slash commands about the screen: transcript, panels, theme, Vim's keys."""

from typing import TYPE_CHECKING, Literal, cast, get_args

from dirge_py.slash.base import Choice, command
from dirge_py.types.errors import UsageError
from dirge_py.ui.actions import show_thinking
from dirge_py.ui.app import TuiFrontEnd
from dirge_py.ui.chrome import WIDE, ChromePresenter, Side
from dirge_py.ui.terminal.editor import read_in_pager
from dirge_py.ui.theme.styles import theme_names, user_themes
from dirge_py.ui.transcript.positions import whole_text

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation


@command("pager", "read the transcript in $PAGER")
async def pager(args: str, conversation: "Conversation", front: TuiFrontEnd) -> None:
    await read_in_pager(front.app, whole_text(front.app.transcript.layout_of_blocks))


@command("edit", "write the next prompt in $EDITOR", usage="[TEXT]")
async def edit(args: str, conversation: "Conversation", front: TuiFrontEnd) -> None:
    text = await front.edit_text(args)
    front.set_input(args if text is None else text)


@command("redraw", "draw the screen again")
async def redraw(args: str, conversation: "Conversation", front: TuiFrontEnd) -> None:
    front.app.draw_anew()


_PANELS = ("on", "off", "auto")
_SIDES = get_args(Side)


@command(
    "panel",
    "the panels at the sides: always, never, or where they fit",
    usage="[on|off|auto]",
    complete=lambda _: _PANELS,
)
async def panel(args: str, conversation: "Conversation", front: TuiFrontEnd) -> None:
    chrome = front.app.chrome
    if args and args not in _PANELS:
        raise UsageError(f"There is no panel setting {args!r}.", hint="/panel on, off or auto.")
    if args:
        chrome.panel = cast(Literal["on", "off", "auto"], args)
        chrome.fit(front.app.size.width)
    front.show(_describe(chrome))


@command(
    "display",
    "which of left, main and right are shown",
    usage="[left|main|right]",
    complete=lambda _: ("left|main|right", "left|main", "main|right", "main"),
)
async def display(args: str, conversation: "Conversation", front: TuiFrontEnd) -> None:
    chrome = front.app.chrome
    wanted = args.replace("|", " ").replace(",", " ").split()
    if odd := [side for side in wanted if side not in _SIDES]:
        raise UsageError(
            f"There is no part {odd[0]!r} to display.",
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
    "show what the model thinks, or hide it, from the next answer on",
    usage="[on|off]",
    complete=lambda _: tuple(_STATES),
)
async def reasoning(args: str, conversation: "Conversation", front: TuiFrontEnd) -> None:
    if args and args not in _STATES:
        raise UsageError(f"/reasoning does not know {args!r}.", hint="/reasoning [on|off]")
    show_thinking(front.app, _STATES.get(args, not front.app.ui_settings.show_thinking))


@command("theme", "switch the colours", usage="[NAME]", complete=lambda _: theme_names())
async def theme(args: str, conversation: "Conversation", front: TuiFrontEnd) -> None:
    name: str | None = args
    if not name:
        own = user_themes()
        choices = [
            Choice(id=known, label=known, detail="yours" if known in own else "")
            for known in theme_names()
        ]
        name = await front.app.theme_switcher.pick(choices, front.app.picker)
        front.app.composer.focus()
    if name and name not in theme_names():
        hint = f"Themes: {', '.join(theme_names())}."
        raise UsageError(f"There is no theme {name!r}.", hint=hint)
    if name:
        front.app.set_colors(name)


@command("vim", "Vim's keys in the input, on or off")
async def vim(args: str, conversation: "Conversation", front: TuiFrontEnd) -> None:
    composer = front.app.composer
    composer.use_vim(is_on=not composer.has_vim)
    words = 'on; Esc switches to normal mode. `[ui] keymap = "vim"` keeps them'
    front.show(f"Vim's keys are {words if composer.has_vim else 'off'}.")
