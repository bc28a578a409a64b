"""What lies on the desktop's clipboard: a picture if there is one, else text."""

import base64
import binascii
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence

from dirge_py.files.assets import asset_type
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.processes.programs import find_program, run_program
from dirge_py.types.errors import ProcessError

MOST_BYTES = 20 * 1024 * 1024
"""Bytes taken of a picture."""

_LIMIT_S = 3.0
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
class Clip:
    """What was there; `problem` says why nothing can be known."""

    image: bytes = b""
    text: str = ""
    problem: str = ""


def read_clipboard(environment: Mapping[str, str] = os.environ) -> Clip:
    """What lies on the clipboard, by the programs that this desktop has. Waits for them."""
    ways: list[tuple[str, Callable[[], Clip]]] = [
        ("wl-paste", _of_wayland),
        ("xclip", _of_x11),
        ("pngpaste", _of_pngpaste),
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
            return Clip(problem="The picture on the clipboard is larger than 20 MiB.")
        if clip.image and asset_type(clip.image[:32]) is None:
            clip = Clip(text=clip.text)
        if clip.image or clip.text:
            return clip
        problem = problem or "There is neither a picture nor text on the clipboard."
    return Clip(problem=problem or f"There is no program here that reads it: {_missing()}.")


def _missing() -> str:
    return "pngpaste" if sys.platform == "darwin" else "wl-paste (wl-clipboard) or xclip"


def _of_wayland() -> Clip:
    kind = _best(_asked("wl-paste", "--list-types").decode(errors="replace").split())
    if kind:
        return Clip(_asked("wl-paste", "--no-newline", "--type", kind))
    return Clip(text=_text(_asked("wl-paste", "--no-newline")))


def _of_x11() -> Clip:
    xclip = ("xclip", "-selection", "clipboard", "-o")
    kind = _best(_asked(*xclip, "-t", "TARGETS").decode(errors="replace").split())
    if kind:
        return Clip(_asked(*xclip, "-t", kind))
    return Clip(text=_text(_asked(*xclip)))


def _of_pngpaste() -> Clip:
    return Clip(_asked("pngpaste", "-"))


def _of_macos() -> Clip:
    told = _asked("osascript", "-e", "get the clipboard as «class PNGf»")
    found = re.search(rb"PNGf([0-9A-Fa-f]+)", told)
    if found:
        return Clip(binascii.unhexlify(found[1]))
    return Clip(text=_text(_asked("pbpaste")))


def _of_windows() -> Clip:
    shell = ("powershell.exe", "-NoProfile", "-STA", "-Command")
    told = _asked(*shell, _WINDOWS_IMAGE, limit_s=_WINDOWS_LIMIT_S)
    try:
        image = base64.b64decode(told.strip(), validate=True)
    except binascii.Error:
        image = b""
    return Clip(image) if image else Clip(text=_text(_asked(*shell, _WINDOWS_TEXT, limit_s=10)))


def _asked(*arguments: str, limit_s: float = _LIMIT_S) -> bytes:
    """What the program writes; nothing if it fails, as it does where there is nothing."""
    ended = run_program(arguments, limit_s=limit_s)
    return ended.out if ended.code == 0 else b""


def _best(kinds: Sequence[str]) -> str:
    return next((kind for kind in _TYPES if kind in kinds), "")


def _text(told: bytes) -> str:
    return told.decode("utf-8", "replace").replace("\r\n", "\n")
