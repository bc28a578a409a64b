"""The garbage collector, kept away from a start.

A start only adds what stays: modules, classes, functions. The collector would look through all of
it again and again, finding nothing, for an eighth of the start's time.
"""

import gc


def postpone_collecting() -> None:
    """Collect nothing until `begin_collecting`."""
    gc.disable()


def begin_collecting() -> None:
    """Collect from now on, leaving alone what is there already; nothing if nobody postponed it."""
    if gc.isenabled():
        return
    gc.freeze()
    gc.enable()
