"""The text of a body: by its mark, by what its sender says, by what it says itself."""

import codecs
import re

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_META = re.compile(
    rb"""<meta[^>]{0,200}charset\s{0,4}=\s{0,4}["']?\s{0,4}([A-Za-z0-9_:.-]{2,40})""", re.I
)
_META_BYTES = 2048

# Python knows codecs that are no character sets; some of them take quadratic time.
_CHARACTER_SETS = re.compile(
    r"utf-(?:8|16|32).*|ascii|iso8859.*|iso2022.*|cp\d+|koi8.*|gb.*|big5.*|shift.*|euc.*|mac-.*"
    r"|tis-620|hz|johab"
)


def decoded(body: bytes, charset: str = "", *, is_html: bool = False, is_whole: bool = True) -> str:
    """`body` as text; what does not fit becomes U+FFFD. `charset` is the Content-Type's.

    Of one that is not whole, half a character at its end is left off.
    """
    for mark, name in _MARKS:
        if body.startswith(mark):
            return body.decode(name, "replace")
    if is_html and not charset and (found := _META.search(body[:_META_BYTES])):
        charset = found[1].decode("ascii")
    if name := _codec(charset):
        return body.decode(name, "replace")
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        if not is_whole and error.start >= len(body) - 3:
            return body[: error.start].decode("utf-8")
        return body.decode("cp1252", "replace")


def _codec(charset: str) -> str:
    """The codec for `charset`; empty if there is none."""
    try:
        name = codecs.lookup(charset.strip("\"' ")).name if charset.strip() else ""
    except (LookupError, ValueError):
        return ""
    if name in ("ascii", "iso8859-1"):
        return "cp1252"  # what browsers take both for
    return name if _CHARACTER_SETS.fullmatch(name) else ""
