"""The clipboard: copying text to it, and reading a picture or text from it."""

import base64
import binascii
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from dirge_py.config.paths import state_dir
from dirge_py.files.assets import asset_type
from dirge_py.files.atomic import atomic_write
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.processes.programs import find_program, run_program
from dirge_py.types.errors import DirgeError, ProcessError
from dirge_py.ui.terminal.notifications import passed_through

Wanted: TypeAlias = Literal["auto", "native", "tmux", "osc52"]
CopyResult: TypeAlias = tuple[Literal["copied", "sent", ""], str]
"""Whether the text was read back, only sent, or neither; and a sentence about it."""
LARGEST_OSC52 = 100_000
"""Bytes of base64 that all terminals accept in one sequence."""
_LIMIT_S = 1.0
_SCREEN_PIECE = 76


@dataclass(frozen=True, slots=True)
class ClipboardTool:
    """A program that sets the clipboard."""

    write: tuple[str, ...]
    """Its command."""
    read: tuple[str, ...] = ()
    """The command that reads the clipboard back, if there is one."""
    encoding: str = "utf-8"
    """The encoding of its input."""


_WAYLAND = ClipboardTool(("wl-copy",), ("wl-paste", "--no-newline"))
_X11 = (
    ClipboardTool(("xclip", "-selection", "clipboard"), ("xclip", "-o", "-selection", "clipboard")),
    ClipboardTool(("xsel", "-ib"), ("xsel", "-ob")),
)
_MACOS = ClipboardTool(("pbcopy",), ("pbpaste",))
_WSL = ClipboardTool(("clip.exe",), encoding="utf-16-le")


def last_copy_file(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the private file with the last copied text. Raises ConfigError."""
    return state_dir(environment) / "last-copy.txt"


class Clipboard:
    """Copies text to the clipboard of the desktop, tmux or the terminal, which `send` writes to."""

    def __init__(
        self,
        send: Callable[[str], None],
        *,
        wanted: Wanted = "auto",
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._send, self._wanted, self._environment = send, wanted, environment

    def copy(self, text: str, *, to_file: bool = True) -> str:
        """Copy and save `text`; return a sentence, with "Copied" only if it was read back."""
        if not text:
            return "There is nothing to copy."
        unsaved = "It isn't saved in a file, as this conversation isn't saved."
        note = self._save(text) if to_file else unsaved
        results: list[str] = []
        for attempt in self._attempts():
            done, words = attempt(text)
            results.append(words)
            if done == "copied":
                return " ".join(results)
        return " ".join([*results, note])

    def _attempts(self) -> Sequence[Callable[[str], CopyResult]]:
        """Return the ways to copy; each is tried until one is known to have worked."""
        here = self._environment
        chosen = {"native": self._by_tool, "osc52": self._by_terminal, "tmux": self._by_tmux}
        if self._wanted != "auto":
            return (chosen[self._wanted],)
        # Over SSH, programs don't reach the person's clipboard.
        is_remote = any(here.get(name) for name in ("SSH_CONNECTION", "SSH_TTY", "SSH_CLIENT"))
        ways = [self._by_tool] if native_tools(here) and not is_remote else []
        return (*ways, self._by_tmux if here.get("TMUX") else self._by_terminal)

    def _save(self, text: str) -> str:
        try:
            file = last_copy_file(self._environment)
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            atomic_write(file, text.encode("utf-8", "replace"), mode=0o600)
        except (DirgeError, OSError) as error:
            return f"It couldn't be saved in a file: {error}"
        return "`/copy --file` shows the file that has it."

    def _by_tool(self, text: str) -> CopyResult:
        known = native_tools(self._environment)
        tool = next((tool for tool in known if find_program(tool.write[0])), None)
        if tool is None:
            return "", _no_tool(known)
        encoded = text.encode(tool.encoding, "replace")
        try:
            ended = run_program(tool.write, input_bytes=encoded, limit_s=_LIMIT_S, reads=False)
            if ended.code != 0:
                return "", f"{tool.write[0]} ended with exit code {ended.code}."
            if not tool.read:
                return "sent", f"Sent to {tool.write[0]}, unverified."
            read_back = run_program(tool.read, limit_s=_LIMIT_S)
        except ProcessError as error:
            return "", error.message
        if read_back.code == 0 and read_back.out == encoded:
            return "copied", f"Copied {_size(text)} with {tool.write[0]}."
        return "", f"{tool.write[0]} did not set the clipboard."

    def _by_tmux(self, text: str) -> CopyResult:
        encoded = text.encode("utf-8", "replace")
        try:
            ended = run_program(
                ("tmux", "load-buffer", "-w", "-"), input_bytes=encoded, limit_s=_LIMIT_S
            )
            read_back = run_program(("tmux", "show-buffer"), limit_s=_LIMIT_S)
            why = ended.last_words if ended.code else "its buffer has something else"
        except ProcessError as error:
            return self._by_terminal(text, f"{error.message} ")
        if ended.code != 0 or read_back.out != encoded:
            return self._by_terminal(text, f"tmux didn't accept it: {why}. ")
        _, words = self._by_terminal(text)
        return "sent", f"Copied {_size(text)} into tmux's buffer (prefix ] pastes it). {words}"

    def _by_terminal(self, text: str, before: str = "") -> CopyResult:
        coded = base64.b64encode(text.encode("utf-8", "replace")).decode()
        if len(coded) > LARGEST_OSC52:
            return (
                "",
                f"{before}{_size(text)} is too much to copy through a terminal (limit: 100 kB).",
            )
        sequence = f"\x1b]52;c;{coded}\x07"
        if self._environment.get("TMUX"):
            self._send(passed_through(sequence))
        elif self._environment.get("STY"):
            pieces = range(0, len(sequence), _SCREEN_PIECE)
            self._send("".join(f"\x1bP{sequence[at : at + _SCREEN_PIECE]}\x1b\\" for at in pieces))
        else:
            self._send(sequence)
        if self._environment.get("VTE_VERSION") and not self._environment.get("TMUX"):
            return "", f"{before}Sent to the terminal, but terminals of this kind (VTE) ignore it."
        return "sent", f"{before}Sent to the terminal, unverified."


def native_tools(environment: Mapping[str, str]) -> Sequence[ClipboardTool]:
    """Return the programs for the clipboard of this desktop, best first; none without one."""
    if sys.platform == "darwin":
        return (_MACOS,)
    if environment.get("WSL_DISTRO_NAME") or environment.get("WSL_INTEROP"):
        return (_WSL,)  # Linux inside Windows.
    wayland = (_WAYLAND,) if environment.get("WAYLAND_DISPLAY") else ()
    return (*wayland, *(_X11 if environment.get("DISPLAY") else ()))


def _no_tool(tools: Sequence[ClipboardTool]) -> str:
    if not tools:
        return "This machine has no desktop clipboard."
    name = tools[0].write[0]
    advice = {"wl-copy": "install wl-clipboard", "xclip": "install xclip or xsel"}
    return f"No program for the clipboard: {advice.get(name, f'{name} is not on the PATH')}."


def _size(text: str) -> str:
    lines = text.count("\n") + (not text.endswith("\n"))
    return f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"


MOST_BYTES = 20 * 1024 * 1024
"""Bytes of a picture at most."""
_READ_LIMIT_S = 3.0
_WINDOWS_LIMIT_S = 10.0  # powershell.exe alone takes seconds to start
_TYPES = ("image/png", "image/jpeg", "image/webp", "image/gif")
_WINDOWS_IMAGE = (
    "Add-Type -AssemblyName System.Windows.Forms;"
    "$i=[Windows.Forms.Clipboard]::GetImage();"
    "if($i){$m=New-Object IO.MemoryStream;$i.Save($m,[Drawing.Imaging.ImageFormat]::Png);"
    "[Convert]::ToBase64String($m.ToArray())}"
)
_WINDOWS_TEXT = "[Console]::OutputEncoding=[Text.Encoding]::UTF8;Get-Clipboard -Raw"


@dataclass(frozen=True, slots=True)
class ClipboardContent:
    """The content of the clipboard."""

    image: bytes = b""
    text: str = ""
    problem: str = ""
    """Why there is neither."""


def read_clipboard(environment: Mapping[str, str] = os.environ) -> ClipboardContent:
    """Read the clipboard with the programs of this desktop, and wait for them."""
    paste = ("wl-paste", "--no-newline")
    xclip = ("xclip", "-selection", "clipboard", "-o")
    ways: list[tuple[str, Callable[[], ClipboardContent]]] = [
        ("wl-paste", lambda: _of_linux(("wl-paste", "--list-types"), paste, "--type")),
        ("xclip", lambda: _of_linux((*xclip, "-t", "TARGETS"), xclip, "-t")),
        ("pngpaste", lambda: ClipboardContent(_output("pngpaste", "-"))),
        ("osascript", _of_macos),
        ("powershell.exe", _of_windows),
    ]
    if environment.get("DISPLAY") and not environment.get("WAYLAND_DISPLAY"):
        ways[0], ways[1] = ways[1], ways[0]
    problem = ""
    for program, way in ways:
        if not find_program(program):
            continue
        try:
            clip = way()
        except ProcessError as error:
            problem = problem or error.message
            continue
        if len(clip.image) > MOST_BYTES:
            return ClipboardContent(problem="The image on the clipboard is larger than 20 MiB.")
        if clip.image and asset_type(clip.image[:32]) is None:
            clip = ClipboardContent(text=clip.text)
        if clip.image or clip.text:
            return clip
        problem = problem or "The clipboard has neither an image nor text."
    programs = "pngpaste" if sys.platform == "darwin" else "wl-clipboard or xclip"
    return ClipboardContent(problem=problem or f"Cannot read the clipboard: install {programs}.")


def _of_linux(list_types: Sequence[str], read: Sequence[str], type_flag: str) -> ClipboardContent:
    types = _output(*list_types).decode(errors="replace").split()
    if kind := next((kind for kind in _TYPES if kind in types), ""):
        return ClipboardContent(_output(*read, type_flag, kind))
    return ClipboardContent(text=_text(_output(*read)))


def _of_macos() -> ClipboardContent:
    png = re.search(
        rb"PNGf([0-9A-Fa-f]+)", _output("osascript", "-e", "get the clipboard as «class PNGf»")
    )
    if png:
        return ClipboardContent(binascii.unhexlify(png[1]))
    return ClipboardContent(text=_text(_output("pbpaste")))


def _of_windows() -> ClipboardContent:
    shell = ("powershell.exe", "-NoProfile", "-STA", "-Command")
    coded = _output(*shell, _WINDOWS_IMAGE, limit_s=_WINDOWS_LIMIT_S)
    try:
        image = base64.b64decode(coded.strip(), validate=True)
    except binascii.Error:
        image = b""
    if image:
        return ClipboardContent(image)
    return ClipboardContent(text=_text(_output(*shell, _WINDOWS_TEXT, limit_s=_WINDOWS_LIMIT_S)))


def _output(*arguments: str, limit_s: float = _READ_LIMIT_S) -> bytes:
    """Return the program's output; b"" if it fails, as it does on an empty clipboard."""
    ended = run_program(arguments, limit_s=limit_s)
    return ended.out if ended.code == 0 else b""


def _text(output: bytes) -> str:
    return output.decode("utf-8", "replace").replace("\r\n", "\n")
