"""Ring when a long run is over, so that you need not watch it.

Terminals that know OSC 9 (iTerm2, kitty, WezTerm, Windows Terminal, Ghostty) show a notification,
all others ring the bell. Nothing is written where stderr is no terminal.

[plugins.notify]
after_s = 20                           # no notification after shorter runs
"""

import os
import time

STDERR = 2


def register(dirge):
    after_s = dirge.settings.get("after_s", 20)
    began = {}

    @dirge.on("agent_start")
    def begin(event):
        began["at"] = time.monotonic()

    @dirge.on("agent_end")
    def end(event):
        took_s = time.monotonic() - began.get("at", time.monotonic())
        if took_s >= after_s and os.isatty(STDERR):
            # Only the name of the outcome: text of a model must not reach a terminal like this.
            how = type(event.outcome).__name__
            text = f"\x1b]9;dirge: {how} after {took_s:.0f} s\x07\a"
            os.write(STDERR, text.encode())
