"""What a sandbox does with each path, independent of the kind of sandbox.

It hides the home folder, except for the toolchains that PATH leads to.

The repository's author controls a `.git` file, so it may lie. It is followed only to a git
directory that points back at it, which git created for this folder.
"""

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeAlias

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.paths import in_order, is_below, is_below_any, upwards
from dirge_py.processes.sandbox.profile import LaunchSpec, SandboxProfile
from dirge_py.types.errors import ProcessError

MountEffect: TypeAlias = Literal["hide", "show", "write", "pin", "guard", "mask"]
"""Hide: an empty folder instead. Show: read-only. Write. Pin: writable, but can't be moved.
Guard: read-only, can be neither moved nor created. Mask: a file or socket that can't be opened."""
MountPlan: TypeAlias = dict[str, MountEffect]
"""The effect on a path and everything below it, down to the next path in the plan."""
SHARED = ("/tmp", "/var/tmp", "/run", "/var/run", "/mnt/wsl", "/mnt/wslg")
"""Where programs leave files and sockets for each other."""
_NEEDED_OF_RUN = ("/run/current-system", "/run/booted-system", "/run/opengl-driver")
_GUARDED = (".git", ".dirge")
_SMALL_BYTES = 64 * 1024
_MODULE_LIMIT = 200


def physical_profile(profile: SandboxProfile) -> SandboxProfile:
    """Return the profile with physical paths. Raises ProcessError: no sandbox can be made of it."""
    real = os.path.realpath
    home = real(profile.home) if profile.home else "/"
    made = replace(
        profile,
        roots=tuple(dict.fromkeys(map(real, profile.roots))),
        home=home,
        writable=_existing(profile.writable),
        readable=_existing(profile.readable),
        hidden=tuple(map(real, profile.hidden)),
    )
    for path in (*made.roots, *made.writable, *made.readable):
        if home != "/" and is_below(home, path):
            raise ProcessError(
                f"{path} contains your whole home folder, which a sandbox hides.",
                hint="Start in a project folder below it, and list single folders in `[sandbox]`.",
            )
        if path == "/" or is_below_any(path, made.hidden):
            hint = "Start in a project folder."
            raise ProcessError(f"{path} cannot be opened to commands.", hint=hint)
    for root in made.roots:
        _check_entries(root)
    return made


def plan_mounts(profile: SandboxProfile, spec: LaunchSpec) -> MountPlan:
    """Return the mount plan for one command. `profile` is physical.

    Raises ProcessError if the command would start in a folder that it cannot see, or a root has a
    `.git` or `.dirge` that cannot be guarded.
    """
    for root in profile.roots:
        _check_entries(root)
    places: MountPlan = {"/": "show"}
    shared = (*SHARED, profile.home if profile.home != "/" else "/root")
    hidden = (path for path in shared if os.path.isdir(path) and not os.path.islink(path))
    places |= dict.fromkeys(hidden, "hide")
    writable = (*profile.writable, *profile.roots)
    wanted = {*_needed(profile, spec), *profile.readable, *map(os.path.realpath, spec.shows)}
    for path in in_order(wanted):
        is_hidden = effect_on(path, places) == "hide" and not is_below_any(path, writable)
        if is_hidden and os.path.exists(path):
            places[path] = "show"
    places |= dict.fromkeys(writable, "write")
    for root in profile.roots:
        places |= dict.fromkeys(_guarded(root, may_write="git" in spec.permits), "guard")
        places |= _of_git(root, may_write="git" in spec.permits)
    places |= dict.fromkeys((path for path in profile.hidden if _matters(path, places)), "hide")
    credentials = (os.path.join(profile.home, name) for name in CREDENTIALS)
    private = (*filter(os.path.isfile, credentials), *_sockets())
    places |= dict.fromkeys([p for p in private if effect_on(p, places) == "show"], "mask")
    places |= dict.fromkeys(list(_pinned(places)), "pin")
    cwd = os.path.realpath(spec.cwd)
    if effect_on(cwd, places) == "hide":
        hint = "Start in the workspace, or list the folder in `[sandbox] readable`."
        raise ProcessError(f"The folder {cwd!r} is hidden inside the sandbox.", hint=hint)
    return places


def effect_on(path: str, places: Mapping[str, MountEffect]) -> MountEffect:
    """Return the effect on `path`: its own, or that of the nearest folder above it."""
    return next(places[above] for above in upwards(path) if above in places)


def ordered(places: Mapping[str, MountEffect]) -> Iterator[tuple[str, MountEffect]]:
    """Yield every folder before its contents."""
    return ((path, places[path]) for path in in_order(places))


def _existing(paths: Iterable[str]) -> tuple[str, ...]:
    reals = map(os.path.realpath, paths)
    return tuple(dict.fromkeys(path for path in reals if os.path.exists(path)))


def _check_entries(root: str) -> None:
    for name in _GUARDED:
        if os.path.islink(os.path.join(root, name)):
            hint = "Put the folder itself there, or for `.git` a file that says `gitdir: FOLDER`."
            raise ProcessError(
                f"{name} in {root} is a symbolic link, which a sandbox cannot protect.", hint=hint
            )


def _needed(profile: SandboxProfile, spec: LaunchSpec) -> Iterator[str]:
    yield from toolchains(spec.environment.get("PATH", ""), profile.home, roots=profile.roots)
    yield from (os.path.join(profile.home, name) for name in GIT_SETTINGS)
    yield from _NEEDED_OF_RUN
    if profile.network or profile.hosts or "network" in spec.permits:
        yield os.path.realpath("/etc/resolv.conf")
    for root in profile.roots:
        # Builds look for settings above their folder, up to the top of the repository.
        repository = repository_of(root)
        if repository is not None and not is_below(profile.home, repository.top):
            yield repository.top


def _guarded(root: str, *, may_write: bool) -> Iterator[str]:
    yield os.path.join(root, ".dirge")
    entry = os.path.join(root, ".git")
    repository = repository_of(root)
    if repository is None:
        if not may_write:  # otherwise this may be the command that creates one
            yield entry
    # Git and others would read an empty `.git` as the end of the surrounding repository.
    elif os.path.exists(entry):
        yield entry
    yield from submodule_entries(root)


def _of_git(root: str, *, may_write: bool) -> MountPlan:
    """Return the git directories of the repository around `root`, and the acting files in them."""
    mounts: MountPlan = {}
    repository = repository_of(root)
    for place in repository.places if repository else ():
        # Without settings there, a command could create some.
        is_open = may_write and os.path.isfile(os.path.join(place, "config"))
        mounts[place] = "write" if is_open else "guard"
        if is_open:
            mounts |= dict.fromkeys(acting_in(place), "guard")
    return mounts


def _pinned(places: MountPlan) -> Iterator[str]:
    """Yield the writable folders above protected places: moving one would move the place along."""
    for path, effect in places.items():
        if effect in ("guard", "hide", "mask"):
            for above in upwards(os.path.dirname(path)):
                if effect_on(above, places) != "write":
                    break
                if above not in places and os.path.isdir(above):
                    yield above


def _matters(path: str, places: Mapping[str, MountEffect]) -> bool:
    """Whether a file could be read or created there: a missing folder may appear."""
    effect = effect_on(path, places)
    return effect == "write" or (effect != "hide" and os.path.isdir(path))


def _sockets() -> Iterator[str]:
    """Return the paths of Unix sockets that a process listens on."""
    lines: list[str] = []
    with contextlib.suppress(OSError):
        lines = os.fsdecode(Path("/proc/net/unix").read_bytes()).split("\n")[1:]
    for line in lines:
        path = "/" + line.partition(" /")[2]
        with contextlib.suppress(OSError):
            if stat.S_ISSOCK(os.lstat(path).st_mode):
                yield os.path.realpath(path)


_PROGRAM_FOLDERS = frozenset(("bin", "sbin", "shims", ".bin"))

# A shim of a program on the left needs the places on the right.
_COMPANIONS = {
    ".cargo": [".rustup"],
    ".local/bin": [
        ".local/pipx",
        *(f".local/share/{n}" for n in ("pipx", "uv/tools", "uv/python")),
    ],
    ".local/share/mise": [".config/mise/config.toml"],
    ".asdf": [".tool-versions", ".asdfrc"],
}
GIT_SETTINGS = (".gitconfig", *(f".config/git/{n}" for n in ("config", "ignore", "attributes")))
"""Settings with the author's name and ignore rules, not git's stored passwords."""
CREDENTIALS = (".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials")
"""Places that stay hidden although they are in a toolchain."""


def toolchains(path: str, home: str, *, roots: Iterable[str] = ()) -> Iterator[str]:
    """Yield places below `home` with the programs on `path` and with virtual environments' Pythons.

    `.venv` and `venv` are searched in `roots`. A link there only leads to a Python installation.
    """
    prefixes = []
    for entry in path.split(os.pathsep):
        # Also as written: a link in the home folder cannot be followed once that is hidden.
        for place in dict.fromkeys((os.path.realpath(entry), os.path.normpath(entry))):
            # The parent of a `bin` folder has what was installed with the programs.
            above = os.path.dirname(place)
            is_prefix = os.path.basename(place) in _PROGRAM_FOLDERS and not _holds(above, home)
            prefix = above if is_prefix else place
            prefixes.append(prefix)
            if is_below(prefix, home) and prefix != home:
                yield prefix
                companions = _COMPANIONS.get(os.path.relpath(prefix, home), ())
                yield from (os.path.join(home, name) for name in companions)
    local = [os.path.join(root, name) for root in roots for name in (".venv", "venv")]
    for prefix in {*prefixes, *local}:
        base = _base_python(prefix)
        if base and is_below(base, home) and not _holds(base, home):
            yield base


def _holds(folder: str, home: str) -> bool:
    """Whether showing `folder` would show much more than a toolchain."""
    return is_below(home, folder) or folder == os.path.join(home, ".local")


def _base_python(environment: str) -> str:
    """Return the prefix of the Python that made a virtual environment; "" if there is none."""
    if not os.path.isfile(os.path.join(environment, "pyvenv.cfg")):
        return ""
    program = os.path.realpath(os.path.join(environment, "bin", "python"))
    folder, name = os.path.split(program)
    prefix = os.path.dirname(folder)
    if not name.startswith("python") or os.path.basename(folder) != "bin":
        return ""
    with contextlib.suppress(OSError):
        libraries = os.listdir(os.path.join(prefix, "lib"))
        return prefix if any(each.startswith("python3") for each in libraries) else ""
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GitRepository:
    """A repository and its git directories."""

    top: str
    """The folder with the `.git` entry."""
    places: tuple[str, ...]
    """The git directories behind that entry."""


def repository_of(folder: str) -> GitRepository | None:
    """Return the repository around `folder`; None if its `.git` is missing or leads nowhere."""
    for top in upwards(folder):
        entry = os.path.join(top, ".git")
        if os.path.isdir(entry):
            if is_git_directory(entry):
                return GitRepository(top=top, places=(os.path.realpath(entry),))
        elif os.path.isfile(entry):
            return GitRepository(top=top, places=tuple(_behind_file(entry)))
    return None


def is_git_directory(path: str) -> bool:
    """Whether git reads it as a complete git directory, not one that shares another's objects."""
    return os.path.isfile(os.path.join(path, "HEAD")) and all(
        os.path.isdir(os.path.join(path, name)) for name in ("objects", "refs")
    )


def modules_in(place: str) -> Iterator[str]:
    """Yield the git directories of submodules inside the git directory `place`, nested ones too."""
    waiting, seen = [os.path.join(place, "modules")], 0
    while waiting and seen < _MODULE_LIMIT:
        folder = waiting.pop()
        seen += 1
        if is_git_directory(folder):
            yield folder
            waiting.append(os.path.join(folder, "modules"))
        else:
            waiting += _folders_in(folder)


def acting_in(place: str) -> Iterator[str]:
    """Yield files of `place` and its submodules' that name programs or other places.

    `commondir` says where settings and hooks are instead; one may be created at any time.
    """
    for directory in (place, *modules_in(place)):
        has_more = "worktreeconfig" in read_small(os.path.join(directory, "config")).lower()
        yield from (os.path.join(directory, name) for name in ("hooks", "config", "commondir"))
        trees = [directory, *_folders_in(os.path.join(directory, "worktrees"))]
        for tree in trees:
            own = os.path.join(tree, "config.worktree")
            if has_more or os.path.lexists(own):
                yield own
            if tree != directory:
                yield from (os.path.join(tree, name) for name in ("commondir", "gitdir"))


def submodule_entries(root: str) -> Iterator[str]:
    """Yield the `.git` entries of the submodules below `root`, where they exist.

    Those in `.gitmodules`, and those that git created, because a command may change that file.
    """
    folders = []
    for line in read_small(os.path.join(root, ".gitmodules")).splitlines():
        name, _, value = line.strip().partition("=")
        folders += [os.path.join(root, value.strip())] if name.strip() == "path" else []
    repository = repository_of(root)
    for place in repository.places if repository else ():
        folders += [os.path.join(module, _working_tree(module)) for module in modules_in(place)]
    for entry in (os.path.join(os.path.normpath(folder), ".git") for folder in folders):
        if os.path.lexists(entry) and os.path.realpath(entry) == entry and is_below(entry, root):
            yield entry


def _behind_file(entry: str) -> list[str]:
    named = read_small(entry).strip()
    if not named.startswith("gitdir:"):
        return []
    folder = os.path.dirname(entry)
    place = os.path.realpath(os.path.join(folder, named.removeprefix("gitdir:").strip()))
    shared, kind = os.path.split(os.path.dirname(place))
    if kind == "worktrees" and is_git_directory(shared):
        back = os.path.join(place, read_small(os.path.join(place, "gitdir")).strip())
        return [shared] if os.path.realpath(back) == os.path.realpath(entry) else []
    if "modules" in place.split("/") and is_git_directory(place):
        back = os.path.join(place, _working_tree(place))
        return [place] if os.path.realpath(back) == os.path.realpath(folder) else []
    return []


def _folders_in(folder: str) -> list[str]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return []
    return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]


def _working_tree(place: str) -> str:
    import configparser

    parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
    try:
        parser.read_string(read_small(os.path.join(place, "config")).replace("\t", ""))
        return (parser.get("core", "worktree", fallback="") or "").strip('"')
    except configparser.Error:
        return ""


def read_small(path: str) -> str:
    """Read the beginning of a regular file; "" if it is none. Opening a pipe would block."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with open(descriptor, "rb") as file:
        is_regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        return file.read(_SMALL_BYTES).decode(errors="replace") if is_regular else ""
