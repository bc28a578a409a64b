"""Compressed bodies, unpacked a piece at a time so that no answer can fill the memory."""

import zlib
from collections.abc import Iterator

from dirge_py.types.errors import ToolFailed

ACCEPTED = "gzip, deflate"
MAX_RATIO = 100
_HARMLESS_BYTES = 256 * 1024
_PIECE_BYTES = 64 * 1024
_GZIP, _ZLIB, _BARE = 16 + zlib.MAX_WBITS, zlib.MAX_WBITS, -zlib.MAX_WBITS
_GZIP_BEGINS = b"\x1f\x8b"


class Unpacker:
    """Undoes one `Content-Encoding`; empty is none.

    Raises:
        ToolFailed: it is none of `ACCEPTED`, or more than one.
    """

    def __init__(self, encoding: str) -> None:
        kind = encoding.strip().lower().removeprefix("x-")
        if kind not in ("", "identity", "gzip", "deflate"):
            raise ToolFailed(f"The answer is compressed as {encoding[:40]!r}, which is not read.")
        self._kind = kind
        self._stream = zlib.decompressobj(_GZIP if kind == "gzip" else _ZLIB)
        self._is_over = False
        self._taken = 0
        self._given = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """What `chunk` unpacks to, in pieces of at most 64 KiB.

        Raises:
            ToolFailed: it cannot be unpacked, or grows beyond all measure.
        """
        if self._kind in ("", "identity"):
            yield chunk
            return
        while not self._is_over:
            piece, rest = self._step(chunk)
            # What is still packed does not count yet: it would make room for what is unpacked.
            self._taken += len(chunk) - len(rest)
            self._given += len(piece)
            chunk = rest
            if not piece and not chunk:
                return
            if self._given > max(_HARMLESS_BYTES, MAX_RATIO * self._taken):
                raise ToolFailed(
                    f"The answer unpacks to more than {MAX_RATIO} times its size; it was not read."
                )
            yield piece

    def _step(self, packed: bytes) -> tuple[bytes, bytes]:
        """(a piece, what is still packed). Both are empty when more input is needed."""
        try:
            piece = self._stream.decompress(packed, _PIECE_BYTES)
        except zlib.error:
            # What is called deflate comes with a frame or without; that shows in its first bytes.
            if self._kind != "deflate" or self._given:
                raise ToolFailed("The answer is compressed, and damaged.") from None
            self._kind = "deflate without a frame"
            self._stream = zlib.decompressobj(_BARE)
            return self._step(packed)
        if not self._stream.eof:
            return piece, self._stream.unconsumed_tail
        more = self._stream.unused_data
        if self._kind == "gzip" and more.startswith(_GZIP_BEGINS):
            self._stream = zlib.decompressobj(_GZIP)
            return piece, more
        self._is_over = True
        return piece, b""
