"""What was cut, to be put back: the last of it, or one of those before."""

_MOST = 10


class KillRing:
    """The newest ten. Cuts that follow each other directly are one, as in readline and Emacs."""

    def __init__(self) -> None:
        self._cuts: list[str] = []
        self._at = 0

    def push(self, text: str, *, joins: bool, before: bool) -> None:
        """Take what was cut. `joins`: to the newest; `before`: it stood in front of the cursor."""
        if not text:
            return
        if joins and self._cuts:
            newest = self._cuts[-1]
            self._cuts[-1] = text + newest if before else newest + text
        else:
            self._cuts.append(text)
            del self._cuts[:-_MOST]
        self._at = len(self._cuts) - 1

    def yank(self) -> str:
        """The newest cut; "" if there is none."""
        self._at = len(self._cuts) - 1
        return self._cuts[-1] if self._cuts else ""

    def older(self) -> str:
        """The cut before the one that was given last; behind the oldest comes the newest."""
        if not self._cuts:
            return ""
        self._at = (self._at - 1) % len(self._cuts)
        return self._cuts[self._at]
