"""Helpers for tests of recordings."""

import asyncio
from pathlib import Path

from dirge_py.providers.replay import CUT, RecordedExchange, read_recording


async def finished_exchanges(file: Path) -> list[RecordedExchange]:
    """Wait until all exchanges of a recording have ended; return them.

    The end of a body is recorded a moment after its last event.
    """
    never = asyncio.get_running_loop().create_future()
    for _ in range(2000):
        exchanges = list(read_recording(str(file)))
        if all(exchange.end != CUT for exchange in exchanges):
            return exchanges
        await asyncio.wait([never], timeout=0.005)
    raise AssertionError(file.read_text())
