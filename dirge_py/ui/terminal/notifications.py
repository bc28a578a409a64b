"""Notifications to a person who looks elsewhere: a bell, or a message on the desktop."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from dirge_py.lib.text import clean
from dirge_py.ui.programs import ScreenPrograms

Notify = Literal["off", "bell", "desktop", "both"]

BELL = "\a"
_END = "\x1b\\"
_LONGEST = 120

_OSC_9 = ("iTerm.app", "ghostty", "WezTerm", "WarpTerminal")
_OSC_777 = ("foot", "rxvt-unicode", "contour")


def notification(title: str, body: str, environment: Mapping[str, str]) -> str:
    """Return the sequence for a notification of this terminal; "" if none is known."""
    title, body = _plain(title), _plain(body)
    terminal, program = environment.get("TERM", ""), environment.get("TERM_PROGRAM", "")
    program = environment.get("LC_TERMINAL") or program
    if "KITTY_WINDOW_ID" in environment or terminal.startswith("xterm-kitty"):
        return f"\x1b]99;;{title}: {body}{_END}"
    own_marks = ("ITERM_SESSION_ID", "GHOSTTY_RESOURCES_DIR", "WEZTERM_PANE")
    if program in (*_OSC_9, "iTerm2") or any(name in environment for name in own_marks):
        return f"\x1b]9;{title}: {body}{_END}"
    if terminal.startswith(_OSC_777):
        return f"\x1b]777;notify;{title};{body}{_END}"
    return ""


def passed_through(sequence: str) -> str:
    """Return the sequence wrapped so that tmux passes it to the outer terminal."""
    return f"\x1bPtmux;{sequence.replace(chr(27), chr(27) * 2)}{_END}"


class Notifier:
    """Writes bells and notifications to the terminal; the caller checks the focus."""

    def __init__(
        self,
        write: Callable[[str], object],
        programs: ScreenPrograms,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self.kind: Notify = "bell"
        self._write, self._programs, self._environment = write, programs, environment
        self._passthrough: str | None = None

    async def call(self, title: str, body: str) -> None:
        """Ring or show a notification, depending on `kind` and the terminal."""
        if self.kind == "off":
            return
        sequence = await self._sequence(title, body) if self.kind != "bell" else ""
        # The bell is the fallback, also as tmux may drop the sequence of a hidden pane.
        needs_bell = not sequence or self.kind == "both" or self._passthrough == "on"
        self._write(sequence + (BELL if needs_bell else ""))

    async def _sequence(self, title: str, body: str) -> str:
        environment = self._environment
        sequence = notification(title, body, environment)
        if not environment.get("TMUX"):
            return "" if environment.get("TERM", "").startswith("screen") else sequence
        if not sequence:
            return ""
        if self._passthrough is None:
            words = ["-S", environment["TMUX"].partition(",")[0], "show-options", "-Apqv"]
            if pane := environment.get("TMUX_PANE"):
                words += ["-t", pane]
            answer = await self._programs.ask("tmux", *words, "allow-passthrough", cwd=Path.cwd())
            self._passthrough = (answer or "").strip()
        return passed_through(sequence) if self._passthrough in ("on", "all") else ""


def _plain(text: str) -> str:
    """Return one short line without control characters and `;`."""
    return " ".join(clean(text).replace(";", ",").split())[:_LONGEST]
