"""One permission request as lines: the call in full, what about it asks, its possible answers."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from textual.strip import Strip

from dirge_py.lib.text import visible, visible_name
from dirge_py.types.questions import AskedClaim, PermissionAnswer, PermissionRequest, Reach
from dirge_py.types.tools import FileChange
from dirge_py.ui.panels.file_changes import ChangeSelection, FileSelection, paint_files
from dirge_py.ui.theme.styles import Styles
from dirge_py.ui.transcript.diff import paint_diff
from dirge_py.ui.transcript.lines import Line, clip, strip, wrap

_TRAILING = re.compile(r"[ \t]+(?=\n|\Z)")
"""Blanks at the end of a line, which nobody sees: after a backslash they are part of a name."""
_SHORTEST_NAME = 24
"""Cells of an earlier call that are shown at least."""


def paint_request(
    request: PermissionRequest,
    place: str,
    width: int,
    styles: Styles,
    *,
    files: Sequence[FileSelection] = (),
) -> list[Strip]:
    """The question as lines. Nothing is cut, and what would not be seen is spelled out.

    `files` are the preview's changes; they are shown instead of its text, which may be shortened.
    """
    title: Line = [
        ("Allow ", styles.text),
        (visible_name(request.tool_name), styles.tool),
        ("?", styles.text),
    ]
    if place:
        title.append((f"  {place}", styles.text))
    runs = any(claim.op == "execute" for claim in request.claims)
    places = [f"in {visible_name(request.cwd)}"] if request.cwd and runs else []
    if request.preview is not None and request.preview.note:
        places.append(request.preview.note)
    where: Line = [(f"  {', '.join(places)}", styles.dim)] if places else []
    # On a narrow screen what is asked comes first, the folder last.
    is_wide = strip([*title, *where]).cell_length <= width
    return [
        *wrap([*title, *where] if is_wide else title, width),
        *_paint_warning(request.warning, width, styles),
        *_paint_call(request, width, styles, files),
        *_paint_reasons(request, width, styles),
        *([] if is_wide else wrap(where, width)),
    ]


def paint_reach(reach: Reach, width: int, styles: Styles) -> list[Strip]:
    """What the rules that would be stored let pass. Earlier calls are named by their beginning."""
    indent: Line = [("  ", styles.text)]
    lines = [f"would match: {visible_name(reach.words)}"]
    if reach.also:
        lines.append(f"  also, of this session: {_named(reach.also, width)}")
    if reach.still:
        lines.append(f"  but not: {_named(reach.still, width)}")
    rows = [[(line, styles.dim)] for line in lines]
    return [part for row in rows for part in wrap(row, width, first=indent, rest=indent)]


def _named(calls: Sequence[str], width: int) -> str:
    room = max(_SHORTEST_NAME, (width - len("    also, of this session: ")) // len(calls) - 3)
    return " · ".join(clip(visible(call), room) for call in calls)


def _paint_warning(warning: str, width: int, styles: Styles) -> list[Strip]:
    if not warning:
        return []
    mark: Line = [("! ", styles.error + styles.strong)]
    rest: Line = [("  ", styles.text)]
    return wrap([(visible(warning), styles.error + styles.strong)], width, first=mark, rest=rest)


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
        return [
            *path,
            *paint_diff(visible(preview.text), width, styles, is_whole=True, layout="auto"),
        ]
    side: Line = [("│ ", styles.warning)]
    shown = visible(_TRAILING.sub(_counted, preview.text))
    return wrap([(shown, styles.text)], width, first=side, rest=side)


def _counted(blanks: re.Match[str]) -> str:
    return f"<{len(blanks[0])} blank{'s' * (len(blanks[0]) != 1)}>"


def _paint_reasons(request: PermissionRequest, width: int, styles: Styles) -> list[Strip]:
    """One line for each part that asks. The parts that do not are seen in the whole."""
    indent: Line = [("  ", styles.text)]
    strips: list[Strip] = []
    for claim in _asking(request):
        line: Line = []
        if not _is_shown(claim, request):
            part = claim.resource if claim.op == "execute" else f"{claim.op} {claim.resource}"
            line += [(visible(part), styles.text), (" — ", styles.dim)]
        line.append((visible(claim.reason), styles.dim))
        strips += wrap(line, width, first=indent, rest=indent)
    return strips


def _asking(request: PermissionRequest) -> Sequence[AskedClaim]:
    asking = [claim for claim in request.claims if claim.effect != "allow"]
    return asking or request.claims if request.preview is not None else request.claims


def _is_shown(claim: AskedClaim, request: PermissionRequest) -> bool:
    preview = request.preview
    if preview is None:
        return False
    return claim.resource.strip() in (preview.text.strip(), preview.path)


Option = Literal["once", "session", "always", "deny"]
WORDS: dict[Option, str] = {
    "once": "Allow once",
    "session": "Allow for this session",
    "always": "Allow always, in your settings",
    "deny": "Deny",
}


@dataclass(slots=True)
class PermissionChoice:
    """One request on its way to its answer.

    `chosen`: what Enter does; nothing, until the person has selected something. `is_wide`: what
    would be stored is the wider family of rules. `is_read`: its end was in view.
    """

    request: PermissionRequest
    chosen: Option | None = None
    is_wide: bool = False
    is_read: bool = False
    was_shown: bool = False
    answer: PermissionAnswer | None = None
    selection: ChangeSelection = field(init=False)

    def __post_init__(self) -> None:
        self.is_wide = not self.request.grant and bool(self.request.wider)
        preview = self.request.preview
        self.selection = ChangeSelection(preview.changes if preview is not None else ())

    @property
    def options(self) -> Sequence[Option]:
        found: list[Option] = ["once"]
        if self.rules:
            found += ["session", "always"] if self.request.can_keep else ["session"]
        return [*found, "deny"]

    @property
    def rules(self) -> Sequence[str]:
        """What "for this session" and "always" would store, exactly."""
        return self.request.wider if self.is_wide else self.request.grant

    @property
    def rules_shown(self) -> str:
        return ", ".join(visible_name(rule) for rule in self.rules)

    @property
    def reach(self) -> Reach | None:
        """What those rules would let pass."""
        return self.request.wider_reach if self.is_wide else self.request.grant_reach

    @property
    def has_two_widths(self) -> bool:
        """Is there a choice between the exact rules and wider ones?"""
        return bool(self.request.grant and self.request.wider)

    def move(self, step: int) -> None:
        options = self.options
        at = options.index(self.chosen) + step if self.chosen else min(step, 0)
        self.chosen = options[at % len(options)]

    def allow(
        self, option: Option, changes: tuple[FileChange, ...] | None = None
    ) -> PermissionAnswer:
        """The answer that this option is; with changes it is for this once."""
        if option == "session" or option == "always":
            return PermissionAnswer(effect="allow", remember=option, is_wide=self.is_wide)
        return PermissionAnswer(effect="allow", changes=changes)

    @property
    def subject(self) -> str:
        """What it is about, in one line."""
        preview = self.request.preview
        if preview is not None and preview.kind != "diff":
            return preview.text
        paths = [file.path for file in self.selection.files] or [preview.path if preview else ""]
        if paths[0]:
            return paths[0] + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")
        return next((claim.resource for claim in self.request.claims), "")
