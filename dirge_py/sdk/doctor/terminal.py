"""Checks of the terminal: by its environment, by its own answers, and by the settings of tmux."""

import contextlib
import os
import re
import select
import signal
import termios
import time
import tty
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

from dirge_py.files.atomic import atomic_write
from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.processes.programs import run_program
from dirge_py.sdk.doctor.report import CheckResult, failed, passed, skipped, warn
from dirge_py.types.errors import ProcessError

LIMIT_S = 0.2
SAMPLES: Mapping[str, int] = {"漢": 2, "é": 1, "👍🏽": 2, "⚙": 1}
"""Texts whose width terminals disagree about, and the columns they should take."""
MODES = {
    2026: ("synchronized output", "the screen may flicker while it scrolls"),
    1004: (
        "focus reports",
        "without them dirge cannot tell when you look away, so it never notifies you",
    ),
    2004: (
        "bracketed paste",
        "without it, line breaks in pasted text send the prompt; attach files with @",
    ),
}
"""The modes dirge uses, by DECRQM's numbers, and what happens without each."""
_KNOWN_TO_TMUX = (1004, 2004)
"""Modes that every tmux in use has; only newer ones answer when asked."""
_KITTY = "\x1b[?u"
_CAN_SET_CLIPBOARD = "\x1bP+q4d73\x1b\\"
_WHAT_ARE_YOU = "\x1b[c"
_WHERE = "\x1b[6n"
_ANSWERED = late_pattern(rb"\x1b\[\?([\d;]*)c")
_ENDING = (signal.SIGTERM, signal.SIGHUP)
_TMUX_LIMIT_S = 1.0
_SLOW_ESCAPE_MS = 50
Show = Callable[[str], str]
"""The value of one of tmux's options; empty for one it does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalAnswers:
    """The answers of a terminal about itself."""

    attributes: tuple[int, ...] | None
    """Its primary device attributes; None if it did not answer in time."""
    has_kitty_keys: bool = False
    """Whether it supports the kitty keyboard protocol."""
    modes: Mapping[int, int]
    """The states of the modes by DECRQM's numbers; 0 for unknown."""
    sets_clipboard: bool = False
    """Whether it can set the clipboard."""
    widths: Mapping[str, int]
    """The columns that the samples took."""


def ask_terminal(
    input_fd: int, output_fd: int, *, is_simple: bool = False, limit_s: float = LIMIT_S
) -> TerminalAnswers:
    """Query the terminal, and wait at most `limit_s`. Its modes are always restored.

    Input that was typed before is lost. `is_simple`: send only queries that every terminal
    understands, since some print the others. Raises OSError: this is not a terminal, or it is gone.
    """
    with _raw(input_fd):
        asked = "".join(f"\r{sample}{_WHERE}" for sample in SAMPLES) + "\r\x1b[K"
        if not is_simple:
            asked += _KITTY + "".join(f"\x1b[?{mode}$p" for mode in MODES) + _CAN_SET_CLIPBOARD
        # Answers come in order and every terminal answers this one, so it ends the wait.
        os.write(output_fd, (asked + _WHAT_ARE_YOU).encode())
        return read_answers(_read_terminal(input_fd, limit_s))


def read_answers(received: bytes) -> TerminalAnswers:
    """Parse the answers."""
    end = _ANSWERED.search(received)
    numbers = end[1].split(b";") if end else []
    modes = re.findall(rb"\x1b\[\?(\d{1,5});(\d)\$y", received)
    columns = [int(column) - 1 for column in re.findall(rb"\x1b\[\d{1,5};(\d{1,5})R", received)]
    return TerminalAnswers(
        attributes=tuple(int(number) for number in numbers if number.isdigit()) if end else None,
        has_kitty_keys=bool(re.search(rb"\x1b\[\?\d{1,3}u", received)),
        modes={int(mode): int(state) for mode, state in modes},
        sets_clipboard=bool(re.search(rb"\x1bP1\+r4[dD]73", received)) or b"52" in numbers[1:],
        widths=dict(zip(SAMPLES, columns, strict=False)) if len(columns) == len(SAMPLES) else {},
    )


def _read_terminal(input_fd: int, limit_s: float) -> bytes:
    received, end = b"", time.monotonic() + limit_s
    while not _ANSWERED.search(received):
        left_s = end - time.monotonic()
        if left_s <= 0 or not select.select([input_fd], [], [], left_s)[0]:
            break
        piece = os.read(input_fd, 4096)
        if not piece:
            break
        received += piece
    return received


@contextlib.contextmanager
def _raw(descriptor: int) -> Iterator[None]:
    """Raw mode without echo; a signal that ends the program restores the terminal first."""
    try:
        before = termios.tcgetattr(descriptor)
    except termios.error as error:
        raise OSError(*error.args) from error

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    ending: Sequence[signal.Signals] = [
        number for number in _ENDING if signal.getsignal(number) is signal.SIG_DFL
    ]
    for number in ending:
        signal.signal(number, leave)
    try:
        tty.setraw(descriptor, termios.TCSAFLUSH)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSAFLUSH, before)
        for number in ending:
            signal.signal(number, signal.SIG_DFL)


_SMALLEST, _COMFORTABLE = (20, 5), (40, 12)


def is_simple(environment: Mapping[str, str]) -> bool:
    """Whether the terminal prints queries that it does not understand."""
    term = environment.get("TERM", "")
    return term in ("linux", "dumb", "") or environment.get("TERM_PROGRAM") == "Apple_Terminal"


def check_terminal(
    environment: Mapping[str, str], size: tuple[int, int] | None
) -> Iterator[CheckResult]:
    """Check the terminal by the environment. `size`: columns and rows, None without a terminal."""
    yield _kind(environment) if size or environment.get("TERM") else skipped("terminal", "none")
    yield _size(size)
    yield _locale(environment)
    yield _colours(environment)
    yield from _around(environment)


def check_terminal_answers(
    answers: TerminalAnswers | None, environment: Mapping[str, str]
) -> Iterator[CheckResult]:
    """Check the terminal by its answers; None: it was not queried."""
    if answers is None:
        yield skipped("answers", "no terminal to query for keys, modes and widths")
        return
    if answers.attributes is None:
        yield warn("answers", "the terminal didn't answer within 200 ms; keys and widths unknown")
        return
    yield _kitty(answers, environment)
    if not is_simple(environment):
        for mode, (name, loss) in MODES.items():
            if answers.modes.get(mode, 0) in (1, 2, 3):
                yield passed(name, "known")
            elif environment.get("TMUX") and mode in _KNOWN_TO_TMUX:
                yield passed(name, "known to every tmux, though this one doesn't say so")
            else:
                yield warn(name, f"not known: {loss}", "use another terminal, or tmux 3.4 or newer")
        claim = "supports OSC 52"
        if not answers.sets_clipboard:
            claim = "doesn't say whether it supports OSC 52; try /copy"
        yield passed("clipboard", f"the terminal {claim}")
    yield _widths(answers)


def _kind(environment: Mapping[str, str]) -> CheckResult:
    term = environment.get("TERM", "")
    program = environment.get("TERM_PROGRAM", "")
    if term in ("", "dumb"):
        return failed("terminal", f"TERM is {term or 'not set'}", "export TERM=xterm-256color")
    return passed("terminal", f"{term}{f', {program}' if program else ''}")


def _size(size: tuple[int, int] | None) -> CheckResult:
    if size is None:
        return skipped("size", "no terminal")
    words = f"{size[0]}×{size[1]}"
    if size[0] < _SMALLEST[0] or size[1] < _SMALLEST[1]:
        return failed("size", words, "make it at least 20×5")
    if size[0] < _COMFORTABLE[0] or size[1] < _COMFORTABLE[1]:
        return warn("size", f"{words}: you have to scroll in questions", "make it at least 40×12")
    return passed("size", words)


def _locale(environment: Mapping[str, str]) -> CheckResult:
    names = ("LC_ALL", "LC_CTYPE", "LANG")
    name = next((name for name in names if environment.get(name)), "")
    value = environment.get(name, "")
    if value.lower().replace("-", "").endswith("utf8"):
        return passed("locale", f"{name}={value}")
    words = f"{name}={value} is not UTF-8" if name else "LC_ALL, LC_CTYPE and LANG are not set"
    return warn("locale", words, "export LANG=C.UTF-8")


def _colours(environment: Mapping[str, str]) -> CheckResult:
    term = environment.get("TERM", "")
    if environment.get("NO_COLOR"):
        return passed("colors", "none, because NO_COLOR is set")
    if environment.get("COLORTERM") in ("truecolor", "24bit") or term.endswith("-direct"):
        return passed("colors", "16 million")
    if "256" in term or "kitty" in term or "ghostty" in term:
        fix = "export COLORTERM=truecolor, if the terminal has 24-bit colors (most do)"
        return warn("colors", "256: themes use the nearest colors", fix)
    return warn("colors", "16: themes look different", "export TERM=xterm-256color")


def _around(environment: Mapping[str, str]) -> Iterator[CheckResult]:
    """Check the layers around the terminal: ssh, screen, VTE, WSL."""
    if environment.get("SSH_CONNECTION") or environment.get("SSH_TTY"):
        yield passed("ssh", "copying goes through the terminal (OSC 52), unverified")
    if environment.get("STY") and not environment.get("TMUX"):
        fix = "use tmux 3.3 or newer; or send new lines with Ctrl+J"
        yield warn("screen", "GNU screen: no extended keys, no synchronized output", fix)
    if environment.get("VTE_VERSION") and not environment.get("TMUX"):
        fix = "install wl-clipboard or xclip; over ssh: `/copy --file`, or Alt+M and select"
        yield warn("vte", "terminals of this kind take no clipboard from programs (OSC 52)", fix)
    if environment.get("WSL_DISTRO_NAME"):
        yield passed("wsl", "copying goes through clip.exe")


def _kitty(answers: TerminalAnswers, environment: Mapping[str, str]) -> CheckResult:
    if answers.has_kitty_keys:
        return passed("keys", "the kitty keyboard protocol: every key arrives")
    lost = "no kitty keyboard protocol: Shift+Enter is Enter, Ctrl+Enter is lost"
    if environment.get("TMUX"):
        return passed("keys", f"{lost}; tmux's extended-keys may still send them")
    return warn("keys", lost, "new lines with Ctrl+J or Alt+Enter; or use kitty, Ghostty, foot")


def _widths(answers: TerminalAnswers) -> CheckResult:
    if not answers.widths:
        return skipped("widths", "the terminal doesn't report its cursor position")
    odd = [
        f"{sample} takes {answers.widths[sample]} columns, not {wide}"
        for sample, wide in SAMPLES.items()
        if answers.widths[sample] != wide
    ]
    if not odd:
        return passed("widths", "wide characters and emoji have the expected width")
    fix = "set ambiguous characters to narrow and Unicode to its newest version in the terminal"
    return warn("widths", "; ".join(odd), fix)


def check_tmux(environment: Mapping[str, str], show: Show | None = None) -> Iterator[CheckResult]:
    """Check tmux and its options, if the terminal is in tmux."""
    if not environment.get("TMUX"):
        return
    try:
        version = run_program(("tmux", "-V"), limit_s=_TMUX_LIMIT_S).out.decode().strip()
        yield passed("tmux", version)
        yield from _check_options(show or _show_option)
    except ProcessError as error:
        yield skipped("tmux", error.message)


_TMUX_OPTIONS = (
    ("extended-keys", ("on", "always"), "Shift+Enter and others arrive as Enter", "-s {} on"),
    ("set-clipboard", ("on", "external"), "copied text stays in tmux", "-s {} on"),
    ("allow-passthrough", ("on", "all"), "desktop notifications do not get through", "-g {} on"),
    (
        "focus-events",
        ("on",),
        "dirge cannot tell when you look away, so it never notifies you",
        "-g {} on",
    ),
)
"""Each option of tmux with its good values, what is lost without them, and how to set it."""


def _check_options(show: Show) -> Iterator[CheckResult]:
    for option, good, lost, setting in _TMUX_OPTIONS:
        value, line = show(option), f"set {setting.format(option)}"
        if value:
            yield _option(option, value, f"{value}: {lost}", line, is_good=value in good)
        else:
            yield warn(option, f"unknown to this tmux: {lost}", "use tmux 3.3 or newer")
    delay = show("escape-time")
    words, line = f"{delay} ms: every Esc is delayed", "set -sg escape-time 10"
    is_good = not (delay.isdecimal() and int(delay) > _SLOW_ESCAPE_MS)
    yield _option("escape-time", f"{delay or 'unknown'} ms", words, line, is_good=is_good)
    term = show("default-terminal")
    words, line = f"{term or 'unknown'}: few colors", 'set -g default-terminal "tmux-256color"'
    is_good = re.match(r"(tmux|screen)-(256color|direct)", term) is not None
    yield _option("default-terminal", term, words, line, is_good=is_good)
    features = show("terminal-features") + show("terminal-overrides")
    words, line = "tmux uses 256 colors", 'set -as terminal-features ",*:RGB"'
    is_good = re.search(r"\bRGB\b|\bTc\b", features) is not None
    yield _option("24-bit colors", "passed on", words, line, is_good=is_good)


def _option(name: str, good: str, bad: str, line: str, *, is_good: bool) -> CheckResult:
    """The result for one option of tmux; `line` of `~/.tmux.conf` sets it."""
    if is_good:
        return passed(name, good)
    return warn(name, bad, f"put `{line}` into ~/.tmux.conf", tmux_line=line)


def missing_lines(findings: Iterator[CheckResult] | list[CheckResult]) -> list[str]:
    """The lines of `~/.tmux.conf` that fix the findings."""
    return [finding.tmux_line for finding in findings if finding.tmux_line]


def append_lines(lines: list[str], home: Path) -> Path | None:
    """Add lines at the end of `~/.tmux.conf`; returns the copy of the old file, if there was one.

    Raises FileError: it can't be written; then nothing has changed.
    """
    settings = home / ".tmux.conf"
    try:
        before = settings.read_bytes()
    except FileNotFoundError:
        before = b""
    copy = None
    if before:
        copy, number = home / ".tmux.conf.before-dirge", 1
        while os.path.lexists(copy):
            number += 1
            copy = home / f".tmux.conf.before-dirge{number}"
        atomic_write(copy, before, mode=0o600)
    gap = b"" if not before or before.endswith(b"\n") else b"\n"
    added = "\n".join(["# for dirge", *lines]) + "\n"
    atomic_write(settings, before + gap + added.encode())
    return copy


def _show_option(option: str) -> str:
    ended = run_program(("tmux", "show", "-gv", option), limit_s=_TMUX_LIMIT_S)
    return ended.out.decode(errors="replace").strip() if ended.code == 0 else ""
