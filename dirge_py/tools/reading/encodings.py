"""Text that may not be UTF-8."""

import codecs
from collections.abc import Iterable

_MARKS = (
    # Longer marks first: UTF-32 begins like UTF-16.
    (codecs.BOM_UTF32_LE, "utf-32", "UTF-32"),
    (codecs.BOM_UTF32_BE, "utf-32", "UTF-32"),
    (codecs.BOM_UTF16_LE, "utf-16", "UTF-16"),
    (codecs.BOM_UTF16_BE, "utf-16", "UTF-16"),
)


def wide_encoding(head: bytes) -> tuple[str, str] | None:
    """The codec and the name of an encoding with more than one byte to a letter, by its mark."""
    return next(((codec, name) for mark, codec, name in _MARKS if head.startswith(mark)), None)


def decoded(lines: Iterable[bytes], cut: Iterable[bool]) -> tuple[list[str], bool]:
    """The lines as text, and whether all of them are UTF-8.

    One that is not is read as Windows-1252, which contains all letters of Latin-1. `cut` lines may
    end in the middle of a character.
    """
    texts: list[str] = []
    is_utf8 = True
    for line, is_cut in zip(lines, cut, strict=True):
        try:
            texts.append(codecs.getincrementaldecoder("utf-8")().decode(line, final=not is_cut))
        except UnicodeDecodeError:
            texts.append(_western(line))
            is_utf8 = False
    return texts, is_utf8


def _western(line: bytes) -> str:
    try:
        return line.decode("cp1252")
    except UnicodeDecodeError:  # five of its places stand for nothing
        return line.decode("latin-1")
