"""Earlier prompts, and the draft that was being written when looking at them began."""

from collections.abc import Iterable, Sequence

_MOST = 500


class History:
    """Prompts, oldest first; the same one twice in a row is kept once."""

    def __init__(self, prompts: Iterable[str] = ()) -> None:
        self._prompts: list[str] = []
        self._at: int | None = None
        self._draft = ""
        for prompt in prompts:
            self.add(prompt)

    @property
    def prompts(self) -> Sequence[str]:
        return self._prompts

    @property
    def shown(self) -> str | None:
        """The prompt that is looked at; None when not looking back."""
        return None if self._at is None else self._prompts[self._at]

    def add(self, prompt: str) -> None:
        self._at = None
        if prompt.strip() and self._prompts[-1:] != [prompt]:
            self._prompts.append(prompt)
            del self._prompts[:-_MOST]

    def take_up(self, stored: Iterable[str], said: Iterable[str]) -> None:
        """Another conversation: what was kept of others comes first, what was said in it last."""
        newest_first = dict.fromkeys(reversed([*stored, *self._prompts, *said]))
        self._at = None
        self._prompts = [prompt for prompt in reversed(newest_first) if prompt.strip()][-_MOST:]

    def older(self, current: str) -> str | None:
        """The prompt before the one shown; `current` is kept as the draft on the first step."""
        self._keep_changed(current)
        if self._at is None:
            self._draft, self._at = current, len(self._prompts)
        if self._at == 0:
            return None
        self._at -= 1
        return self._prompts[self._at]

    def newer(self, current: str) -> str | None:
        """The prompt after the one shown, in the end the draft; None when not looking back."""
        if self._at is None:
            return None
        self._keep_changed(current)
        self._at += 1
        if self._at < len(self._prompts):
            return self._prompts[self._at]
        self._at = None
        return self._draft

    def _keep_changed(self, current: str) -> None:
        """An earlier prompt that was changed is a draft of its own, and comes back at the end."""
        if current.strip() and self.shown not in (None, current):
            self._draft = current
