"""The three standard streams, made dependable whoever started us."""

import io
import os
import sys


def prepare_streams() -> None:
    """UTF-8 whatever the locale says, and no descriptor below 3 that means something else."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            # It was closed: the next file opened would take its number, and be read or written.
            opened = os.open(os.devnull, os.O_WRONLY if number else os.O_RDONLY)
            nowhere = io.FileIO(opened, "wb" if number else "rb")
            setattr(sys, name, io.TextIOWrapper(nowhere))
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        # Not `replace`: what cannot be written stays what it was, also inside JSON.
        errors = "surrogateescape" if stream is sys.stdin else "backslashreplace"
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors=errors)
