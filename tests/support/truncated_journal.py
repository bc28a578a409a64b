"""Truncates a journal as a killed process leaves it."""

from pathlib import Path


def cut_behind(journal: Path, type_name: str, *, nth: int = 1) -> None:
    """Remove everything after the `nth` record of this type."""
    lines = journal.read_bytes().split(b"\n")
    found = [at for at, line in enumerate(lines) if f'"type":"{type_name}"'.encode() in line]
    journal.write_bytes(b"\n".join(lines[: found[nth - 1] + 1]) + b"\n")
