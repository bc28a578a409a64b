"""Helpers for tests of recordings."""

import asyncio
from pathlib import Path

from dirge_py.providers.replay import CUT, RecordedExchange, read_recording


async def over(file: Path) -> list[RecordedExchange]:
    """The exchanges of a recording once all have ended.

    That is some moments after the last word: the end of a body is read by the way.
    """
    never = asyncio.get_running_loop().create_future()
    for _ in range(2000):
        exchanges = list(read_recording(str(file)))
        if all(exchange.end != CUT for exchange in exchanges):
            return exchanges
        await asyncio.wait([never], timeout=0.005)
    raise AssertionError(file.read_text())
