"""How far a run may go, as far as the screen tells it."""

from dirge_py.lib.lean_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """`[limits]` of each run, None being no limit, and how much of a window is used.

    `target_tokens` is the most of a larger window; old history is folded above the share `fold_at`,
    None where it never is.
    """

    cost_usd: float | None = None
    tokens: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    target_tokens: int = 250_000
    fold_at: float | None = 0.75
