"""What can be answered to one permission request, and what each answer would store."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from dirge_py.lib.text import visible_name
from dirge_py.types.questions import PermissionAnswer, PermissionRequest, Reach
from dirge_py.types.tools import FileChange
from dirge_py.ui.panels.selection import Selection

Option = Literal["once", "session", "always", "deny"]

WORDS: dict[Option, str] = {
    "once": "Allow once",
    "session": "Allow for this session",
    "always": "Allow always, in your settings",
    "deny": "Deny",
}


@dataclass(slots=True)
class Asked:
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
    selection: Selection = field(init=False)

    def __post_init__(self) -> None:
        self.is_wide = not self.request.grant and bool(self.request.wider)
        preview = self.request.preview
        self.selection = Selection(preview.changes if preview is not None else ())

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
