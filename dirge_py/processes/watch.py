"""Watches a running command: whether it is quiet, and whether it asks the user something."""

import asyncio
import re
import time
from collections.abc import Callable

from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.text import clean
from dirge_py.processes.output import OutputCapture
from dirge_py.processes.process_tree import CommandTree

_REPORT_AGAIN_S = 5.0
_BUSY_SHARE = 0.1
_LONGEST = 400
_REPEATED = late_pattern(r"(.{1,410})\1{9}", re.DOTALL)

_QUESTION = late_pattern(
    r"""
    (?: \b(?:password|passphrase|passcode|passwd|username|login|verification\ code)\b .{0,200} :
    | \by(?:es)?\s*[/|]\s*n(?:o)?\b [^\n]{0,40}
    | \b(?:press|hit)\b .{0,30} \b(?:key|enter|return)\b [^\n]{0,40}
    | \b(?:continue|proceed|are\ you\ sure|overwrite|replace|retry|do\ you\ want|would\ you\ like)\b
      .{0,160} \? \W{0,12} (?:\(\w+\)\W{0,4})?
    ) \Z
    """,
    re.VERBOSE | re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchSettings:
    """When a watched command counts as quiet or as asking.

    A command asks if its last line is an unfinished question and for `asks_s` it neither writes nor
    uses the processor, or if it writes the same question repeatedly.
    """

    quiet_s: float = 60.0
    """Seconds without output after which it is quiet."""
    on_quiet: Callable[[str, float], None] | None = None
    """Called with the end of the output and the quiet seconds, every few seconds."""
    asks_s: float = 3.0
    """Seconds after an unfinished question when the command counts as asking."""
    look_s: float = 1.0
    """Seconds between two checks."""


class CommandWatch:
    """Watches one command. `question` is its current question, "" if there is none."""

    def __init__(
        self,
        settings: WatchSettings,
        capture: OutputCapture,
        tree: CommandTree,
        on_question: Callable[[], None],
    ) -> None:
        """`on_question` is called each time a question was found."""
        self.question = ""
        self._settings = settings
        self._capture = capture
        self._tree = tree
        self._on_question = on_question
        self._loop = asyncio.get_running_loop()
        self._seen_bytes = 0
        self._repeated = ""
        self._report_at_s = settings.quiet_s
        self._since = 0.0
        self._work_s = 0.0
        self._timer = self._loop.call_later(settings.look_s, self._look)

    def end(self) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        self._timer = self._loop.call_later(self._settings.look_s, self._look)
        if self._capture.total_bytes != self._seen_bytes:
            self._seen_bytes = self._capture.total_bytes
            self._report_at_s = self._settings.quiet_s
            self._since = 0.0
            before, self._repeated = self._repeated, repeated_question(self._capture.live_tail())
            # Twice in a row: a log may end with repeated lines.
            self._set_question(self._repeated if self._repeated == before else "")
            return
        quiet_s = self._capture.quiet_s
        if self._settings.on_quiet is not None and quiet_s >= self._report_at_s:
            self._report_at_s = quiet_s + _REPORT_AGAIN_S
            self._settings.on_quiet(self._capture.live_tail(), quiet_s)
        if self._capture.total_bytes and not self.question:
            self._look_for_question()

    def _look_for_question(self) -> None:
        question = question_at_end(self._capture.live_tail())
        if not question:
            return
        # It may be busy: some commands continue without an answer.
        now, work_s = time.monotonic(), self._tree.work_s()
        waited_s = now - self._since if self._since else 0.0
        if not self._since or work_s - self._work_s > _BUSY_SHARE * waited_s:
            self._since, self._work_s = now, work_s
        elif waited_s >= self._settings.asks_s - self._settings.look_s:
            self._set_question(question)

    def _set_question(self, question: str) -> None:
        self.question = question
        if question:
            self._on_question()


def question_at_end(text: str) -> str:
    """Return the last, unfinished line of `text` if it looks like a question, else ""."""
    return _as_question(clean(text).rpartition("\n")[2])


def repeated_question(text: str) -> str:
    """Return the question that fills the end of `text`, ten times or more, else "".

    Text between the questions, such as `Answer yes or no.`, must be the same each time.
    """
    text = clean(text)
    repeated = _REPEATED.match(text[::-1])
    if repeated is None:
        return ""
    # The longest repeated text may consist of several rounds: the first position where it begins
    # again within itself shows the length of one.
    period = (repeated[1] * 2).find(repeated[1], 1)
    if "\n" in text[-period:]:
        lines = text[-2 * period :].split("\n")[1:]
    else:
        # A round of a loop that writes no line ends may begin at any of its characters.
        turn = text[-period:]
        lines = [turn[start:] + turn[:start] for start in range(min(period, _LONGEST))]
    return max(filter(None, map(_as_question, lines)), key=_likeness, default="")


def _likeness(question: str) -> tuple[bool, bool, int, str]:
    """Return a sort key: the larger, the more the text looks like one complete question."""
    return question[-1] in "?:)]", question[0].isalnum(), len(question), question


def _as_question(line: str) -> str:
    line = line.strip()
    return line if len(line) <= _LONGEST and _QUESTION.search(line) else ""
