"""The last look at what an approved command would run, where its call begins."""

from collections.abc import Mapping

from dirge_py.permission.questions import Judged, change_words, files_of
from dirge_py.types.tools import LoopToolResult, Proceed, ToolCall, text_result

_MOST_HELD = 256


class StartCheck:
    """Keeps a command from starting if its files changed after it was allowed.

    Between the answer and the start lie hooks, a snapshot, and a record on disk: time enough for
    something that runs beside them. Serves a conversation and its forks.
    """

    def __init__(self) -> None:
        self._held: dict[tuple[str, str], tuple[Judged, Mapping[str, str], str]] = {}

    def hold(self, judged: Judged, files: Mapping[str, str], cwd: str) -> None:
        """From now on this call starts only if `files` (see `files_of`) are as they were."""
        while len(self._held) >= _MOST_HELD:
            del self._held[next(iter(self._held))]
        if files:
            self._held[_key(judged.call)] = judged, files, cwd

    async def interceptor(self, call: ToolCall, proceed: Proceed) -> LoopToolResult:
        held = self._held.pop(_key(call), None)
        if held is None:
            return await proceed()
        judged, files, cwd = held
        changed = change_words(files, await files_of(judged), cwd)
        if not changed:
            return await proceed()
        return text_result(
            f"Not run: {changed} after the user was asked. Call it again: the user is then "
            "asked about the current files.",
            outcome="denied",
            is_error=True,
        )


def _key(call: ToolCall) -> tuple[str, str]:
    # Forks number their calls anew, so an id alone can stand for two of them.
    return call.id, repr((call.name, call.arguments))
