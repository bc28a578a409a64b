"""What one press of undo takes back: a word that was typed, a paste, a cut."""

from textual.document._edit import Edit
from textual.document._history import EditHistory

_MOST = 200
_NEVER_S = 3600.0
_LONGEST_WORD = 80


class UndoSteps(EditHistory):
    """Steps by words, whatever the pace of typing; what is longer than a character is one step."""

    def __init__(self) -> None:
        super().__init__(
            max_checkpoints=_MOST,
            checkpoint_timer=_NEVER_S,
            checkpoint_max_characters=_LONGEST_WORD,
        )
        self._was_space = False

    def record(self, edit: Edit) -> None:
        """A step begins with the first letter after a space."""
        is_space = edit.text.isspace()
        if self._was_space and edit.text and not is_space:
            self.checkpoint()
        self._was_space = is_space
        super().record(edit)
        if not edit.text and _taken(edit) > 1:
            self.checkpoint()


def _taken(edit: Edit) -> int:
    result = edit._edit_result
    return len(result.replaced_text) if result is not None else 0
