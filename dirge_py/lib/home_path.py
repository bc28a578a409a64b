"""Paths as people write them."""

import os
from pathlib import Path


def from_home(name: str) -> Path:
    """`name` with its `~` replaced; as it stands where nobody of that name has a home."""
    try:
        return Path(name).expanduser()
    except RuntimeError:
        return Path(name)


def shorter(path: str) -> str:
    """`path` with `~` for the folder of the person whose program this is, where it is in there."""
    home = os.path.expanduser("~")
    is_inside = home not in ("~", "/") and path.startswith(home.rstrip("/") + "/")
    return f"~{path[len(home.rstrip('/')) :]}" if is_inside else path
