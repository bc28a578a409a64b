"""The bubblewrap sandbox: namespaces, and a separate view of the file system.

A place that a command must not create (`.git`, where there is none) is protected by a mount, which
needs a mount point: an empty folder, or a file whose content means the same as its absence.
`PlaceholderMounts` creates it. A placeholder is marked, to be recognized after a crash, and locked,
so that another dirge does not remove it while commands of this one run.
"""

import atexit
import fcntl
import os
import stat
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.processes.sandbox import relay
from dirge_py.processes.sandbox.mount_plan import MountPlan, effect_on, ordered, plan_mounts
from dirge_py.processes.sandbox.profile import LaunchSpec, SandboxProfile, limits_as_shell
from dirge_py.processes.sandbox.proxy import HostList, HostProxy
from dirge_py.processes.sandbox.seccomp import filter_program
from dirge_py.types.errors import ProcessError

PROGRAMS = ("/usr/bin/bwrap", "/usr/local/bin/bwrap", "/run/current-system/sw/bin/bwrap")
"""Never searched on PATH. The first is the path in the profiles of AppArmor."""
NO_FILTER = "System calls are not filtered on this machine: there is no list of them."
ENV_PROGRAM = "/usr/bin/env"
_BASH = ("/bin/bash", "/usr/bin/bash", "/run/current-system/sw/bin/bash")  # never from PATH
_NAMESPACES = ("--unshare-all", "--unshare-user", "--cap-drop", "ALL", "--new-session")
_FILTER_FD = 9
# The interpreter itself, not the link of a virtual environment.
_RELAY = (os.path.realpath(sys.executable), "-I", "-S", os.path.realpath(relay.__file__))
_NEEDED_BY_RELAY = (os.path.realpath(sys.base_prefix), os.path.dirname(_RELAY[-1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class BubblewrapSetup:
    """The parts of this machine that the sandbox uses."""

    program: str
    """The path of bubblewrap."""
    filter_path: str = ""
    """The file that bash reads the system call filter from; "" if this machine has none."""
    lets_end_gently: bool = True
    """Whether `env` can restore SIGTERM, so that bubblewrap may ignore it."""
    limits: str = ""
    """Bash statements that set the limits of a command."""


class Bubblewrap:
    """Launches commands in bubblewrap. Close it when no command runs any more."""

    def __init__(
        self, profile: SandboxProfile, program: str, *, lets_end_gently: bool = True
    ) -> None:
        """`profile` is physical. Raises `ValueError`: one of its hosts is invalid."""
        self._profile = profile
        self._is_closed = False
        self._placeholders = PlaceholderMounts()
        self._hosts = HostList(profile.hosts)
        self._proxy: HostProxy | None = None
        self._setup = BubblewrapSetup(
            program=program,
            filter_path=filter_source(filter_program(sockets=True)),
            lets_end_gently=lets_end_gently,
            limits=limits_as_shell(),
        )
        self.filters_calls = bool(self._setup.filter_path)

    def __call__(self, arguments: list[str], spec: LaunchSpec) -> list[str]:
        """Return the argument list that runs `arguments` inside.

        Raises ProcessError as `plan_mounts`, if the proxy for its hosts cannot be started, or if
        this is closed.
        """
        if self._is_closed:
            raise ProcessError("No command is started while dirge ends.")
        places = plan_mounts(self._profile, spec)
        if "git" in spec.permits:
            for root in self._profile.roots:
                self._placeholders.hand_over(os.path.join(root, ".git"))
        has_network = self._profile.network or "network" in spec.permits
        if self._profile.hosts and not has_network:
            try:
                self._proxy = self._proxy or HostProxy(self._hosts)
            except OSError as error:
                why = f"cannot be started: {error.strerror or error}."
                hint = "Make room in the folder for temporary files, or list no hosts."
                raise ProcessError(f"The proxy for `[sandbox] hosts` {why}", hint=hint) from error
            arguments = [*_RELAY, self._proxy.path, *arguments]
            for path in (self._proxy.folder, *_NEEDED_BY_RELAY):
                if effect_on(path, places) == "hide":
                    places[path] = "show"
        inside = [
            *mount_arguments(places, ensure=self._placeholders.ensure, has_network=has_network),
            *("--setenv", "TMPDIR", "/tmp"),
            *("--chdir", os.path.realpath(spec.cwd)),
        ]
        return wrapped(arguments, inside, self._setup)

    def tidy(self) -> None:
        """Remove the placeholders while no command runs; the next command creates them again."""
        self._placeholders.release()

    def close(self) -> None:
        """Remove the placeholders and the proxy; after this, no command can run any more."""
        self._is_closed = True
        self.tidy()
        if self._proxy is not None:
            self._proxy.close()
            self._proxy = None


def wrapped(arguments: Sequence[str], inside: Sequence[str], setup: BubblewrapSetup) -> list[str]:
    """Return `arguments` in bubblewrap, started by a bash that sets limits.

    The environment is not among the options, because every user can read argument lists; the
    command inherits bubblewrap's own.
    """
    bash = next((path for path in _BASH if os.access(path, os.X_OK)), _BASH[0])
    script, filtering = setup.limits, []
    if setup.lets_end_gently:
        # Otherwise a SIGTERM to all ends bubblewrap first, and the command with it before it can
        # clean up.
        script += "trap '' TERM; "
        arguments = [ENV_PROGRAM, "--default-signal=TERM", *arguments]
    script += 'exec "$@"'
    if setup.filter_path:
        script += f" {_FILTER_FD}<{setup.filter_path}"
        filtering = ["--seccomp", str(_FILTER_FD)]
    return [
        *(bash, "--norc", "--noprofile", "-p", "-c", script, "sandbox"),
        *(setup.program, "--die-with-parent", *filtering, *inside, "--", *arguments),
    ]


def mount_arguments(
    places: MountPlan, *, ensure: Callable[[str], str | None], has_network: bool
) -> list[str]:
    """Return bubblewrap's options for a mount plan; `ensure` makes a guarded place exist."""
    options = [*_NAMESPACES, *(["--share-net"] if has_network else [])]
    options += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", *_of_proc()]
    for path, effect in ordered(places):
        if path == "/":
            continue
        if effect == "hide" and os.path.isdir(path):
            options += ["--tmpfs", path]
        elif effect in ("guard", "hide"):
            placeholder = ensure(path)
            options += ["--ro-bind", placeholder, placeholder] if placeholder is not None else []
        elif effect == "mask":
            options += ["--ro-bind", "/dev/null", path]
        elif effect in ("write", "pin"):
            options += ["--bind", path, path]
        elif os.path.exists(path):
            options += ["--ro-bind", path, path]
    return options


def _of_proc() -> list[str]:
    """Return options that make the machine-wide parts of /proc read-only.

    Root without capabilities may still write there, such as the name of the program that the kernel
    starts after a crash; bubblewrap itself covers less.
    """
    options = []
    for name in sorted(os.listdir("/proc")):
        path = f"/proc/{name}"
        with suppress(OSError):
            mode = os.lstat(path).st_mode
            is_settings = stat.S_ISDIR(mode) or mode & 0o222
            if not name.isdecimal() and not stat.S_ISLNK(mode) and is_settings:
                options += ["--ro-bind", path, path]
    return options


def filter_source(program: bytes | None) -> str:
    """Return what bash reads a system call filter from, in the form for `<`; "" for None."""
    escaped = "".join(f"\\x{byte:02x}" for byte in program or b"")
    return f" <(printf '{escaped}')" if escaped else ""


# Only for its owner, with the sticky bit: no other folder has this mode by chance.
_MARK = 0o1700
_FILE_MARK = 0o1644
_FILES = {"commondir": b".\n", "config.worktree": b""}
"""Git's names of places that are protected by a file, and the file's content."""


class PlaceholderMounts:
    """The placeholders created so far. `release` removes the unchanged ones."""

    def __init__(self) -> None:
        self._held: dict[str, int] = {}

    def ensure(self, path: str) -> str | None:
        """Make something exist at `path`; return it, or the first missing folder above, or None."""
        place = path
        while not os.path.lexists(above := os.path.dirname(place)):
            place = above
        if self._holds(place):
            return place
        try:
            if not os.path.lexists(place):
                _make(place, _FILES.get(os.path.basename(path)) if place == path else None)
        except OSError as error:
            if not isinstance(error, FileExistsError):
                return None
        if _is_ours(place) and not self._hold(place) and not os.path.lexists(place):
            return self.ensure(path)  # another dirge just removed it
        return place

    def hand_over(self, path: str) -> None:
        """Let other programs use the folder at `path`, if it is one of dirge's placeholders."""
        if self._holds(path):
            _unmark(path)

    def release(self) -> None:
        """Remove unchanged placeholders, unless another dirge uses them, too."""
        for path, descriptor in self._held.items():
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_same(path, descriptor):
                    remove = os.rmdir if os.path.isdir(path) else os.unlink
                    (remove if _is_untouched(path) else _unmark)(path)
            os.close(descriptor)
        self._held.clear()
        atexit.unregister(self.release)

    def _holds(self, path: str) -> bool:
        return path in self._held and _is_same(path, self._held[path])

    def _hold(self, path: str) -> bool:
        """Lock the placeholder; return whether it still exists and is locked."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        except OSError:
            return False
        with suppress(OSError):  # some network file systems have no locks
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        if not _is_same(path, descriptor):
            os.close(descriptor)
            return False
        if not self._held:
            atexit.register(self.release)
        if (stale := self._held.pop(path, None)) is not None:
            os.close(stale)
        self._held[path] = descriptor
        return True


def _make(path: str, content: bytes | None) -> None:
    """Create a marked file with this content, a folder for None."""
    if content is None:
        os.mkdir(path, 0o700)
        os.chmod(path, _MARK)
        return
    with open(path, "xb") as file:
        file.write(content)
        os.fchmod(file.fileno(), _FILE_MARK)


def _is_ours(path: str) -> bool:
    try:
        status = os.lstat(path)
        mark = _MARK if stat.S_ISDIR(status.st_mode) else _FILE_MARK
        is_marked = status.st_mode & 0o7777 == mark and status.st_uid == os.geteuid()
        return is_marked and _is_untouched(path)
    except OSError:
        return False


def _is_untouched(path: str) -> bool:
    if os.path.isdir(path):
        return not os.listdir(path)
    content = _FILES.get(os.path.basename(path))
    if content is None or not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(len(content) + 1) == content


def _is_same(path: str, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.lstat(path), os.fstat(descriptor))
    except OSError:
        return False


def _unmark(path: str) -> None:
    mask = os.umask(0)
    os.umask(mask)
    os.chmod(path, (0o777 if os.path.isdir(path) else 0o666) & ~mask)
