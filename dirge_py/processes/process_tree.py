"""Processes of commands: the process table, the tree of one command, and processes that escaped it.

Every process of a command has `DIRGE_CALL=<marker>` in its environment. A `CommandTree` finds the
processes of one command by that, and by parent, group and session. On Linux dirge is also a
subreaper: the kernel makes every orphan among its descendants its child. So the `OrphanReaper`
finds a process that left its session, lost its parent and cleared its environment, too.

`abandoned_processes` are those of a dirge that was killed and could not end its commands.
"""

import asyncio
import contextlib
import functools
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.processes.environment import MARKER_NAME, set_process_option

_LONGEST_LINE = 4096
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
_PF_EXITING = 0x4  # linux/sched.h

_RESCAN_S = 0.005
"""The pause between two scans for processes that were killed and still run."""
_LONGEST_PAUSE_S = 0.05
"""The longest pause between two checks whether a tree has ended by itself."""
_KILL_LIMIT_S = 2.0
"""The longest time for killing the members of a tree."""
_ORPHAN_LIMIT_S = 2.5
"""The longest time for killing one command's orphans; its result names the rest."""
_LAST_ORPHAN_LIMIT_S = 1.0
"""The same for all commands when dirge ends."""
_SLICE_S = 0.01
"""How long the event loop is blocked at a time: a process that keeps forking must not escape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEntry:
    """One row of the process table."""

    pid: int
    parent: int
    """The pid of its parent."""
    group: int
    """Its process group."""
    session: int
    """Its session; on macOS its process group, because `ps` prints no session there."""
    is_zombie: bool
    """Whether all its threads have ended, not only the first one."""
    started: int
    """Its start time in clock ticks, which tells processes with the same pid apart; 0: unknown."""
    is_ending: bool = False
    """Whether it is a zombie or becomes one now: its environment cannot be read any more."""
    work_s: float = 0.0
    """The processor time it has used, in seconds; 0 if unknown."""


def process_table() -> dict[int, ProcessEntry]:
    """Return every visible process by pid."""
    if sys.platform == "linux":
        pids = (int(name) for name in os.listdir("/proc") if name.isdecimal())
        entries = [entry for pid in pids if (entry := read_entry(pid)) is not None]
    else:
        entries = _from_ps()
    return {entry.pid: entry for entry in entries}


def our_children() -> list[ProcessEntry]:
    """Return dirge's own children, also dead ones, fast enough to catch a chain of forks."""
    if not _has_children():
        return []
    # The kernel's lists of children. An orphan is in them before its parent counts as dead.
    listed = []
    try:
        for thread in os.listdir("/proc/self/task"):
            path = f"/proc/self/task/{thread}/children"
            # A thread that ends meanwhile leaves its children to another thread of this process.
            gone = contextlib.suppress(FileNotFoundError, ProcessLookupError)
            with gone, open(path, "rb") as file:
                listed.append(file.read())
    except OSError:
        listed.clear()
    if not listed:  # not Linux, or a kernel without these lists
        return [entry for entry in process_table().values() if entry.parent == os.getpid()]
    entries = (read_entry(int(pid)) for pids in listed for pid in pids.split())
    return [entry for entry in entries if entry is not None]


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def read_entry(pid: int) -> ProcessEntry | None:
    """Read one row from /proc; None if the process does not exist (any more)."""
    try:
        # Hundreds are read for each command: a file object would cost more.
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            line = os.read(fd, _LONGEST_LINE)
        finally:
            os.close(fd)
    except OSError:
        return None
    # The program's name is in parentheses and may contain parentheses and spaces.
    fields = line[line.rfind(b")") + 2 :].split()
    # The state is that of the first thread. Others may continue after it has ended.
    has_one_thread = int(fields[17]) <= 1
    is_zombie = has_one_thread and fields[0] in (b"Z", b"X")
    return ProcessEntry(
        pid=pid,
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        is_zombie=is_zombie,
        started=int(fields[19]),
        is_ending=is_zombie or (has_one_thread and bool(int(fields[6]) & _PF_EXITING)),
        work_s=(int(fields[11]) + int(fields[12])) / _TICKS_PER_S,
    )


def has_in_environment(pid: int, setting: bytes) -> bool:
    """Whether the process was started with this `NAME=value`; False if that cannot be read."""
    return setting in _strings(pid, "environ")


def _is_ending(pid: int) -> bool:
    """Whether the process is gone, a zombie or becoming one now."""
    entry = read_entry(pid)
    return entry is None or entry.is_ending


def _strings(pid: int, name: str) -> list[bytes]:
    """Return the strings in `environ` or `cmdline` of a process; empty if they cannot be read."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


def _from_ps() -> list[ProcessEntry]:
    """Read the table with `ps`: macOS has no /proc, nor a usable session, so the group is used."""
    command = ["/bin/ps", "-A", "-o", "pid=,ppid=,pgid=,state="]
    try:
        ended = subprocess.run(command, capture_output=True, check=False, timeout=2)
    except (OSError, subprocess.TimeoutExpired):
        return []
    entries = []
    for line in ended.stdout.splitlines():
        *numbers, state = line.split()
        pid, parent, group = map(int, numbers)
        is_zombie = state.startswith(b"Z")
        entry = ProcessEntry(
            pid=pid,
            parent=parent,
            group=group,
            session=group,
            is_zombie=is_zombie,
            is_ending=is_zombie,
            started=0,
        )
        entries.append(entry)
    return entries


@functools.cache
def adopt_orphans() -> bool:
    """Make orphaned descendants children of this process; return whether that works. Asked once.

    Linux only. Elsewhere they go to process 1, and are found only by their process group.
    """
    return set_process_option(_PR_SET_CHILD_SUBREAPER, 1)


@dataclass(frozen=True, slots=True)
class EndedProcesses:
    """The result of ending a command's processes."""

    running: int
    """How many ran at the start."""
    left: tuple[int, ...] = ()
    """The pids of those that still run."""


class CommandTree:
    """The processes of one command, including those that tried to escape.

    Members are the leader (the process dirge started), its group and session, every process with
    the marker in its environment, and their descendants. A member stays one. The `OrphanReaper`
    finds those that left the session and cleared their environment before a scan found them.
    """

    def __init__(self, leader: int, marker: str) -> None:
        """`leader` must not have been reaped yet, so that its pid is still its own."""
        self.leader = leader
        self.variable = f"{MARKER_NAME}={marker}".encode()
        entry = read_entry(leader)
        self.leader_started = entry.started if entry else 0
        self._known: dict[int, int] = {leader: self.leader_started}

    def running(self) -> list[ProcessEntry]:
        """Return running members, newest first; reap dead ones that became dirge's children."""
        # Without children there are no descendants. Reading the table costs more than a command.
        is_alone = adopt_orphans() and not _has_children()
        members = self._members({} if is_alone else process_table())
        self._known = {entry.pid: entry.started for entry in members}
        for entry in members:
            # The leader is reaped by its Popen, which needs its exit code.
            if entry.is_zombie and entry.parent == os.getpid() and entry.pid != self.leader:
                _reap(entry.pid)
        running = [entry for entry in members if not entry.is_zombie]
        # In a chain of processes that fork and exit, only the newest one can be caught.
        return sorted(running, key=lambda entry: entry.pid, reverse=True)

    def work_s(self) -> float:
        """Return the processor time of the running members, in seconds."""
        return sum(entry.work_s for entry in self.running())

    def send(self, number: signal.Signals) -> int:
        """Signal every running member once; return how many there were."""
        members = self.running()
        if any(entry.group == self.leader for entry in members):
            # The whole group in one step, so that none of it can fork between two kills.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.leader, number)
        pids = {entry.pid for entry in members}
        # A shell is ended before its children, whose end it would report.
        for entry in sorted(members, key=lambda entry: entry.parent in pids):
            if entry.group != self.leader:
                _signal(entry.pid, number)
        return len(members)

    def _members(self, table: Mapping[int, ProcessEntry]) -> list[ProcessEntry]:
        children: defaultdict[int, list[int]] = defaultdict(list)
        for entry in table.values():
            children[entry.parent].append(entry.pid)
        roots = {
            entry.pid
            for entry in table.values()
            if self._known.get(entry.pid) == entry.started or self._shares_session(entry, table)
        }
        members = _with_descendants(roots, children)
        suspects = _with_descendants([os.getpid()], children) if adopt_orphans() else set(table)
        for pid in suspects - members:
            suspect = table.get(pid)
            is_running = suspect is not None and not suspect.is_zombie
            if is_running and has_in_environment(pid, self.variable):
                members |= _with_descendants([pid], children)
        # Only a command that runs dirge itself could make this process a member of its own tree.
        members.discard(os.getpid())
        return [table[pid] for pid in members if pid in table]

    def _shares_session(self, entry: ProcessEntry, table: Mapping[int, ProcessEntry]) -> bool:
        if self.leader not in (entry.session, entry.group):
            return False
        # A number is not reused while a session has it. If another process has the leader's pid,
        # the session is gone, and this process only has the same number.
        leader = table.get(self.leader)
        return leader is None or leader.started == self.leader_started


async def wait_for_tree(tree: CommandTree, *, limit_s: float) -> None:
    """Wait until no process of the tree runs, at most `limit_s`."""
    deadline = time.monotonic() + limit_s
    pause_s = _RESCAN_S
    while (rest_s := deadline - time.monotonic()) > 0 and tree.running():
        await asyncio.sleep(min(pause_s, rest_s))
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


async def end_tree(
    tree: CommandTree, *, grace_s: float, limit_s: float = _KILL_LIMIT_S
) -> EndedProcesses:
    """Ask every process of the tree to stop; after `grace_s` kill the rest for `limit_s`."""
    running = tree.send(signal.SIGTERM)
    if running:
        await wait_for_tree(tree, limit_s=grace_s)
    left = 0
    for left in _killing(tree, empty_scans=0 if running else 1, limit_s=limit_s):
        await asyncio.sleep(_RESCAN_S if left else 0)
    pids = sorted(entry.pid for entry in tree.running()) if left else ()
    return EndedProcesses(running, tuple(pids))


def kill_tree(tree: CommandTree) -> None:
    """Kill every process of the tree now, without an event loop."""
    for left in _killing(tree):
        time.sleep(_RESCAN_S if left else 0)


def _killing(
    tree: CommandTree, *, empty_scans: int = 0, limit_s: float = _KILL_LIMIT_S
) -> Iterator[int]:
    """Kill until two scans in a row find nothing; yield how many each scan found.

    One empty scan proves nothing: a process may have forked behind it and ended before it.
    `empty_scans` is the number of empty scans just made.
    """
    deadline = time.monotonic() + limit_s
    while empty_scans < 2 and time.monotonic() < deadline:
        left = tree.send(signal.SIGKILL)
        empty_scans = 0 if left else empty_scans + 1
        yield left


def _with_descendants(roots: Iterable[int], children: Mapping[int, list[int]]) -> set[int]:
    family: set[int] = set()
    waiting = list(roots)
    while waiting:
        pid = waiting.pop()
        if pid not in family:
            family.add(pid)
            waiting.extend(children.get(pid, ()))
    return family


@dataclass(slots=True)
class _Orphans:
    """The orphans of one command, as the last scan found them."""

    variable: bytes
    """The variable that the command's processes inherit in their environment."""
    started: int
    """When the command's first process started: its orphans are not older."""
    most: int = 0
    """How many ran at once."""
    running: tuple[int, ...] = ()
    """Pids of the running ones."""
    dead: tuple[int, ...] = ()
    """Pids of those that had ended and were reaped."""


class OrphanReaper:
    """Finds the orphans of commands among this process's children, and kills them.

    A child is spared if it

    - is the started process of a running command,
    - was a child already when the first of the running commands started,
    - or shares dirge's session, which no descendant of a command can join again.

    When a command ends, all others with its marker are killed. Those that cleared their environment
    are killed when the last running command ends: before that, one of them may belong to a command
    that still runs.

    The dead are reaped whenever a command ends. A child in its own session must be started with a
    `Runner` while commands run. Without `adopt_orphans` the reaper does nothing.
    """

    def __init__(self) -> None:
        self._commands: dict[int, _Orphans] = {}
        self._earlier: dict[int, int] = {}
        self._is_unfinished = False

    def expect(self) -> None:
        """Prepare for a command that is about to start."""
        # An orphan of an earlier command must not count as older than this one.
        if not self._commands and not self._is_unfinished and adopt_orphans():
            self._earlier = {entry.pid: entry.started for entry in our_children()}

    def began(self, tree: CommandTree) -> None:
        """Register a started command."""
        if adopt_orphans():
            self._commands[tree.leader] = _Orphans(tree.variable, tree.leader_started)

    async def end_after(self, leader: int) -> EndedProcesses:
        """Kill the orphans of an ended command; return how many ran, and which still run."""
        await self.end_during(leader)
        orphans = self._commands.get(leader)
        return EndedProcesses(orphans.most if orphans else 0, self._left_after(leader))

    async def end_during(self, leader: int) -> None:
        """Kill the orphans of this command."""
        for pause_s in self._killing(self._commands.get(leader), _ORPHAN_LIMIT_S):
            if pause_s is not None:
                await asyncio.sleep(pause_s)

    def kill_after(self, leader: int) -> None:
        """Do the same as `end_after`, without an event loop. Repeating it changes nothing."""
        for pause_s in self._killing(self._commands.get(leader), _ORPHAN_LIMIT_S):
            time.sleep(pause_s or 0)
        self._left_after(leader)

    def kill_rest(self) -> None:
        """Kill the orphans of all commands, without an event loop, when none runs any more."""
        if self._is_unfinished and not self._commands:
            for pause_s in self._killing(_Orphans(b"", 0), _LAST_ORPHAN_LIMIT_S):
                time.sleep(pause_s or 0)

    def _killing(self, orphans: _Orphans | None, limit_s: float) -> Iterator[float | None]:
        """Kill until two scans in a row find nothing; yield the pause after each scan.

        A dead orphan counts as much as a running one: a process that forks and exits leaves one for
        each escape. No pause (None) while there are new ones.
        """
        if orphans is None:
            return
        orphans.most = 0
        deadline = time.monotonic() + limit_s
        slice_end = time.monotonic() + _SLICE_S
        empty_scans = 0
        while empty_scans < 2 and (now := time.monotonic()) < deadline:
            before = orphans.running
            self._kill(orphans)
            empty_scans = 0 if orphans.running or orphans.dead else empty_scans + 1
            is_dying = bool(orphans.running) and orphans.running == before
            pause_s = _RESCAN_S if is_dying else 0.0 if now > slice_end else None
            yield pause_s
            if pause_s is not None:
                slice_end = time.monotonic() + _SLICE_S

    def _left_after(self, leader: int) -> tuple[int, ...]:
        """Unregister the command; return the pids that may still run after the last scan."""
        last = self._commands.get(leader)
        if last is None:
            return ()
        if last.running or last.dead:
            self._is_unfinished = True
        elif len(self._commands) == 1:
            self._is_unfinished = False
        left = set(last.running or last.dead[-1:])
        for entry in self._found():
            if entry.pid in left:
                # It was killed, and ends as soon as it can: the next command need not wait for it.
                self._earlier[entry.pid] = entry.started
            elif entry.started >= last.started:
                # Without a marker, it may be this command's.
                markers = (each.variable for each in self._commands.values())
                is_marked = any(has_in_environment(entry.pid, marker) for marker in markers)
                if not is_marked and not _is_ending(entry.pid):
                    left.add(entry.pid)
        # Unregistered last: a command that starts meanwhile takes over the remaining orphans.
        del self._commands[leader]
        return tuple(sorted(left))

    def _kill(self, orphans: _Orphans) -> None:
        """Kill every running orphan of this command, reap every dead one."""
        found = self._found()
        has_others = any(each is not orphans for each in self._commands.values())
        # Without other commands, all are this one's. The environment of a dead one is unreadable:
        # it may be part of a chain of forks that continues.
        meant = [
            entry
            for entry in found
            if not has_others
            or has_in_environment(entry.pid, orphans.variable)
            or (entry.started >= orphans.started and _is_ending(entry.pid))
        ]
        # The newest first: in a chain of processes only the last one is alive.
        running = [entry for entry in reversed(meant) if not entry.is_zombie]
        for entry in running:
            try:
                os.kill(entry.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            except PermissionError:
                # It belongs to another user by now: the result names it, and no later command waits
                # for it.
                self._earlier[entry.pid] = entry.started
        for entry in found:
            if entry.is_zombie:
                _reap(entry.pid)
        orphans.running = tuple(entry.pid for entry in running)
        orphans.dead = tuple(entry.pid for entry in meant if entry.is_zombie)
        orphans.most = max(orphans.most, len(running))

    def _found(self) -> list[ProcessEntry]:
        return [
            entry
            for entry in our_children()
            if entry.pid not in self._commands
            and self._earlier.get(entry.pid) != entry.started
            and entry.session != os.getsid(0)
        ]


ORPHAN_REAPER = OrphanReaper()
"""The reaper of this process: children belong to a process, not to a `Runner`."""


def _reap(pid: int) -> None:
    """Reap one child. Waiting for any child would steal the exit codes of other owners."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


@dataclass(frozen=True, slots=True, kw_only=True)
class AbandonedProcess:
    """A process left running by a dirge that was killed."""

    pid: int
    """Its pid."""
    started: int
    """Its start time in clock ticks, which distinguishes it from a later one with the same pid."""
    command: str
    """Its command line."""


def abandoned_processes(program: int) -> Sequence[AbandonedProcess]:
    """Return the running processes of commands that the process `program` started, oldest first.

    Empty while that process itself runs. A command that cleared its environment is not found;
    without /proc none is.
    """
    table = process_table()
    owner = table.get(program)
    if owner is not None and not owner.is_zombie:
        return ()
    mark = f"{MARKER_NAME}={program}-".encode()
    abandoned = []
    for entry in sorted(table.values(), key=lambda entry: (entry.started, entry.pid)):
        environment = _strings(entry.pid, "environ")
        if not entry.is_zombie and any(item.startswith(mark) for item in environment):
            line = b" ".join(_strings(entry.pid, "cmdline")).decode(errors="replace").strip()
            abandoned.append(AbandonedProcess(pid=entry.pid, started=entry.started, command=line))
    return abandoned


def kill_abandoned(leftovers: Sequence[AbandonedProcess]) -> None:
    """Kill them, and their children with the same marker."""
    for process in leftovers:
        entry = read_entry(process.pid)
        if entry is not None and entry.started == process.started:
            _signal(process.pid, signal.SIGKILL)
