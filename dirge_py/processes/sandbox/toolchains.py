"""What of a hidden home folder programs need all the same: the toolchains that PATH leads to."""

import os
from collections.abc import Iterable, Iterator

from dirge_py.lib.paths import is_below

_PROGRAM_FOLDERS = frozenset(("bin", "sbin", "shims", ".bin"))

# A shim of the left needs what stands to the right.
_COMPANIONS = {
    ".cargo": (".rustup",),
    ".local/bin": (
        ".local/pipx",
        ".local/share/pipx",
        ".local/share/uv/tools",
        ".local/share/uv/python",
    ),
    ".local/share/mise": (".config/mise/config.toml",),
    ".asdf": (".tool-versions", ".asdfrc"),
}

GIT_SETTINGS = (
    ".gitconfig",
    ".config/git/config",
    ".config/git/ignore",
    ".config/git/attributes",
)
"""Who commits, and what is ignored. Not where git keeps passwords."""

CREDENTIALS = (".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials")
"""Stay hidden though they lie in a toolchain."""


def toolchains(path: str, home: str, *, roots: Iterable[str] = ()) -> Iterator[str]:
    """Places below `home` that the programs on `path` come from, and the virtual environments'.

    `roots` are looked into for `.venv` and `venv`. A link there only leads to what is a Python.
    """
    prefixes = []
    for entry in path.split(os.pathsep):
        # As it is written too: a link in the home folder cannot be followed once that is hidden.
        for place in dict.fromkeys((os.path.realpath(entry), os.path.normpath(entry))):
            prefix = _prefix(place, home)
            prefixes.append(prefix)
            if is_below(prefix, home) and prefix != home:
                yield prefix
                for companion in _COMPANIONS.get(os.path.relpath(prefix, home), ()):
                    yield os.path.join(home, companion)
    local = [os.path.join(root, name) for root in roots for name in (".venv", "venv")]
    for prefix in {*prefixes, *local}:
        base = _base_python(prefix)
        if base and is_below(base, home) and not _holds(base, home):
            yield base


def _prefix(folder: str, home: str) -> str:
    """What was installed together with the programs in `folder`."""
    above = os.path.dirname(folder)
    if os.path.basename(folder) not in _PROGRAM_FOLDERS or _holds(above, home):
        return folder
    return above


def _holds(folder: str, home: str) -> bool:
    """Whether showing `folder` would show much more than a toolchain."""
    return is_below(home, folder) or folder == os.path.join(home, ".local")


def _base_python(environment: str) -> str:
    """The prefix of the Python that a virtual environment was made with; empty if there is none."""
    if not os.path.isfile(os.path.join(environment, "pyvenv.cfg")):
        return ""
    program = os.path.realpath(os.path.join(environment, "bin", "python"))
    folder, name = os.path.split(program)
    prefix = os.path.dirname(folder)
    if not name.startswith("python") or os.path.basename(folder) != "bin":
        return ""
    try:
        libraries = os.listdir(os.path.join(prefix, "lib"))
    except OSError:
        return ""
    return prefix if any(each.startswith("python3") for each in libraries) else ""
