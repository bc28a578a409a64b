"""What a program wrote to a terminal, as the text that was left on it: for whoever has no terminal.

A program that draws a whole screen of its own leaves none; a line that was written over again and
again, such as a progress bar, counts once, as it was in the end.
"""

import codecs
import re

from dirge_py.lib.text import clean

_LONGEST_LINE = 16 * 1024
"""Characters after which a line that does not end is taken as it is."""

_SCREEN_OF_ITS_OWN = re.compile(r"\x1b\[\?(?:1049|1047|47)([hl])")
_LINE_END = re.compile(r"\r+\n")


class TerminalText:
    """Takes bytes of any length as they come; what a chunk leaves unfinished waits for the next."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._begun = ""
        self._is_own_screen = False

    def feed(self, chunk: bytes) -> bytes:
        """The lines that are finished now, as UTF-8 without anything a terminal would obey."""
        text = self._begun + self._decoder.decode(chunk)
        end = text.rfind("\n") + 1
        if not end and len(text) > _LONGEST_LINE:
            end = len(text)
        self._begun = text[end:]
        return self._plain(text[:end])

    def end(self) -> bytes:
        """What is left."""
        left, self._begun = self._begun + self._decoder.decode(b"", final=True), ""
        return self._plain(left)

    def _plain(self, text: str) -> bytes:
        text = _LINE_END.sub("\n", self._outside(text))
        if "\r" in text or "\b" in text:
            text = "\n".join(map(_written_over, text.split("\n")))
        return clean(text).encode("utf-8", "replace")

    def _outside(self, text: str) -> str:
        """`text` without what was drawn on a screen of the program's own."""
        if "\x1b[?" not in text and not self._is_own_screen:
            return text
        kept: list[str] = []
        at = 0
        for switch in _SCREEN_OF_ITS_OWN.finditer(text):
            if not self._is_own_screen:
                kept.append(text[at : switch.start()])
            self._is_own_screen, at = switch[1] == "h", switch.end()
        if not self._is_own_screen:
            kept.append(text[at:])
        return "".join(kept)


def _written_over(line: str) -> str:
    """A line with carriage returns and backspaces, as it was in the end."""
    passes = line.split("\r")
    last = next((one for one in reversed(passes) if clean(one).strip()), "")
    if "\b" not in last:
        return last
    shown: list[str] = []
    for char in last:
        if char != "\b":
            shown.append(char)
        elif shown:
            shown.pop()
    return "".join(shown)
