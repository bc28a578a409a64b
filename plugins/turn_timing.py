"""Show after each turn how long it took, and how much of that each tool took.

[plugins.turn_timing]
min_s = 5                              # no notice about turns that are shorter than this
"""

import time
from collections import Counter


def register(dirge):
    min_s = dirge.settings.get("min_s", 0)
    began = [time.monotonic()]
    in_tools = Counter()

    @dirge.on("transform_context")  # the first thing that happens in a turn
    def begin(info):
        began[0] = time.monotonic()
        in_tools.clear()

    @dirge.around_tool
    async def measure(call, proceed):
        start = time.monotonic()
        try:
            return await proceed()
        finally:
            in_tools[call.name] += time.monotonic() - start

    @dirge.on("should_stop_after_turn")  # the run waits for it, so the notice comes in time
    def tell(info):
        took_s = time.monotonic() - began[0]
        if took_s < min_s:
            return
        tools = ", ".join(f"{name} {spent_s:.1f} s" for name, spent_s in in_tools.most_common())
        dirge.notify(f"turn {info.turn} took {took_s:.1f} s" + (f" ({tools})" if tools else ""))
