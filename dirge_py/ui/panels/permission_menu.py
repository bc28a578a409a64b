"""What stands below the call of a permission question: its keys, its rules, the other questions."""

from collections.abc import Callable, Sequence

from rich.cells import cell_len
from rich.style import Style
from textual.strip import Strip

from dirge_py.lib.text import visible, visible_name
from dirge_py.ui.ink import Ink
from dirge_py.ui.keymap import Keymap
from dirge_py.ui.panels.answer_guard import Role
from dirge_py.ui.panels.asked import paint_reach
from dirge_py.ui.panels.hint import KeyHint
from dirge_py.ui.panels.options import WORDS, Asked, Option
from dirge_py.ui.panels.sheet import Sheet
from dirge_py.ui.transcript.lines import Line, clip, strip, wrap

_STORING: Sequence[Option] = ("session", "always")

DETOURS = {
    "comment": "write a comment and deny",
    "choose_hunks": "choose hunks",
    "accept": "accept this hunk",
    "refuse": "refuse this hunk",
    "edit": "edit the file",
}
"""What Enter does once a key has selected it that is no answer itself."""


def usual_hints(asked: Asked, keymap: Keymap, *, has_others: bool) -> list[KeyHint]:
    """The keys of the question as it stands. `has_others`: more than this one are open."""
    name = keymap.name_of
    enter, comment = name("dialog", "choose"), name("dialog", "comment")
    words = f"{enter}: answer" if asked.chosen else f"select, then {enter}"
    hints = [(words, words), (f"{comment}: deny with a comment", f"{comment}: comment")]
    if asked.has_two_widths:
        width = "exact rule" if asked.is_wide else "wider rule"
        article = "the" if asked.is_wide else "a"
        key = name("dialog", "wider")
        hints.append((f"{key}: {article} {width}", f"{key}: {width.split()[0]}"))
    if asked.selection.places:
        key = name("dialog", "choose_hunks")
        hints.append((f"{key}: choose hunks", f"{key}: hunks"))
    if has_others:
        keys = "/".join(name("dialog", f"{way}_question") for way in ("previous", "next"))
        hints.append((f"{keys}: the others", f"{keys}: others"))
    return hints


def about_rules(asked: Asked, keymap: Keymap, width: int, ink: Ink) -> list[Strip]:
    """What the rules that would be stored would match, and whether wider ones are worth it."""
    strips = paint_reach(asked.reach, width, ink) if asked.reach else []
    if asked.request.alike and asked.has_two_widths and not asked.is_wide:
        key = keymap.name_of("dialog", "wider")
        words = f"{asked.request.alike} like it were allowed one by one; {key}: a rule for all"
        indent: Line = [("  ", ink.text)]
        strips += wrap([(words, ink.warning)], width, first=indent, rest=indent)
    return strips


def paint_others(
    questions: Sequence[Asked], at: int, room: tuple[int, int], ink: Ink
) -> Sequence[Strip]:
    """The questions that are not shown, a line each; `room` is rows and columns."""
    rows, width = room
    others = [number for number in range(len(questions)) if number != at]
    first = max(0, min(at - rows // 2, len(others) - rows))
    return [
        strip(_other(number, questions[number], width, ink))
        for number in others[first : first + rows]
    ]


def _other(number: int, asked: Asked, width: int, ink: Ink) -> Line:
    marks = {"allow": ("✓", ink.good), "deny": ("⊘", ink.warning)}
    mark, style = marks.get(asked.answer.effect if asked.answer else "", ("?", ink.dim))
    words = f"{number + 1} {visible_name(asked.request.tool_name)} {visible(asked.subject)}"
    return [(f"{mark} ", style), (clip(words, max(1, width - 2)), ink.dim)]


def flat_menu(
    options: Sequence[Option],
    keymap: Keymap,
    style_of: Callable[[Option], Style],
    width: int,
    ink: Ink,
) -> list[Strip]:
    """The options side by side, for a screen with few rows."""
    flat: Line = []
    for option in options:
        key = keymap.name_of("dialog", option)
        flat += [(f"{key}\u00a0{option}", style_of(option)), ("  ", ink.text)]
    return wrap(flat[:-1], width)


def words_of(option: Option, asked: Asked, key: str, *, has_rules: bool) -> str:
    """An option with its key; `has_rules`: with the rules that it would store."""
    words = f"{key} {WORDS[option]}"
    return f"{words}: {asked.rules_shown}" if has_rules and option in _STORING else words


def width_with_rules(asked: Asked) -> int:
    """Cells that the options take with the rules that they would store."""
    storing = [len(WORDS[option]) for option in asked.options if option in _STORING]
    return len("▸ x : ") + max(storing, default=0) + cell_len(asked.rules_shown)


def role_of(action: str, asked: Asked, body: Sheet, *, is_text: bool) -> Role:
    """What a key does at this question, as `DockedPanel.role_of`; `body` shows the call."""
    match action:
        case "once" | "session" | "always":
            return "select" if action in asked.options and body.seen_end else "none"
        case "deny":
            return "select" if is_text else "act"
        case "comment":
            return "select"
        case "choose_hunks":
            return "select" if asked.selection.places else "none"
        case "page_down" | "line_down" if is_text:
            return "use" if body.scroll_offset.y < body.max_scroll_y else "none"
        case "choose":
            return "confirm"
    return "act" if action else "none"
