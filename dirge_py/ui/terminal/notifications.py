"""Notifications to a person who looks elsewhere: a bell, or what the terminal or desktop shows."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from dirge_py.lib.text import clean
from dirge_py.ui.programs import ScreenPrograms

Notify = Literal["off", "bell", "desktop", "both"]
Passthrough = Literal["off", "on", "all"]

BELL = "\a"
_END = "\x1b\\"
_LONGEST = 120

_OSC_9 = ("iTerm.app", "ghostty", "WezTerm", "WarpTerminal")
_OSC_777 = ("foot", "rxvt-unicode", "contour")


def notification(title: str, body: str, environment: Mapping[str, str]) -> str:
    """The sequence by which this terminal shows a notification; "" if it is not known to."""
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
    """The sequence as tmux passes it on to the terminal around it."""
    return f"\x1bPtmux;{sequence.replace(chr(27), chr(27) * 2)}{_END}"


class Notifier:
    """Writes bells and notifications to the terminal with `write`. The caller checks the focus."""

    def __init__(
        self,
        write: Callable[[str], object],
        programs: ScreenPrograms,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self.kind: Notify = "bell"
        self._write = write
        self._programs = programs
        self._environment = environment
        self._passthrough: Passthrough | None = None

    async def call(self, title: str, body: str) -> None:
        """Ring, or show a notification, as `kind` says and the terminal can."""
        if self.kind == "off":
            return
        sequence = await self._sequence(title, body) if self.kind != "bell" else ""
        # A terminal that shows nothing can still ring; tmux drops it for a pane out of sight.
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
            known: dict[str, Passthrough] = {"on": "on", "all": "all"}
            self._passthrough = known.get((answer or "").strip(), "off")
        return "" if self._passthrough == "off" else passed_through(sequence)


def _plain(text: str) -> str:
    """One short line without anything that ends or divides a sequence."""
    line = " ".join(clean(text).replace(";", ",").split())
    return line[:_LONGEST]
