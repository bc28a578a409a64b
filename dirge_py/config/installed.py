"""Provider types of installed packages: entry points of the group `dirge.providers`."""

import os
import site
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "dirge.providers"


def installed_providers() -> Mapping[str, "EntryPoint"]:
    """The entry points by provider type; of several with one name, the first on `sys.path`.

    Nothing is imported. Packages that lie in the working folder or above it are left out: they
    belong to the project, unless Python itself is installed there.
    """
    from importlib import metadata  # noqa: PLC0415 - only for settings that name such a type

    folders = [folder for folder in sys.path if _is_installation(Path(folder))]
    found: dict[str, EntryPoint] = {}
    for package in metadata.distributions(path=folders):
        for entry in package.entry_points.select(group=GROUP):
            found.setdefault(entry.name, entry)
    return found


def package_of(entry: "EntryPoint") -> str:
    """The package that declares `entry`, for messages."""
    return f"package {entry.dist.name}" if entry.dist is not None else entry.value


def _is_installation(folder: Path) -> bool:
    here = Path.cwd()
    try:
        real = folder.resolve()
    except OSError:
        return False
    own = [sysconfig.get_path(name) for name in ("purelib", "platlib")]
    if site.ENABLE_USER_SITE:
        own.append(site.getusersitepackages())
    if str(real) in {os.path.realpath(path) for path in own}:
        return True
    return not (real.is_relative_to(here) or here.is_relative_to(real))
