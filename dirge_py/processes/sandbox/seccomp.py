"""Builds a system call filter for the kernel.

It denies what neither mounts nor namespaces do: the keyrings of dirge's session, typing into the
terminal, new user namespaces, sockets of the host machine (vsock), io_uring (which would bypass the
filter), and calls for administrators. For read-only commands it also denies every way to change a
file's mode, owner, times and attributes, which Landlock leaves open.
"""

import platform
import struct
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_EPERM, _ENOSYS, _EAFNOSUPPORT = 1, 38, 97
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER_AT, _MACHINE_AT, _FIRST_AT, _SECOND_AT = 0, 4, 16, 24

_X32_BIT = 0x40000000
_NEW_USER_NAMESPACE = 0x10000000
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_SET_FLAGS = (0x40086602, 0x40046602, 0x401C5820)  # chattr, also of 32 bits; projects
_STREAM, _SEQPACKET, _TYPE_OF_SOCKET = 1, 5, 0xF
_ACCESS_AND_TRUNCATE, _READ_AND_TRUNCATE = 0o1003, 0o1000
_OPEN_FAMILIES = (1, 2, 10, 16)  # AF_UNIX, AF_INET, AF_INET6, AF_NETLINK

# Programs try these first and use another call if the kernel does not have them.
_ABSENT = frozenset(("clone3", "io_uring_setup", "io_uring_enter", "io_uring_register"))
_JUDGED = frozenset(("ioctl", "socket", "clone", "unshare"))


_ARGUMENTS = {"first": 16, "second": 24, "third": 32}
"""Where the filter finds an argument of a call."""


@cache
def _calls() -> Mapping[str, Any]:
    """The numbers of system calls: `syscalls.toml`."""
    return tomllib.loads(Path(__file__).with_name("syscalls.toml").read_text(encoding="utf-8"))


def filter_program(
    *, sockets: bool, ipc: bool = True, metadata: bool = True, machine: str = ""
) -> bytes | None:
    """Return the filter in 8-byte instructions; None on a machine with unknown system calls.

    Without `sockets`, only connected pairs can be created. Without `ipc`, no memory is shared with
    processes outside. Without `metadata`, no file's attributes can be changed by its path, and no
    file is truncated by opening it to read.
    """
    everywhere, calls = _calls()["everywhere"], _calls().get(machine or platform.machine())
    if calls is None:
        return None
    numbers = everywhere["refused"] | calls["refused"]
    errors = {
        number: _ENOSYS if call in _ABSENT else _EPERM
        for call, number in numbers.items()
        if call not in _JUDGED
    }
    judged: list[_Instruction] = []
    if not sockets:
        judged += _if_call(calls["socketpair"], _only_connected_pairs())
    if not ipc:
        errors |= dict.fromkeys(calls["shared_memory"], _EPERM)
        judged += _only_for_itself(calls["limits_of_others"])
    if not metadata:
        errors |= dict.fromkeys((*calls["metadata"], *everywhere["metadata"]), _EPERM)
        judged += _no_change_of_files(numbers["ioctl"], calls["open"], everywhere["openat2"])
        judged += _only_for_itself(calls["scheduling_of_others"])
    new_namespace = [(_LOAD, 0, 0, _FIRST_AT), (_ANY_BIT, 0, 1, _NEW_USER_NAMESPACE)]
    typing = [(_LOAD, 0, 0, _SECOND_AT), (_EQUAL, 1, 0, _TIOCSTI), (_EQUAL, 0, 1, _TIOCLINUX)]
    for call, then in (("clone", new_namespace), ("unshare", new_namespace), ("ioctl", typing)):
        judged += _if_call(numbers[call], [*then, *_REFUSE_OR_ALLOW])
    judged += _if_call(numbers["socket"], _only_open_families() if sockets else [_fail(_EPERM)])
    return b"".join(
        struct.pack("=HBBI", code, yes, no, value)
        for code, yes, no, value in _instructions(calls["audit"], errors, judged)
    )


_Instruction = tuple[int, int, int, int]


def _instructions(
    audit: int, errors: Mapping[int, int], judged: Sequence[_Instruction]
) -> Iterator[_Instruction]:
    yield _LOAD, 0, 0, _MACHINE_AT
    # System calls of other machines, such as those of 32-bit programs, have other numbers.
    yield _EQUAL, 1, 0, audit
    yield _fail(_ENOSYS)
    yield _LOAD, 0, 0, _NUMBER_AT
    yield _AT_LEAST, 0, 1, _X32_BIT
    yield _fail(_ENOSYS)
    for number, error in errors.items():
        yield from _if_call(number, [_fail(error)])
    yield from judged
    yield _RETURN, 0, 0, _ALLOW


def _only_open_families() -> list[_Instruction]:
    families: list[_Instruction] = []
    for family in _OPEN_FAMILIES:
        families += [(_EQUAL, 0, 1, family), (_RETURN, 0, 0, _ALLOW)]
    return [(_LOAD, 0, 0, _FIRST_AT), *families, _fail(_EAFNOSUPPORT)]


def _only_connected_pairs() -> list[_Instruction]:
    """Allow connected stream and packet pairs: a datagram socket could be connected elsewhere."""
    return [
        (_LOAD, 0, 0, _SECOND_AT),
        (_AND, 0, 0, _TYPE_OF_SOCKET),
        (_EQUAL, 2, 0, _STREAM),
        (_EQUAL, 1, 0, _SEQPACKET),
        *_REFUSE_OR_ALLOW,
    ]


def _only_for_itself(calls: Mapping[str, str]) -> Iterator[_Instruction]:
    """Allow calls with a process argument only for the caller (0)."""
    for number, argument in calls.items():
        is_caller = [(_LOAD, 0, 0, _ARGUMENTS[argument]), (_EQUAL, 1, 0, 0)]
        yield from _if_call(int(number), [*is_caller, *_REFUSE_OR_ALLOW])


def _no_change_of_files(
    ioctl: int, opening: Mapping[str, str], openat2: int
) -> Iterator[_Instruction]:
    """Deny changes of a file's flags, and truncation by opening a file to read."""
    for code in _SET_FLAGS:
        yield from (
            (_EQUAL, 0, 4, ioctl),
            (_LOAD, 0, 0, _SECOND_AT),
            (_EQUAL, 0, 1, code),
            _fail(_EPERM),
            (_LOAD, 0, 0, _NUMBER_AT),
        )
    yield _EQUAL, 0, 1, openat2  # its flags are in memory, which a filter cannot read
    yield _fail(_ENOSYS)
    for number, flags in opening.items():
        cuts = [
            (_LOAD, 0, 0, _ARGUMENTS[flags]),
            (_AND, 0, 0, _ACCESS_AND_TRUNCATE),
            (_EQUAL, 0, 1, _READ_AND_TRUNCATE),
        ]
        yield from _if_call(int(number), [*cuts, *_REFUSE_OR_ALLOW])


def _if_call(number: int, then: list[_Instruction]) -> Iterator[_Instruction]:
    """Run `then`, which must end the filter, for the call `number`; else continue after it."""
    yield _EQUAL, 0, len(then), number
    yield from then


def _fail(errno: int) -> _Instruction:
    return _RETURN, 0, 0, _ERRNO | errno


_REFUSE_OR_ALLOW = (_fail(_EPERM), (_RETURN, 0, 0, _ALLOW))
"""The jump after a check: to the first instruction, or past it."""
