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


_SAVE_TITLE, _RESTORE_TITLE = "\x1b[22;2t", f"\x1b]2;{_END}\x1b[23;2t"
_NO_PROGRESS = f"\x1b]9;4;0{_END}"
_PROGRESS = {"working": f"\x1b]9;4;3{_END}", "asking": f"\x1b]9;4;4;100{_END}"}
_SIGNS = {"working": "● ", "compacting": "● ", "interrupting": "● ", "asking": "? "}
_FIRST_VTE = 7900
_FIRST_ITERM = (3, 6, 6)


def shows_progress(environment: Mapping[str, str]) -> bool:
    """Whether the terminal shows OSC 9;4 in its tab; others may show it as a notification."""
    program, vte = environment.get("TERM_PROGRAM", ""), environment.get("VTE_VERSION", "")
    if environment.get("TMUX") or environment.get("STY"):
        return False  # The outer terminal isn't known.
    if program == "iTerm.app":
        parts = environment.get("TERM_PROGRAM_VERSION", "").split(".")
        return tuple(int(part) for part in parts if part.isdecimal()) >= _FIRST_ITERM
    has_mark = any(name in environment for name in ("WT_SESSION", "ConEmuANSI", "KONSOLE_VERSION"))
    return has_mark or program == "ghostty" or (vte.isdecimal() and int(vte) >= _FIRST_VTE)


class TerminalStatus:
    """The title of the terminal's window and the progress in its tab.

    `write` sends a sequence now, `at_release` the one that restores the terminal.
    """

    def __init__(
        self,
        write: Callable[[str], object],
        at_release: Callable[[str], object],
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._write, self._at_release = write, at_release
        self._has_title = environment.get("TERM", "") not in ("linux", "dumb", "")
        self._has_progress = shows_progress(environment)
        self.forget()

    def forget(self) -> None:
        """Write both again at the next call, as the terminal was restored."""
        self._shown: tuple[str, str] | None = None
        self._progress = ""

    def show(self, state: str, project: str) -> None:
        """Show the state of the conversation and the name of its folder."""
        if (state, project) == self._shown or not self._has_title:
            return
        begin = _SAVE_TITLE if self._shown is None else ""
        self._shown = state, project
        name = _plain(project)
        title = f"{_SIGNS.get(state, '')}dirge{f' · {name}' if name else ''}"
        progress = _PROGRESS.get(state, "") if self._has_progress else ""
        change = (progress or _NO_PROGRESS) if progress != self._progress else ""
        self._progress = progress
        self._at_release(_RESTORE_TITLE + (_NO_PROGRESS if self._has_progress else ""))
        self._write(f"{begin}\x1b]2;{title}{_END}{change}")
