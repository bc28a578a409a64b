"""Started as a program of its own, `python -I -S landlock_exec.py SETTINGS -- COMMAND…`.

It takes from itself every right that SETTINGS (JSON) does not name, for good, and becomes the
command. It imports nothing of ours: it runs before anything could be found.

SETTINGS: `rules`, pairs of a path and "show" or "write"; `filter`, the system call filter in hex;
`limits`, triples of a resource, its soft and its hard limit; `tmp`, a folder for temporary files.
"""

import ctypes
import json
import os
import resource
import struct
import sys

_CREATE, _ADD, _RESTRICT = 444, 445, 446  # the same numbers on every machine
_SET_NO_NEW_PRIVS, _SET_SECCOMP, _DROP_BOUNDING = 38, 22, 24
_CAPABILITY_VERSION_3 = 0x20080522
_CAPSET = {"x86_64": 126, "aarch64": 91}

_EXECUTE, _WRITE_FILE, _READ_FILE, _TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 14
_READ_DIR = 1 << 3
_ALL_OF_FILES = (1 << 15) - 1
_ON_A_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
_RIGHTS = {"show": _EXECUTE | _READ_FILE | _READ_DIR, "write": _ALL_OF_FILES}
_NETWORK = 0b11  # to bind and to connect TCP sockets
_SCOPES = 0b11  # abstract sockets and signals

LOWEST_ABI = 3
"""Before it a file outside could be cut to nothing."""

_libc = ctypes.CDLL(None, use_errno=True)


def abi() -> int:
    """What the kernel can do; 0 if it has no Landlock."""
    return max(0, int(_libc.syscall(_CREATE, None, 0, 1)))


def main(words: list[str]) -> None:
    settings, command = json.loads(words[0]), words[2:]
    for limit, soft, hard in settings["limits"]:
        resource.setrlimit(limit, (soft, hard))
    _drop_capabilities()
    _checked("prctl", _libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _restrict(settings["rules"])
    _filter(bytes.fromhex(settings["filter"]))
    os.environ["TMPDIR"] = settings["tmp"]
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"{command[0]}: {error.strerror}")


def _restrict(rules: list[list[str]]) -> None:
    version = abi()
    if version < LOWEST_ABI:
        sys.exit("This kernel has no Landlock that would do.")
    attributes = struct.pack(
        "=QQQ",
        _ALL_OF_FILES,
        _NETWORK if version >= 4 else 0,
        _SCOPES if version >= 6 else 0,
    )
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = _checked("landlock", _libc.syscall(_CREATE, attributes, size, 0))
    for path, effect in rules:
        _allow(ruleset, path, _RIGHTS[effect])
    _checked("landlock", _libc.syscall(_RESTRICT, ruleset, 0))
    os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # gone in the meantime: nothing to allow
    if not os.path.isdir(f"/proc/self/fd/{place}"):
        rights &= _ON_A_FILE
    rule = struct.pack("=Qi", rights, place)
    _checked("landlock", _libc.syscall(_ADD, ruleset, 1, rule, 0))
    os.close(place)


def _filter(program: bytes) -> None:
    code = ctypes.create_string_buffer(program, len(program))
    described = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
    _checked("seccomp", _libc.prctl(_SET_SECCOMP, 2, described, 0, 0))


def _drop_capabilities() -> None:
    """Nothing that root could do more than others; others have nothing to drop."""
    for number in range(64):
        _libc.prctl(_DROP_BOUNDING, number, 0, 0, 0)
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    _checked("capset", _libc.syscall(_CAPSET[os.uname().machine], header, bytes(24)))


def _checked(what: str, answer: int) -> int:
    if answer < 0:
        sys.exit(f"The sandbox could not be made: {what}: {os.strerror(ctypes.get_errno())}.")
    return answer


if __name__ == "__main__":
    main(sys.argv[1:])
