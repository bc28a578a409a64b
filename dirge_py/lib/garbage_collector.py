"""The garbage collector, switched off during a start.

A start only adds what stays: modules, classes, functions. The collector would search all of it
again and again, finding nothing, for an eighth of the start's time.
"""

import gc


def postpone_collecting() -> None:
    """Collect nothing until `begin_collecting`."""
    gc.disable()


def begin_collecting() -> None:
    """Collect from now on, but not what exists already; does nothing if it wasn't postponed."""
    if gc.isenabled():
        return
    gc.freeze()
    gc.enable()
