"""What a command wrote since somebody last looked."""

from dataclasses import replace

from dirge_py.processes.output import BoundedOutput, Capture, begun_character


class Unread:
    """New output in bounded memory: its beginning and its end, whole characters only."""

    def __init__(self, begun: bytes = b"") -> None:
        """`begun` is the beginning of a character of which the rest is still to come."""
        self._begin(begun)

    @property
    def size(self) -> int:
        """Bytes that `take` would give now."""
        return self._capture.total_bytes - len(self._begun)

    def feed(self, chunk: bytes) -> None:
        self._capture.feed(chunk)

    def take(self, *, is_over: bool) -> BoundedOutput:
        """What is new; after that nothing is, until more comes.

        Half a character at the end stays here for next time, unless there will be none.
        """
        output, begun = split_whole(self._capture.finish())
        if is_over:
            output, begun = self._capture.finish(), b""
        self._begin(begun)
        return output

    def _begin(self, begun: bytes) -> None:
        self._begun = begun
        self._capture = Capture()
        self._capture.feed(begun)


def split_whole(output: BoundedOutput) -> tuple[BoundedOutput, bytes]:
    """`output` up to its last whole character, and what is begun of the next one."""
    begun = begun_character(output.tail or output.head)
    if not begun:
        return output, b""
    total_bytes = output.total_bytes - len(begun)
    if output.tail:
        return replace(output, tail=output.tail[: -len(begun)], total_bytes=total_bytes), begun
    return replace(output, head=output.head[: -len(begun)], total_bytes=total_bytes), begun
