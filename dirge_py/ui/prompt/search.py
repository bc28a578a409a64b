"""Looking for an earlier prompt while typing a part of it, as readline does with Ctrl+R."""

from collections.abc import Sequence


class HistorySearch:
    """`draft` is what stood in the input before. The newest match is tried first."""

    def __init__(self, prompts: Sequence[str], draft: str) -> None:
        self._prompts = list(dict.fromkeys(reversed(prompts)))
        self.draft = draft
        self.query = ""
        self.has_failed = False
        self._at = -1

    @property
    def match(self) -> str | None:
        """The prompt that was found; None before anything was."""
        return self._prompts[self._at] if self._at >= 0 else None

    @property
    def words(self) -> str:
        """What is shown while searching."""
        failed = "no such prompt: " if self.has_failed else ""
        return f"(search) {failed}{self.query}"

    def type(self, text: str) -> None:
        """Search for more; a prompt that still matches stays."""
        self.query += text
        self._look(max(0, self._at), 1)

    def erase(self) -> None:
        """Search for less, from the newest on."""
        self.query = self.query[:-1]
        self._at = -1
        self.has_failed = False
        if self.query:
            self._look(0, 1)

    def older(self) -> None:
        self._look(self._at + 1, 1)

    def newer(self) -> None:
        self._look(self._at - 1, -1)

    def _look(self, start: int, step: int) -> None:
        """Go on to the next match; what was found stays where there is none."""
        query = self.query.casefold()
        end = len(self._prompts) if step > 0 else -1
        for at in range(start, end, step):
            if query in self._prompts[at].casefold():
                self._at, self.has_failed = at, False
                return
        self.has_failed = True
