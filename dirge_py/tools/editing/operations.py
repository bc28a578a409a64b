"""What a patch asks for: an operation on each file, and hunks within one."""

from collections.abc import Sequence
from typing import Literal

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.tools.editing.plan import OneEdit

Action = Literal["create", "update", "delete", "rename"]
Sign = Literal["+", "-", " "]


@dataclass(frozen=True, slots=True)
class HunkLine:
    """A line that is added, removed, or there."""

    sign: Sign
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunk:
    """Lines that stand together, and what becomes of them.

    `anchors` are lines above them, outermost first. `at_end`: they are the last of the file. `line`
    is where they stood in the author's mind, from 1.
    """

    lines: Sequence[HunkLine]
    anchors: Sequence[str] = ()
    at_end: bool = False
    line: int | None = None

    @property
    def changes(self) -> bool:
        return any(each.sign != " " for each in self.lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation. `update` has `edits`, `hunks` or a whole new `content`, and may move too."""

    action: Action
    path: str
    content: str | None = None
    new_path: str | None = None
    edits: Sequence[OneEdit] = ()
    hunks: Sequence[Hunk] = ()

    def __str__(self) -> str:
        return f"{self.action} {self.path}" + (f" to {self.new_path}" if self.new_path else "")
