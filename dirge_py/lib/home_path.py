"""Paths as people write them."""

from pathlib import Path


def from_home(name: str) -> Path:
    """`name` with its `~` replaced; as it stands where nobody of that name has a home."""
    try:
        return Path(name).expanduser()
    except RuntimeError:
        return Path(name)
