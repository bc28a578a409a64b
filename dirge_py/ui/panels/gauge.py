"""How full the context is, in figures and as a bar."""

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.text import format_count

_NEAR = 0.9
"""From this part of the way to folding on, it is said that it comes near."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """`window` is the part of the model's window that is used, in tokens; 0 where unknown.

    Above the share `fold_at` the next request is folded first; None: it never is.
    """

    used: int
    window: int
    fold_at: float | None = None

    @property
    def share(self) -> float:
        return self.used / self.window if self.window else 0.0

    @property
    def mark(self) -> str:
        """`fold!` when the next request folds old history, `fold` when that comes near."""
        if self.fold_at is None or not self.window:
            return ""
        if self.share > self.fold_at:
            return "fold!"
        return "fold" if self.share > self.fold_at * _NEAR else ""

    @property
    def words(self) -> str:
        """As `45k/200k 22%`, and the mark."""
        if not self.window:
            return format_count(self.used)
        figures = f"{format_count(self.used)}/{format_count(self.window)} {int(100 * self.share)}%"
        return f"{figures} {self.mark}".rstrip()

    def bar(self, width: int) -> str:
        """`███░░░░` in so many cells."""
        filled = round(width * min(1.0, self.share))
        return "█" * filled + "░" * (width - filled)
