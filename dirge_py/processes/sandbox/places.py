"""What becomes of which place of the disk inside a sandbox, whatever the sandbox is made of."""

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, TypeAlias

from dirge_py.lib.paths import in_order, is_below, is_below_any, upwards
from dirge_py.processes.launch import LaunchSpec
from dirge_py.processes.sandbox.repository import (
    acting_in,
    repository_of,
    submodule_entries,
)
from dirge_py.processes.sandbox.room import SandboxRoom, Unfit
from dirge_py.processes.sandbox.toolchains import CREDENTIALS, GIT_SETTINGS, toolchains
from dirge_py.types.errors import ProcessError

Effect: TypeAlias = Literal["hide", "show", "write", "pin", "guard", "mask"]
"""Hide: empty folder of its own. Show: read-only. Write. Pin: write in it, but it is not moved.
Guard: read-only, and neither moved nor made where it is missing. Mask: a single file or socket
that cannot be opened."""

Places: TypeAlias = dict[str, Effect]
"""What becomes of a path and all below it, down to the next path that is named."""

SHARED = ("/tmp", "/var/tmp", "/run", "/var/run", "/mnt/wsl", "/mnt/wslg")
"""Where programs leave files and sockets for each other."""

_NEEDED_OF_RUN = (
    "/run/current-system",
    "/run/booted-system",
    "/run/opengl-driver",
)
_GUARDED = (".git", ".dirge")


def physical(room: SandboxRoom) -> SandboxRoom:
    """The room with every path resolved.

    Raises:
        Unfit: what it wants shown or writable would show what has to stay hidden.
    """
    real = os.path.realpath
    home = real(room.home) if room.home else "/"
    made = SandboxRoom(
        roots=tuple(dict.fromkeys(real(root) for root in room.roots)),
        home=home,
        writable=_existing(room.writable),
        readable=_existing(room.readable),
        hidden=tuple(real(path) for path in room.hidden),
        network=room.network,
        hosts=room.hosts,
    )
    for path in (*made.roots, *made.writable, *made.readable):
        if home != "/" and is_below(home, path):
            raise Unfit(
                f"{path} holds your whole home folder, which a sandbox hides.",
                "Start in a project folder below it, and list single folders in `[sandbox]`.",
            )
        if path == "/" or is_below_any(path, made.hidden):
            raise Unfit(f"{path} cannot be opened to commands.", "Start in a project folder.")
    for root in made.roots:
        _check_entries(root)
    return made


def places_of(room: SandboxRoom, spec: LaunchSpec) -> Places:
    """What becomes of which place for one command. `room` is physical.

    Raises:
        ProcessError: the command would start in a folder that it cannot see, or a root has a
            `.git` or `.dirge` that cannot be guarded.
    """
    try:
        for root in room.roots:
            _check_entries(root)
    except Unfit as unfit:
        raise ProcessError(str(unfit), hint=unfit.fix) from unfit
    places: Places = {"/": "show"}
    places |= dict.fromkeys(_hidden(room), "hide")
    asked = map(os.path.realpath, spec.shows)
    _show(places, [*_needed(room, spec), *room.readable, *asked], room)
    places |= dict.fromkeys((*room.writable, *room.roots), "write")
    for root in room.roots:
        places |= dict.fromkeys(_guarded(root, may_write="git" in spec.permits), "guard")
        places |= _of_git(root, may_write="git" in spec.permits)
    places |= dict.fromkeys((path for path in room.hidden if _matters(path, places)), "hide")
    places |= dict.fromkeys(_masked(room, places), "mask")
    places |= dict.fromkeys(list(_pinned(places)), "pin")
    cwd = os.path.realpath(spec.cwd)
    if effect_on(cwd, places) == "hide":
        raise ProcessError(
            f"The folder {cwd!r} is hidden inside the sandbox.",
            hint="Start in the workspace, or list the folder in `[sandbox] readable`.",
        )
    return places


def effect_on(path: str, places: Mapping[str, Effect]) -> Effect:
    """What becomes of `path`: what was said of it, or of the nearest folder above."""
    return next(places[above] for above in upwards(path) if above in places)


def ordered(places: Mapping[str, Effect]) -> Iterator[tuple[str, Effect]]:
    """Every folder before what is in it."""
    return ((path, places[path]) for path in in_order(places))


def _existing(paths: Iterable[str]) -> tuple[str, ...]:
    found = (os.path.realpath(path) for path in paths)
    return tuple(dict.fromkeys(path for path in found if os.path.exists(path)))


def _check_entries(root: str) -> None:
    for name in _GUARDED:
        if os.path.islink(os.path.join(root, name)):
            raise Unfit(
                f"{name} in {root} is a symbolic link, which a sandbox cannot guard.",
                "Put the folder itself there, or for `.git` a file that says `gitdir: FOLDER`.",
            )


def _hidden(room: SandboxRoom) -> list[str]:
    places = (*SHARED, room.home if room.home != "/" else "/root")
    return [path for path in places if os.path.isdir(path) and not os.path.islink(path)]


def _needed(room: SandboxRoom, spec: LaunchSpec) -> Iterator[str]:
    yield from toolchains(spec.environment.get("PATH", ""), room.home, roots=room.roots)
    yield from (os.path.join(room.home, name) for name in GIT_SETTINGS)
    yield from _NEEDED_OF_RUN
    if room.network or room.hosts or "network" in spec.permits:
        yield os.path.realpath("/etc/resolv.conf")
    for root in room.roots:
        # Builds look for settings above their folder, up to where the repository begins.
        repository = repository_of(root)
        if repository is not None and not is_below(room.home, repository.top):
            yield repository.top


def _show(places: Places, wanted: Iterable[str], room: SandboxRoom) -> None:
    """Add what would be hidden otherwise."""
    for path in in_order(set(wanted)):
        if not os.path.exists(path) or is_below_any(path, (*room.roots, *room.writable)):
            continue
        if effect_on(path, places) == "hide":
            places[path] = "show"


def _guarded(root: str, *, may_write: bool) -> Iterator[str]:
    yield os.path.join(root, ".dirge")
    entry = os.path.join(root, ".git")
    repository = repository_of(root)
    if repository is None:
        if not may_write:  # else this may be the command that makes one
            yield entry
    # Git and others would take an empty `.git` for the end of the repository around it.
    elif os.path.exists(entry):
        yield entry
    yield from submodule_entries(root)


def _of_git(root: str, *, may_write: bool) -> Places:
    """The git directories of the repository that `root` is in, and what acts in them."""
    found: Places = {}
    repository = repository_of(root)
    for place in repository.places if repository else ():
        # Without settings there, a command could make some.
        is_open = may_write and os.path.isfile(os.path.join(place, "config"))
        found[place] = "write" if is_open else "guard"
        if is_open:
            found |= dict.fromkeys(acting_in(place), "guard")
    return found


def _pinned(places: Places) -> Iterator[str]:
    """The writable folders on the way to what is kept from a command.

    Who moved one would move what is kept along with it, and could put another in its place.
    """
    for path, effect in places.items():
        if effect in ("guard", "hide", "mask"):
            for above in upwards(os.path.dirname(path)):
                if effect_on(above, places) != "write":
                    break
                if above not in places and os.path.isdir(above):
                    yield above


def _matters(path: str, places: Mapping[str, Effect]) -> bool:
    """Whether anything could be read or made there: a missing folder of ours, once made, acts."""
    effect = effect_on(path, places)
    return effect == "write" or (effect != "hide" and os.path.isdir(path))


def _masked(room: SandboxRoom, places: Mapping[str, Effect]) -> Iterator[str]:
    credentials = (os.path.join(room.home, name) for name in CREDENTIALS)
    for path in (*filter(os.path.isfile, credentials), *_sockets()):
        if effect_on(path, places) == "show":
            yield path


def _sockets() -> Iterator[str]:
    """Sockets that somebody listens at, by their path."""
    try:
        with open("/proc/net/unix", encoding="utf-8", errors="surrogateescape") as table:
            lines = table.readlines()[1:]
    except OSError:
        return
    for line in lines:
        path = "/" + line.rstrip("\n").partition(" /")[2]
        with contextlib.suppress(OSError):
            if stat.S_ISSOCK(os.lstat(path).st_mode):
                yield os.path.realpath(path)
