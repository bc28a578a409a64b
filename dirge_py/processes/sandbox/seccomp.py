"""Builds a system call filter for the kernel.

It denies what neither mounts nor namespaces do: the keyrings of dirge's session, typing into the
terminal, new user namespaces, sockets of the host machine (vsock), io_uring (which would bypass the
filter), and calls for administrators. For read-only commands it also denies every way to change a
file's mode, owner, times and attributes, which Landlock leaves open.
"""

import platform
import struct
from collections.abc import Iterator, Mapping, Sequence

_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_EPERM, _ENOSYS, _EAFNOSUPPORT = 1, 38, 97
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER_AT, _MACHINE_AT, _FIRST_AT, _SECOND_AT, _THIRD_AT = 0, 4, 16, 24, 32

_X32_BIT = 0x40000000
_NEW_USER_NAMESPACE = 0x10000000
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_SET_FLAGS = (0x40086602, 0x40046602, 0x401C5820)  # chattr, also of 32 bits; projects
_STREAM, _SEQPACKET, _TYPE_OF_SOCKET = 1, 5, 0xF
_ACCESS_AND_TRUNCATE, _READ_AND_TRUNCATE = 0o1003, 0o1000
_OPEN_FAMILIES = (1, 2, 10, 16)  # AF_UNIX, AF_INET, AF_INET6, AF_NETLINK

_EVERYWHERE = {  # the same numbers on every machine
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433,
    "clone3": 435, "mount_setattr": 442, "quotactl_fd": 443,
}  # fmt: skip
_X86_64 = _EVERYWHERE | {
    "ioctl": 16, "socket": 41, "clone": 56, "pivot_root": 155, "acct": 163, "mount": 165,
    "umount2": 166, "swapon": 167, "swapoff": 168, "reboot": 169, "iopl": 172, "ioperm": 173,
    "init_module": 175, "delete_module": 176, "quotactl": 179, "kexec_load": 246, "add_key": 248,
    "request_key": 249, "keyctl": 250, "unshare": 272, "perf_event_open": 298,
    "open_by_handle_at": 304, "setns": 308, "finit_module": 313, "kexec_file_load": 320,
    "bpf": 321, "userfaultfd": 323,
}  # fmt: skip
_AARCH64 = _EVERYWHERE | {
    "ioctl": 29, "umount2": 39, "mount": 40, "pivot_root": 41, "quotactl": 60, "acct": 89,
    "unshare": 97, "kexec_load": 104, "init_module": 105, "delete_module": 106, "reboot": 142,
    "socket": 198, "add_key": 217, "request_key": 218, "keyctl": 219, "clone": 220, "swapon": 224,
    "swapoff": 225, "perf_event_open": 241, "open_by_handle_at": 265, "setns": 268,
    "finit_module": 273, "bpf": 280, "userfaultfd": 282, "kexec_file_load": 294,
}  # fmt: skip

_SHARED_MEMORY = {
    "x86_64": (29, 30, 64, 65, 68, 69, 70, 220, 240),
    "aarch64": (180, 186, 188, 189, 190, 192, 193, 194, 196),
}
"""Memory, semaphores and queues that belong to no file: shmget, shmat, semget, mq_open …"""

_METADATA = {
    "x86_64": (76, 90, 91, 92, 93, 94, 132, 188, 189, 190, 197, 198, 199, 235, 260, 261, 268, 280),
    "aarch64": (5, 6, 7, 14, 15, 16, 45, 52, 53, 54, 55, 88),
}
"""truncate, and calls that set a file's mode, owner, times or extended attributes: chmod, lchown,
utimensat, setxattr, removexattr …"""
_METADATA_EVERYWHERE = (452, 463, 466, 469)  # fchmodat2, setxattrat, removexattrat, file_setattr
_SOCKET_PAIR = {"x86_64": 53, "aarch64": 199}
_LIMITS_OF_OTHERS = {"x86_64": {302: _FIRST_AT}, "aarch64": {261: _FIRST_AT}}
"""prlimit: the index of its process argument; 0 is the caller."""
_SCHEDULING_OF_OTHERS = {
    "x86_64": {
        141: _SECOND_AT, 142: _FIRST_AT, 144: _FIRST_AT, 203: _FIRST_AT, 251: _SECOND_AT,
        314: _FIRST_AT,
    },
    "aarch64": {
        30: _SECOND_AT, 118: _FIRST_AT, 119: _FIRST_AT, 122: _FIRST_AT, 140: _SECOND_AT,
        274: _FIRST_AT,
    },
}  # fmt: skip
"""setpriority, sched_setparam, sched_setscheduler, sched_setaffinity, ioprio_set, sched_setattr."""
_OPENAT2 = 437
_OPEN = {"x86_64": {2: _SECOND_AT, 257: _THIRD_AT}, "aarch64": {56: _THIRD_AT}}
"""open and openat: the index of their flags argument."""

# Programs try these first and use another call if the kernel does not have them.
_ABSENT = frozenset(("clone3", "io_uring_setup", "io_uring_enter", "io_uring_register"))
_JUDGED = frozenset(("ioctl", "socket", "clone", "unshare"))


_MACHINES = {"x86_64": (0xC000003E, _X86_64), "aarch64": (0xC00000B7, _AARCH64)}
"""The number by which the kernel identifies a machine, and its system calls."""


def filter_program(
    *, sockets: bool, ipc: bool = True, metadata: bool = True, machine: str = ""
) -> bytes | None:
    """Return the filter in 8-byte instructions; None on a machine with unknown system calls.

    Without `sockets`, only connected pairs can be created. Without `ipc`, no memory is shared with
    processes outside. Without `metadata`, no file's attributes can be changed by its path, and no
    file is truncated by opening it to read.
    """
    name = machine or platform.machine()
    if name not in _MACHINES:
        return None
    audit, numbers = _MACHINES[name]
    errors = {
        number: _ENOSYS if call in _ABSENT else _EPERM
        for call, number in numbers.items()
        if call not in _JUDGED
    }
    judged: list[_Instruction] = []
    if not sockets:
        judged += _if_call(_SOCKET_PAIR[name], _only_connected_pairs())
    if not ipc:
        errors |= dict.fromkeys(_SHARED_MEMORY[name], _EPERM)
        judged += _only_for_itself(_LIMITS_OF_OTHERS[name])
    if not metadata:
        errors |= dict.fromkeys((*_METADATA[name], *_METADATA_EVERYWHERE), _EPERM)
        judged += _no_change_of_files(numbers["ioctl"], _OPEN[name])
        judged += _only_for_itself(_SCHEDULING_OF_OTHERS[name])
    new_namespace = [(_LOAD, 0, 0, _FIRST_AT), (_ANY_BIT, 0, 1, _NEW_USER_NAMESPACE)]
    typing = [(_LOAD, 0, 0, _SECOND_AT), (_EQUAL, 1, 0, _TIOCSTI), (_EQUAL, 0, 1, _TIOCLINUX)]
    for call, then in (("clone", new_namespace), ("unshare", new_namespace), ("ioctl", typing)):
        judged += _if_call(numbers[call], [*then, *_REFUSE_OR_ALLOW])
    judged += _if_call(numbers["socket"], _only_open_families() if sockets else [_fail(_EPERM)])
    return b"".join(
        struct.pack("=HBBI", code, yes, no, value)
        for code, yes, no, value in _instructions(audit, errors, judged)
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


def _only_for_itself(calls: Mapping[int, int]) -> Iterator[_Instruction]:
    """Allow calls with a process argument only for the caller (0)."""
    for number, at in calls.items():
        yield from _if_call(number, [(_LOAD, 0, 0, at), (_EQUAL, 1, 0, 0), *_REFUSE_OR_ALLOW])


def _no_change_of_files(ioctl: int, opening: Mapping[int, int]) -> Iterator[_Instruction]:
    """Deny changes of a file's flags, and truncation by opening a file to read."""
    for code in _SET_FLAGS:
        yield from (
            (_EQUAL, 0, 4, ioctl),
            (_LOAD, 0, 0, _SECOND_AT),
            (_EQUAL, 0, 1, code),
            _fail(_EPERM),
            (_LOAD, 0, 0, _NUMBER_AT),
        )
    yield _EQUAL, 0, 1, _OPENAT2  # its flags are in memory, which a filter cannot read
    yield _fail(_ENOSYS)
    for number, flags_at in opening.items():
        cuts = [
            (_LOAD, 0, 0, flags_at),
            (_AND, 0, 0, _ACCESS_AND_TRUNCATE),
            (_EQUAL, 0, 1, _READ_AND_TRUNCATE),
        ]
        yield from _if_call(number, [*cuts, *_REFUSE_OR_ALLOW])


def _if_call(number: int, then: list[_Instruction]) -> Iterator[_Instruction]:
    """Run `then`, which must end the filter, for the call `number`; else continue after it."""
    yield _EQUAL, 0, len(then), number
    yield from then


def _fail(errno: int) -> _Instruction:
    return _RETURN, 0, 0, _ERRNO | errno


_REFUSE_OR_ALLOW = (_fail(_EPERM), (_RETURN, 0, 0, _ALLOW))
"""The jump after a check: to the first instruction, or past it."""
