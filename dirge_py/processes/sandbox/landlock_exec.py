"""Restricts a process permanently with Landlock and a system call filter.

Also a program: `python -I -S landlock_exec.py SETTINGS -- COMMAND…` gives up every right that
SETTINGS (JSON) does not name and becomes the command. So it imports nothing of dirge's: it runs
before any module could be found.

SETTINGS: `rules`, pairs of a path and a key of `RIGHTS`; `filter`, the system call filter in hex;
`limits`, triples of a resource, its soft and its hard limit; `tmp`, a folder for temporary files.
"""

import ctypes
import json
import os
import resource
import struct
import sys
from collections.abc import Collection, Iterable

_CREATE, _ADD, _RESTRICT = 444, 445, 446  # the same numbers on every machine
_SET_NO_NEW_PRIVS, _SET_SECCOMP, _DROP_BOUNDING = 38, 22, 24
_CAPABILITY_VERSION_3 = 0x20080522
_CAPSET = {"x86_64": 126, "aarch64": 91}

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_ALL_OF_FILES = (1 << 15) - 1
_ON_A_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
RIGHTS = {
    "show": _EXECUTE | _READ_FILE | _READ_DIR,
    "write": _ALL_OF_FILES,
    "read": _READ_FILE | _READ_DIR,
    "execute": _EXECUTE,
    "scratch": _ALL_OF_FILES & ~_EXECUTE,
}
"""The rights that a rule grants for a path and everything below it."""

_NETWORK = 0b11  # to bind and to connect TCP sockets
_SCOPES = 0b11  # abstract sockets and signals

LOWEST_ABI = 3
"""Below this version a file outside could be truncated, if the system call filter allows it."""

_libc = ctypes.CDLL(None, use_errno=True)


def abi() -> int:
    """Return the version of Landlock that the kernel offers; 0 if it has none."""
    return max(0, int(_libc.syscall(_CREATE, None, 0, 1)))


def main(words: list[str]) -> None:
    settings, command = json.loads(words[0]), words[2:]
    if abi() < LOWEST_ABI:
        sys.exit(f"This kernel has no Landlock of version {LOWEST_ABI} or later.")
    try:
        for limit, soft, hard in settings["limits"]:
            resource.setrlimit(limit, (soft, hard))
        drop_capabilities()
        ruleset = make_ruleset(settings["rules"])
        restrict_thread(ruleset, bytes.fromhex(settings["filter"]))
        os.close(ruleset)
    except OSError as error:
        sys.exit(f"The sandbox cannot be created: {error.filename}: {error.strerror}.")
    os.environ["TMPDIR"] = settings["tmp"]
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"{command[0]}: {error.strerror}")


def make_ruleset(rules: Iterable[tuple[str, str]]) -> int:
    """Return a descriptor of a new ruleset, which may be used repeatedly; the caller closes it.

    `rules` are pairs of a path and a key of `RIGHTS`. A missing path allows nothing. Raises OSError
    if the kernel refused it; `filename` says which call.
    """
    version = abi()
    handled = _ALL_OF_FILES
    if version < 3:
        handled &= ~_TRUNCATE
    if version < 2:
        handled &= ~_REFER
    network, scopes = _NETWORK if version >= 4 else 0, _SCOPES if version >= 6 else 0
    attributes = struct.pack("=QQQ", handled, network, scopes)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = _checked("landlock", _libc.syscall(_CREATE, attributes, size, 0))
    try:
        for path, name in rules:
            _allow(ruleset, path, RIGHTS[name] & handled)
    except OSError:
        os.close(ruleset)
        raise
    return ruleset


def restrict_thread(ruleset: int, call_filter: bytes) -> None:
    """Restrict the calling thread, and every process it starts, to `ruleset` and `call_filter`.

    Other threads keep their rights. This cannot be undone. Raises OSError if the kernel refused it;
    `filename` says which call. Rights may be lost already.
    """
    _checked("prctl", _libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _checked("landlock", _libc.syscall(_RESTRICT, ruleset, 0))
    code = ctypes.create_string_buffer(call_filter, len(call_filter))
    described = struct.pack("@HP", len(call_filter) // 8, ctypes.addressof(code))
    _checked("seccomp", _libc.prctl(_SET_SECCOMP, 2, described, 0, 0))


def drop_capabilities(kept: Collection[int] = ()) -> None:
    """Give up root's capabilities, except those with the numbers `kept`.

    Applies to the calling thread and the processes it starts. Other users have none. Raises OSError
    if the kernel refused it; `filename` says which call.
    """
    for number in range(64):
        if number not in kept:
            _libc.prctl(_DROP_BOUNDING, number, 0, 0, 0)
    low = sum(1 << number for number in kept) if os.geteuid() == 0 else 0
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    data = struct.pack("=6I", low, low, 0, 0, 0, 0)
    _checked("capset", _libc.syscall(_CAPSET[os.uname().machine], header, data))


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # removed meanwhile: nothing to allow
    try:
        if not os.path.isdir(f"/proc/self/fd/{place}"):
            rights &= _ON_A_FILE
        rule = struct.pack("=Qi", rights, place)
        _checked("landlock", _libc.syscall(_ADD, ruleset, 1, rule, 0))
    finally:
        os.close(place)


def _checked(what: str, answer: int) -> int:
    if answer < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), what)
    return answer


if __name__ == "__main__":
    main(sys.argv[1:])
