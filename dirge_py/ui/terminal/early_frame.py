"""The first frame of the terminal UI, painted from a cache before anything else is imported.

A start that asked no question stores its first frame: the empty transcript, the input and the
status line as they are before any setting is read. The next start paints it at once, if version,
terminal, theme and settings are the same, and the UI continues in the same picture. Until then the
terminal doesn't echo. This module reads what is typed, shows plain text in the input, and passes
every byte on to the UI.

The cache is one file, `early_frame` in the state folder, which only the user can read. It is never
needed and never trusted: it decides only what is on the screen for the first tenths of a second.
At the top of this module only what a bare interpreter has loaded is imported.
"""

import os

from dirge_py.lib.user_folders import state_folder
from dirge_py.lib.version import __version__

TYPE_CHECKING = False  # Importing `typing` would take longer than the rest.
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path
    from typing import Any

    from rich.console import Console
    from textual.geometry import Region
    from textual.strip import Strip

NAME = "early_frame"
"""The name of the file in the state folder."""
ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"
"""Switch to the alternate screen, and back."""
FLAGS = {"-c", "--continue", "-v", "--verbose", "--yolo", "--accept-all", "--restrictive"}
"""Flags of starts that show the same first frame; no frame is painted with any other argument."""
_VALUES = (
    *("TERM", "COLORTERM", "TERM_PROGRAM", "NO_COLOR", "FORCE_COLOR", "LANG", "LC_ALL", "LC_CTYPE"),
    *("STY", "TMUX", "HOME", "XDG_CONFIG_HOME", "DIRGE_CONFIG_DIR"),
)
_PREFIXES = ("TEXTUAL", "TTY_")
"""The variables that decide about colors, characters and the settings file, and their prefixes."""
_PROVIDERS = ("_API_KEY", "_BASE_URL")
"""Endings of variables without which a start may ask for a provider; only names are stored."""
_MOST_BYTES = 1 << 20
_PROJECT = ".dirge"


class Frame:
    """A first frame, and when it may be painted. Each attribute is a line of the file."""

    def __init__(
        self, *, key: str, background: str, place: str, styles: str, stamps: str, picture: str
    ) -> None:
        self.key = key
        """What `frame_key` returned."""
        self.background = background
        """The terminal's background: "dark" or "light"."""
        self.place = place
        """Row, column and columns of the input, counted from 1, separated by spaces."""
        self.styles = styles
        """The escape sequences before typed text and before the cursor, separated by a tab."""
        self.stamps = stamps
        """What `stamps_of` returned, for the files that decide about the theme or ask for trust."""
        self.picture = picture
        """The escape sequences that paint it; "" if only the background is known."""

    def encode(self) -> bytes:
        """Return the content of the file."""
        from zlib import crc32

        lines = (self.key, self.background, self.place, self.styles, self.stamps, self.picture)
        body = "\n".join(lines).encode("utf-8", "surrogateescape")
        return b"%08x\n%b" % (crc32(body), body)


def decode(content: bytes) -> Frame:
    """Return the frame of `Frame.encode`. Raises ValueError."""
    from zlib import crc32

    checksum, _, body = content.partition(b"\n")
    if checksum != b"%08x" % crc32(body):
        raise ValueError("the file is damaged")
    key, background, place, styles, stamps, picture = body.decode("utf-8", "surrogateescape").split(
        "\n", 5
    )
    return Frame(
        key=key, background=background, place=place, styles=styles, stamps=stamps, picture=picture
    )


def frame_key(size: os.terminal_size) -> str:
    """Return what must be the same so that the first frame is: version, size, environment."""
    shown = {
        name: value
        for name, value in os.environ.items()
        if name in _VALUES or name.startswith(_PREFIXES)
    }
    names = [n for n in os.environ if n.startswith("DIRGE_") or n.endswith(_PROVIDERS)]
    return ascii((__version__, tuple(size), sorted(shown.items()), sorted(names)))


def stamps_of(paths: "Iterable[str | Path]") -> str:
    """Return the state of each file, or that it is missing, and its path: separated by tabs."""
    return "\t".join(f"{_stamp(os.fspath(path))}\t{os.fspath(path)}" for path in paths)


def _stamp(path: str) -> str:
    stamp = ""
    for status_of in (os.lstat, os.stat):  # of a link, and of its target
        try:
            status = status_of(path)
        except OSError:
            return f"{stamp}-"
        stamp += f"{status.st_mtime_ns}:{status.st_size}:{status.st_ino}:"
    return stamp


def frame_of(
    rows: "Sequence[Strip]", field: "Region", console: "Console", *, background: str
) -> Frame:
    """Return the frame of these rows, whose empty input is at `field`. Without `stamps`."""
    row = rows[field.y]
    text, cursor = (row.crop(column, column + 1) for column in (field.right - 1, field.x))
    styles = (one.render(console).partition(one.text)[0] for one in (text, cursor))
    painted = (f"\x1b[{at};1H{shown.render(console)}" for at, shown in enumerate(rows, 1))
    return Frame(
        key=frame_key(os.terminal_size((row.cell_length, len(rows)))),
        background=background,
        place=f"{field.y + 1} {field.x + 1} {field.width}",
        styles="\t".join(styles),
        stamps="",
        picture="".join(painted),
    )


def store(frame: Frame, folder: "Path", *, background: str, files: "Iterable[str | Path]") -> None:
    """Write the frame to the state folder, unless it is there.

    It depends on `files`. If the terminal's background was found to be another one, the frame is
    left out, so that the next start uses that background and stores its own.
    """
    global _found
    from copy import copy

    from dirge_py.files.atomic import atomic_write
    from dirge_py.types.errors import FileError

    kept = copy(frame)
    kept.stamps = stamps_of(files)
    kept.background = background
    kept.picture = frame.picture if background == frame.background else ""
    content = kept.encode()
    if (_found is not None and _found.encode() == content) or "\n" in kept.stamps:
        return
    _found = kept
    try:
        atomic_write(folder / NAME, content, mode=0o600)
    except (FileError, OSError):
        return  # The next start is slower.


def _load(size: os.terminal_size) -> Frame | None:
    """Return the stored frame if it fits this start; None if there is none, or it is unusable."""
    try:
        path = os.path.join(state_folder(os.environ), NAME)
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if status.st_uid != os.geteuid() or status.st_mode & 0o177077 != 0o100000:
                return None  # Another user's, readable by others, or no regular file.
            frame = decode(file.read(_MOST_BYTES))
        fits = frame.key == frame_key(size) and _is_unchanged(frame.stamps)
    except (OSError, ValueError):
        return None
    return frame if fits else None


def _is_unchanged(stamps: str) -> bool:
    """Whether no stamped file has changed, and no project is here whose trust is unknown."""
    parts = stamps.split("\t")
    paths = parts[1::2]
    if any(_stamp(path) != stamp for stamp, path in zip(parts[::2], paths, strict=True)):
        return False
    folder, above = os.getcwd(), ""
    while folder != above:
        project = os.path.join(folder, _PROJECT)
        if project not in paths and os.path.lexists(project):
            return False
        folder, above = os.path.dirname(folder), folder
    return True


_found: Frame | None = None
"""The stored frame, if it fits this start or is of it."""
_shown: "EarlyFrame | None" = None
"""The frame that is on the screen, until the UI has taken it over."""


def paint(argv: "Sequence[str]") -> None:
    """Paint the stored frame if it is what this start shows first; else do nothing."""
    global _found, _shown
    if not set(argv).issubset(FLAGS) or not all(map(os.isatty, (0, 1, 2))) or _is_in_background():
        return
    import termios

    try:
        _found = _load(os.get_terminal_size(0))
        if _found is not None and _found.picture:
            _shown = EarlyFrame(_found)
            _shown.begin()
    except (OSError, termios.error):
        erase()


def _is_in_background() -> bool:
    """Whether a shell started this process in the background: it may not change the terminal."""
    try:
        return os.tcgetpgrp(0) != os.getpgrp()
    except OSError:
        return False  # The terminal controls no jobs of this session.


def shown() -> "EarlyFrame | None":
    """The frame on the screen, if one was painted and the UI has not taken it over."""
    return _shown


def was_dark() -> bool:
    """Whether the terminal's background was dark at the last start; True if that is unknown."""
    return _found is None or _found.background != "light"


def hand_over() -> None:
    """Leave the screen and the terminal's mode to the UI, which restores them from now on."""
    global _shown
    _shown = None


def erase() -> None:
    """Restore the terminal, unless the UI has it or nothing was painted."""
    frame = _shown
    hand_over()
    if frame is not None:
        frame.end()


class EarlyFrame:
    """A frame on the screen, and what is typed meanwhile. Raises OSError and `termios.error`."""

    def __init__(self, frame: Frame) -> None:
        import _thread
        import termios

        self.attributes: list[Any] = termios.tcgetattr(0)
        """The terminal's mode before, for `termios.tcsetattr`."""
        self._picture = frame.picture
        self._row, self._column, self._columns = map(int, frame.place.split())
        self._text_style, self._cursor_style = frame.styles.split("\t")
        self._typed = b""
        self._stop, self._stopping = os.pipe()
        self._reading = _thread.allocate_lock()

    def begin(self) -> None:
        """Stop the terminal's echo, paint, and start to read."""
        import _thread
        import signal
        import termios

        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _end_by_signal)
        mode = termios.tcgetattr(0)
        mode[0] &= ~(termios.IXON | termios.IXOFF | termios.ICRNL | termios.INLCR | termios.IGNCR)
        mode[3] &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN)
        mode[6][termios.VMIN] = 1
        # Ctrl+C still ends the start; the keys that would stop or quit it are for the UI.
        for key in (termios.VSUSP, termios.VQUIT):
            mode[6][key] = bytes((os.fpathconf(0, "PC_VDISABLE"),))
        termios.tcsetattr(0, termios.TCSANOW, mode)
        # Pasted lines must not arrive as keys, as Enter would send them.
        _write(f"{ENTER}\x1b[?25l\x1b[?2004h{self._picture}")
        _thread.start_new_thread(self._read, ())

    def take_typed(self) -> bytes:
        """Stop reading, and return what was typed until then; the rest is left to the terminal."""
        os.write(self._stopping, b".")
        with self._reading:
            return self._typed

    def end(self) -> None:
        """Restore the terminal."""
        import termios

        self.take_typed()
        try:
            _write(f"\x1b[?2004l{LEAVE}\x1b[?25h")
            termios.tcsetattr(0, termios.TCSANOW, self.attributes)
        except (OSError, termios.error):
            return  # The terminal is gone.

    def _read(self) -> None:
        from select import select

        with self._reading:
            try:
                while self._stop not in select((0, self._stop), (), ())[0]:
                    typed = os.read(0, 4096)
                    if not typed:
                        return
                    self._typed += typed
                    self._show()
            except OSError:
                return  # The terminal is gone, which the main thread notices, too.

    def _show(self) -> None:
        """Show what was typed, while it is one line of plain text."""
        text = self._typed.decode("latin-1")
        if len(text) < self._columns and all(" " <= letter <= "~" for letter in text):
            rest = " " * (self._columns - len(text) - 1)
            style, cursor = self._text_style, self._cursor_style
            _write(
                f"\x1b[{self._row};{self._column}H{style}{text}{cursor} \x1b[0m{style}{rest}\x1b[0m"
            )


def _end_by_signal(number: int, _: object) -> None:
    import signal

    erase()
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)


def _write(text: str) -> None:
    content = text.encode("utf-8", "replace")
    while content:
        content = content[os.write(2, content) :]
