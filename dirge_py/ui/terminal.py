"""What Textual's reader of terminal input should know and does not, yet."""

from enum import Enum
from typing import Any, cast

from textual import constants
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS

_ESCAPE_DELAY_S = 0.03
"""How long a lone Esc waits for more: terminals send sequences in one piece, people do not."""


class _MoreKeys(Enum):
    ALT_ENTER = "alt+enter"


def teach_keys() -> None:
    """Make Esc quick, and Alt+Enter known where the terminal has no extended keyboard protocol."""
    vars(constants)["ESCAPE_DELAY"] = _ESCAPE_DELAY_S
    known = cast("dict[str, Any]", ANSI_SEQUENCES_KEYS)
    known["\x1b\r"] = known["\x1b\n"] = (_MoreKeys.ALT_ENTER,)
