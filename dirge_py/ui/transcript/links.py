"""Links of Markdown: where they go is always seen, whatever they say they are."""

import re
from urllib.parse import urlsplit

from rich.style import Style

from dirge_py.ui.ink import Ink
from dirge_py.ui.transcript.lines import Line

_SAFE = re.compile(r"https?://[!-~]{1,2000}", re.IGNORECASE)
"""What a terminal is told as a link: of a kind that opens a page, and of nothing but plain ASCII,
so that nothing in it can end the sequence it is sent in."""

_LIKE_ADDRESS = re.compile(
    r"(?:[a-z][a-z0-9+.-]*://|(?=www\.))(?:[^\s/?#@]*@)?(?P<host>[^\s/?#:@]+)\S*"
    r"|(?P<bare>(?:[\w-]+\.)+(?:com|org|net|io|dev|app|ai|co|edu|gov|info))(?:[:/?#]\S*)?",
    re.IGNORECASE,
)
"""Without a scheme only what ends like the best known hosts: `os.path` and `notes.md` are none."""


def show_link(label: Line, target: str, ink: Ink) -> Line:
    """The label as it was styled, and its target, unless that is what the label says.

    A label that looks like an address of another host is no link: only the true target is one.
    """
    text = "".join(piece for piece, _ in label).strip()
    linked = _linking(target)
    if target in (text, f"mailto:{text}"):
        return [(piece, style + linked) for piece, style in label]
    if _is_false(text, target):
        plain: Line = [(piece, ink.dim) for piece, _ in label]
        return [*plain, (" → really ", ink.warning), (target, ink.warning + linked)]
    shown: Line = [(piece, style + linked) for piece, style in label]
    return [*shown, (" (", ink.dim), (target, ink.dim + linked), (")", ink.dim)]


def _linking(target: str) -> Style:
    """What makes text a link for terminals that know of links; nothing for an unsafe target."""
    return Style(link=target) if _SAFE.fullmatch(target) else Style.null()


def _is_false(label: str, target: str) -> bool:
    """Whether the label names a host, and the target is another one."""
    named = _LIKE_ADDRESS.match(label)
    host = _host(target)
    if named is None or not host:
        return False
    told = (named["host"] or named["bare"]).lower()
    return told.removeprefix("www.") != host.removeprefix("www.")


def _host(target: str) -> str:
    try:
        return (urlsplit(target).hostname or "").lower()
    except ValueError:
        return ""
