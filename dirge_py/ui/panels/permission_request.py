"""What a permission question shows of a call, and the state of its answer."""

from collections.abc import Sequence
from dataclasses import field
from typing import Literal

from textual.strip import Strip

from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.text import plural, visible, visible_name
from dirge_py.types.questions import PermissionAnswer, PermissionRequest, Reach, RuleOffer
from dirge_py.ui.panels.hunk_view import ChangeSelection, FileSelection, paint_files
from dirge_py.ui.theme.styles import Styles
from dirge_py.ui.transcript.diff import is_split, paint_rows, read_diff
from dirge_py.ui.transcript.lines import Line, clip, strip, wrap

_TRAILING = late_pattern(r"[ \t]+(?=\n|\Z)")
"""Blanks at the end of a line, which are shown: behind a backslash they are part of a name."""
_SHORTEST_NAME = 24
"""Cells for each earlier call at least."""


def paint_request(
    request: PermissionRequest,
    place: str,
    width: int,
    styles: Styles,
    *,
    files: Sequence[FileSelection] = (),
) -> list[Strip]:
    """Paint the whole question; `files`, the changes of the preview, replace its text."""
    tool = (visible_name(request.tool_name), styles.tool)
    title: Line = [("Allow ", styles.heading), tool, ("?", styles.heading)]
    if place:
        title.append((f"  {place}", styles.dim))
    runs = any(claim.op == "execute" for claim in request.claims)
    places = [f"in {visible_name(request.cwd)}"] if request.cwd and runs else []
    if request.preview is not None and request.preview.note:
        places.append(request.preview.note)
    where: Line = [(f"  {', '.join(places)}", styles.dim)] if places else []
    warning: Sequence[Strip] = ()
    if request.warning:
        style = styles.error + styles.strong
        spans, mark = [(visible(request.warning), style)], ("! ", style)
        warning = wrap(spans, width, first=[mark], rest=[("  ", styles.text)])
    # On a narrow screen the folder comes last.
    is_wide = strip([*title, *where]).cell_length <= width
    return [
        *wrap([*title, *where] if is_wide else title, width),
        *warning,
        *_paint_call(request, width, styles, files),
        *_paint_reasons(request, width, styles),
        *([] if is_wide else wrap(where, width)),
    ]


def paint_reach(reach: Reach, width: int, styles: Styles) -> list[Strip]:
    """Paint which calls a rule covers; of earlier calls, their start."""
    lines = [f"This rule covers: {visible_name(reach.words)}"]
    if reach.also:
        lines.append(f"  earlier calls it covers: {_named(reach.also, width)}")
    if reach.still:
        lines.append(f"  earlier calls it doesn't cover: {_named(reach.still, width)}")
    return wrap([("\n".join(lines), styles.dim)], width, indent=("  ", styles.text))


def _named(calls: Sequence[str], width: int) -> str:
    size = max(
        _SHORTEST_NAME, (width - len("    earlier calls it doesn't cover: ")) // len(calls) - 3
    )
    return " · ".join(clip(visible(call), size) for call in calls)


def _paint_call(
    request: PermissionRequest, width: int, styles: Styles, files: Sequence[FileSelection]
) -> list[Strip]:
    preview = request.preview
    if preview is None:
        return []
    if files:
        return paint_files(files, width, styles)
    if preview.kind == "diff":
        path = wrap([(visible_name(preview.path), styles.strong + styles.text)], width)
        rows, split = read_diff(visible(preview.text)), is_split("auto", width)
        body, _ = paint_rows(rows, width, styles, is_whole=True, split=split, path=preview.path)
        return path + body
    shown = _TRAILING.sub(lambda blanks: f"<{plural(len(blanks[0]), 'space')}>", preview.text)
    return wrap([(visible(shown), styles.text)], width, indent=("│ ", styles.warning))


def _paint_reasons(request: PermissionRequest, width: int, styles: Styles) -> list[Strip]:
    strips: list[Strip] = []
    preview = request.preview
    asking = [claim for claim in request.claims if claim.effect != "allow"]
    seen = (preview.text.strip(), preview.path) if preview is not None else ()
    for claim in (asking if preview is not None else ()) or request.claims:
        line: Line = []
        if claim.resource.strip() not in seen:
            part = claim.resource if claim.op == "execute" else f"{claim.op} {claim.resource}"
            line += [(visible(part), styles.text), (" — ", styles.dim)]
        line.append((visible(claim.reason), styles.dim))
        strips += wrap(line, width, indent=("  ", styles.text))
    return strips


Option = Literal["once", "all", "session", "always", "deny"]
WORDS: dict[Option, str] = {
    "once": "Allow once",
    "all": "Allow all listed calls once",
    "session": "Allow for this session",
    "always": "Allow always, in your settings",
    "deny": "Deny",
}

STORING: Sequence[Option] = ("session", "always")


@dataclass(slots=True)
class PermissionChoice:
    """The state of one request in the dialog."""

    request: PermissionRequest
    chosen: Option | None = None
    """What Enter does; None until the person has selected something."""
    offers: list[RuleOffer] = field(init=False)
    """The rules that may be stored, the narrowest first; the user's own come last."""
    at: int = 0
    """Which of the offers is shown, and stored by "for this session" and "always"."""
    has_others: bool = False
    """Other calls of the batch are not answered yet."""
    is_read: bool = False
    """The end of the request was in view."""
    was_shown: bool = False
    """It was the shown request at some time."""
    answer: PermissionAnswer | None = None
    """The person's answer, if there is one."""
    selection: ChangeSelection = field(init=False)
    """The hunks of its changes, and which of them are accepted."""

    def __post_init__(self) -> None:
        self.offers = list(self.request.offers)
        preview = self.request.preview
        self.selection = ChangeSelection(preview.changes if preview is not None else ())

    @property
    def options(self) -> Sequence[Option]:
        storing: Sequence[Option] = STORING if self.request.can_keep else STORING[:1]
        every: Sequence[Option] = ["all"] if self.has_others else []
        return ["once", *every, *(storing if self.offers else ()), "deny"]

    @property
    def rules(self) -> Sequence[str]:
        """The rules that "for this session" and "always" would store."""
        return self.offers[self.at].rules if self.offers else ()

    @property
    def rules_shown(self) -> str:
        return ", ".join(visible_name(rule) for rule in self.rules)

    @property
    def reach(self) -> Reach | None:
        """The calls those rules would allow."""
        return self.offers[self.at].reach if self.offers else None

    @property
    def next_rules(self) -> str:
        """The rules that would be shown next, "" if there are no others."""
        if len(self.offers) < 2:
            return ""
        rules = self.offers[(self.at + 1) % len(self.offers)].rules
        return ", ".join(visible_name(rule) for rule in rules)

    def use_own_rules(self, offer: RuleOffer) -> None:
        """Show rules that the person wrote."""
        self.offers = [*self.request.offers, offer]
        self.at = len(self.offers) - 1

    def move(self, step: int) -> None:
        options = self.options
        at = options.index(self.chosen) + step if self.chosen else min(step, 0)
        self.chosen = options[at % len(options)]

    def allow(self, option: Option) -> PermissionAnswer:
        """Return the answer for this option."""
        if option == "session" or option == "always":
            rules = self.offers[self.at].rules if self.at else ()
            return PermissionAnswer(effect="allow", remember=option, rules=rules)
        return PermissionAnswer(effect="allow")

    @property
    def subject(self) -> str:
        """The command, path or other resource of the call."""
        preview = self.request.preview
        if preview is not None and preview.kind != "diff":
            return preview.text
        paths = [file.path for file in self.selection.files] or [preview.path if preview else ""]
        if paths[0]:
            return paths[0] + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")
        return next((claim.resource for claim in self.request.claims), "")
