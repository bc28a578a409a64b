"""Attempts to escape a sandbox, run inside it: `python -I -S sandbox_escapes.py TARGETS`.

TARGETS is JSON. Prints one JSON object that says for every attempt whether it succeeded; `only` in
TARGETS limits the attempts. Imports only the standard library.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import pty
import shutil
import socket
import sys
from collections.abc import Callable

T = json.loads(sys.argv[1])
LIBC = ctypes.CDLL(None, use_errno=True)
WORK, GIT, DIRGE = T["work"], f"{T['work']}/.git", f"{T['work']}/.dirge"

ATTEMPTS: dict[str, Callable[[], object]] = {}


def attempt(make: Callable[[], object]) -> Callable[[], object]:
    """Try one; a success returns something true and raises nothing."""
    ATTEMPTS[make.__name__] = make
    return make


def write(path: str, text: str = "escaped") -> bool:
    with open(path, "a") as file:
        file.write(text)
    return True


def read(path: str) -> bool:
    with open(path, "rb") as file:
        return T["secret"].encode() in file.read()


def called(name: str, *arguments: object) -> bool:
    return int(getattr(LIBC, name)(*arguments)) >= 0


def any_of(actions: "list[Callable[[], object]]") -> bool:
    through = False
    for action in actions:
        with contextlib.suppress(Exception):
            through = bool(action()) or through
    return through


# --- what acts later


@attempt
def move_git() -> object:
    os.rename(GIT, f"{WORK}/git.old")
    os.rename(f"{WORK}/git.old", GIT)
    return True


@attempt
def write_hook() -> object:
    return write(f"{GIT}/hooks/pre-commit")


@attempt
def write_git_config() -> object:
    return write(f"{GIT}/config", "")


@attempt
def replace_git_config() -> object:
    os.rename(f"{WORK}/sub/file", f"{GIT}/config")
    return True


@attempt
def fresh_git() -> object:
    shutil.rmtree(GIT, ignore_errors=True)
    os.mkdir(GIT)
    return write(f"{GIT}/config")


@attempt
def git_of_a_folder_without() -> object:
    os.makedirs(f"{T['bare']}/.git/hooks")
    return write(f"{T['bare']}/.git/config")


@attempt
def make_dirge() -> object:
    with contextlib.suppress(FileExistsError):
        os.mkdir(DIRGE)
    return write(f"{DIRGE}/config.toml")


@attempt
def dirge_by_rename() -> object:
    os.makedirs(f"{WORK}/sub/dirge", exist_ok=True)
    os.rename(f"{WORK}/sub/dirge", DIRGE)
    return True


@attempt
def dirge_by_link() -> object:
    os.symlink(f"{WORK}/sub", DIRGE)
    return True


@attempt
def rename_the_workspace() -> object:
    os.rename(WORK, f"{WORK}.old")
    os.rename(f"{WORK}.old", WORK)
    return True


@attempt
def exchange_git() -> object:
    os.makedirs(f"{WORK}/sub/.git", exist_ok=True)
    both = (-100, f"{WORK}/sub/.git".encode(), -100, GIT.encode(), 2)
    return called("renameat2", *both) and called("renameat2", *both)


# --- files


@attempt
def write_outside() -> object:
    places = [*T["outside"], "/etc", "/usr", "/usr/local", "/opt", "/var/lib", "/srv", "/"]
    return any_of([lambda place=place: write(f"{place}/{T['mark']}") for place in places])


@attempt
def write_to_hidden_places() -> object:
    any_of([lambda place=place: write(f"{place}/{T['mark']}") for place in T["hidden"]])
    return False  # they may be folders of the sandbox's own; what was left is seen from outside


@attempt
def read_secrets() -> object:
    return any_of([lambda path=path: read(path) for path in T["secrets"]])


@attempt
def read_through_proc() -> object:
    roots = [f"/proc/{n}/{way}" for n in os.listdir("/proc") for way in ("root", "cwd/../../..")]
    return any_of([lambda root=root: read(root + T["secrets"][0]) for root in roots])


@attempt
def read_through_a_link() -> object:
    os.symlink(T["secrets"][0], f"{WORK}/sub/link")
    return read(f"{WORK}/sub/link")


@attempt
def hard_link() -> object:
    os.link(T["secrets"][0], f"{WORK}/sub/hard")
    return read(f"{WORK}/sub/hard")


@attempt
def shared_memory_files() -> object:
    return read(f"/dev/shm/{T['shm']}")


@attempt
def device() -> object:
    os.mknod(f"{WORK}/sub/disk", 0o60666, os.makedev(254, 0))
    return os.open(f"{WORK}/sub/disk", os.O_RDONLY)


@attempt
def settings_of_the_kernel() -> object:
    places = [
        "sys/kernel/core_pattern",
        "sys/kernel/modprobe",
        "sysrq-trigger",
        "sys/vm/swappiness",
    ]
    paths = [f"/proc/{place}" for place in places] + [
        "/sys/kernel/uevent_helper",
        "/sys/power/state",
    ]
    return any_of([lambda path=path: os.open(path, os.O_WRONLY) > 0 for path in paths])


@attempt
def group_of_processes_outside() -> object:
    found = [os.path.join(at, "release_agent") for at, _, _ in os.walk("/sys/fs/cgroup")]
    return any_of([lambda path=path: os.open(path, os.O_WRONLY) > 0 for path in found[:50]])


@attempt
def open_by_handle() -> object:
    handle = ctypes.create_string_buffer(b"\x08\0\0\0\1\0\0\0\2\0\0\0\0\0\0\0")
    here = os.open(WORK, os.O_RDONLY)
    return called("open_by_handle_at", here, handle, os.O_RDONLY)


@attempt
def change_permissions() -> object:
    os.chmod(f"{GIT}/config", 0o777)
    return True


# --- processes


@attempt
def signal_the_parent() -> object:
    os.kill(T["pid"], 0)
    return True


@attempt
def trace_the_parent() -> object:
    return called("ptrace", 16, T["pid"], 0, 0)


@attempt
def read_the_parent() -> object:
    paths = [f"/proc/{T['pid']}/{name}" for name in ("environ", "mem", "maps")]
    return any_of([lambda path=path: open(path, "rb").read(1) for path in paths])


@attempt
def see_the_parent() -> object:
    return os.path.exists(f"/proc/{T['pid']}/status")


@attempt
def type_into_the_terminal() -> object:
    descriptors = [0, 1, 2]
    with contextlib.suppress(OSError):
        descriptors += pty.openpty()
    with contextlib.suppress(OSError):
        descriptors.append(os.open("/dev/tty", os.O_RDWR))
    return any_of([lambda fd=fd: fcntl.ioctl(fd, 0x5412, b"x") is not None for fd in descriptors])


# --- rights


@attempt
def another_user() -> object:
    os.setuid(0 if os.getuid() else 12345)
    return True


@attempt
def gain_by_setuid_program() -> object:
    with open("/proc/self/status") as file:
        lines = dict(line.split(":", 1) for line in file)
    return lines["NoNewPrivs"].strip() != "1" or int(lines["CapBnd"], 16) & int(lines["CapEff"], 16)


@attempt
def own_a_file_of_others() -> object:
    os.chown(f"{WORK}/sub/file", 12345, 12345)
    return True


@attempt
def mount() -> object:
    return called("mount", b"none", b"/mnt", b"tmpfs", 0, 0)


@attempt
def unmount() -> object:
    return any_of([lambda p=p: called("umount2", p.encode(), 2) for p in (GIT, DIRGE, T["home"])])


@attempt
def new_namespaces() -> object:
    kinds = [0x10000000, 0x10020000, 0x00020000, 0x40000000]
    return any_of([lambda kind=kind: called("unshare", kind) for kind in kinds])


@attempt
def change_root() -> object:
    os.chroot(WORK)
    return True


@attempt
def keys_of_the_session() -> object:
    numbers = {"x86_64": (248, 249, 250), "aarch64": (217, 218, 219)}[os.uname().machine]
    add, request, control = numbers
    return any_of(
        [
            lambda: called("syscall", control, 0, -3, 0),
            lambda: called("syscall", request, b"user", b"dirge", None, -3),
            lambda: called("syscall", add, b"user", b"dirge", b"x", 1, -3),
        ]
    )


@attempt
def calls_for_administrators() -> object:
    rings = ctypes.create_string_buffer(256)
    x86 = os.uname().machine == "x86_64"
    return any_of(
        [
            lambda: called("syscall", 321 if x86 else 280, 5, rings, 128),
            lambda: called("syscall", 323 if x86 else 282, 0),
            lambda: called("syscall", 425, 4, rings),
        ]
    )


@attempt
def system_v_memory() -> object:
    return called("shmget", T["shm_key"], 0, 0o600)


# --- the network and its neighbours


def connected(family: int, address: object) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as made:
        made.settimeout(1)
        made.connect(address)  # type: ignore[arg-type]
        return True


@attempt
def ipv4() -> object:
    return connected(socket.AF_INET, ("127.0.0.1", T["port"]))


@attempt
def ipv6() -> object:
    return connected(socket.AF_INET6, ("::1", T["port6"]))


@attempt
def far_away() -> object:
    return connected(socket.AF_INET, ("1.1.1.1", 53))


@attempt
def name_server() -> object:
    query = b"\0\1\1\0\0\1\0\0\0\0\0\0\7example\3org\0\0\1\0\1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        return made.sendto(query, ("1.1.1.1", 53))


@attempt
def abstract_socket() -> object:
    return connected(socket.AF_UNIX, "\0" + T["abstract"])


@attempt
def sockets_of_services() -> object:
    return any_of([lambda path=path: connected(socket.AF_UNIX, path) for path in T["sockets"]])


@attempt
def socket_of_the_machine_below() -> object:
    return socket.socket(40, socket.SOCK_STREAM)


@attempt
def raw_socket() -> object:
    return any_of(
        [
            lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP),
            lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW),
        ]
    )


# --- last, as it takes the ground from under the others


@attempt
def rename_the_parents() -> object:
    folder = os.path.dirname(WORK)
    os.rename(folder, f"{folder}.old")
    os.makedirs(f"{WORK}/.git/hooks")
    write(f"{WORK}/.git/hooks/pre-commit")
    return False  # whether it did anything is seen from outside


def gets_through(make: Callable[[], object]) -> bool:
    """Try it in its own process, so that attempts do not affect each other."""
    child = os.fork()
    if child == 0:
        through = False
        with contextlib.suppress(BaseException):
            through = bool(make())
        os._exit(7 if through else 0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


chosen = T.get("only", ATTEMPTS)
sys.stdout.write(json.dumps({name: gets_through(ATTEMPTS[name]) for name in chosen}))
