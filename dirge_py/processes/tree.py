"""All processes of one command, and how they are ended so that none is left."""

import asyncio
import contextlib
import os
import signal
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.processes.environment import MARKER_NAME
from dirge_py.processes.marks import Mark, mark_of
from dirge_py.processes.orphans import adopt_orphans
from dirge_py.processes.table import (
    ProcessEntry,
    family_table,
    has_in_environment,
    read_entry,
)

_RESCAN_S = 0.005
_LONGEST_PAUSE_S = 0.05
_KILL_LIMIT_S = 2.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How many processes ran when the ending began, and the numbers of those that still run."""

    running: int
    left: tuple[int, ...] = ()


class CommandTree:
    """The processes that came out of one command, whatever they did to get away.

    Members are the leader (the process we started), all descendants by parent, its group and
    session, and every process that inherited the marker in its environment or the mark among its
    limits. Who once was a member stays one. What gets away is a process that got rid of both *and*
    left the session *and* lost its parent before anybody looked: `strays` finds that one.
    """

    def __init__(self, leader: int, marker: str, mark: Mark) -> None:
        """`leader` must not have been reaped yet: its number is still its own."""
        self._limit = mark.number
        self._leader = leader
        self._mark = f"{MARKER_NAME}={marker}".encode()
        entry = read_entry(leader)
        self._leader_started = entry.started if entry else 0
        self._known: dict[int, int] = {leader: self._leader_started}

    def running(self) -> list[ProcessEntry]:
        """Members that still run, newest first. Dead ones that became our children are reaped."""
        members = self._members(family_table())
        self._known = {entry.pid: entry.started for entry in members}
        for entry in members:
            if entry.is_zombie:
                self._reap(entry)
        running = [entry for entry in members if not entry.is_zombie]
        # A process that forks and exits in a chain is caught, if at all, at its newest link.
        return sorted(running, key=lambda entry: entry.pid, reverse=True)

    def running_pids(self) -> tuple[int, ...]:
        """The numbers of the members that still run, in ascending order."""
        return tuple(sorted(entry.pid for entry in self.running()))

    def work_s(self) -> float:
        """Processor time that the members running now have used, in seconds."""
        return sum(entry.work_s for entry in self.running())

    def send(self, number: signal.Signals) -> int:
        """Signal every running member once; returns how many there were."""
        members = self.running()
        if any(entry.group == self._leader for entry in members):
            # The whole group in one step: nobody in it can fork between two kills.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._leader, number)
        pids = {entry.pid for entry in members}
        # A shell goes before its children, whose end it would report.
        for entry in sorted(members, key=lambda entry: entry.parent in pids):
            if entry.group != self._leader:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(entry.pid, number)
        return len(members)

    def _members(self, table: Mapping[int, ProcessEntry]) -> list[ProcessEntry]:
        children = _children_of(table)
        roots = {pid for pid, started in self._known.items() if _is_same(table.get(pid), started)}
        roots |= {entry.pid for entry in table.values() if self._shares_session(entry, table)}
        members = set(_with_descendants(roots, children))
        suspects = _with_descendants([os.getpid()], children) if adopt_orphans() else table
        marked = [pid for pid in suspects if pid not in members and self._is_marked(table, pid)]
        members.update(_with_descendants(marked, children))
        # Only a command that runs dirge itself could make us a member of our own tree.
        members.discard(os.getpid())
        return [table[pid] for pid in members if pid in table]

    def _shares_session(self, entry: ProcessEntry, table: Mapping[int, ProcessEntry]) -> bool:
        if self._leader not in (entry.session, entry.group):
            return False
        # A number is not given away while a session bears it. If another process has the
        # leader's, the session is gone, and this one only has the same number.
        leader = table.get(self._leader)
        return leader is None or leader.started == self._leader_started

    def _is_marked(self, table: Mapping[int, ProcessEntry], pid: int) -> bool:
        entry = table.get(pid)
        if entry is None or entry.is_zombie:
            return False
        if has_in_environment(pid, self._mark):
            return True
        return self._limit != 0 and mark_of(pid) == self._limit

    def _reap(self, entry: ProcessEntry) -> None:
        # One by one: waiting for any child would steal the exit codes of other owners.
        # The leader is reaped by its Popen, which needs its exit code.
        if entry.pid != self._leader and entry.parent == os.getpid():
            with contextlib.suppress(ChildProcessError):
                os.waitpid(entry.pid, os.WNOHANG)


async def wait(tree: CommandTree, *, limit_s: float) -> None:
    """Wait until no process of the tree runs, at most `limit_s`."""
    for pause_s in _pauses(tree, limit_s):
        await asyncio.sleep(pause_s)


async def end(tree: CommandTree, *, grace_s: float, limit_s: float = _KILL_LIMIT_S) -> Ended:
    """Ask every process of the tree to stop; after `grace_s` kill what is left, for `limit_s`."""
    running = tree.send(signal.SIGTERM)
    if running:
        await wait(tree, limit_s=grace_s)
    left = 0
    for left in _killing(tree, empty_scans=0 if running else 1, limit_s=limit_s):
        await asyncio.sleep(_RESCAN_S if left else 0)
    return Ended(running, tree.running_pids() if left else ())


def kill(tree: CommandTree) -> None:
    """Kill every process of the tree now, without an event loop: the last resort at exit."""
    for left in _killing(tree):
        time.sleep(_RESCAN_S if left else 0)


def _pauses(tree: CommandTree, limit_s: float) -> Iterator[float]:
    """Pauses to take, ever longer ones, while members still run and `limit_s` is not over."""
    deadline = time.monotonic() + limit_s
    pause_s = _RESCAN_S
    while (rest_s := deadline - time.monotonic()) > 0 and tree.running():
        yield min(pause_s, rest_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def _killing(
    tree: CommandTree, *, empty_scans: int = 0, limit_s: float = _KILL_LIMIT_S
) -> Iterator[int]:
    """Kill until two scans in a row find nobody, yielding what each scan found.

    One empty scan proves nothing: a process may have forked behind it and ended before it.
    `empty_scans` are those just made.
    """
    deadline = time.monotonic() + limit_s
    while empty_scans < 2 and time.monotonic() < deadline:
        left = tree.send(signal.SIGKILL)
        empty_scans = 0 if left else empty_scans + 1
        yield left


def _is_same(entry: ProcessEntry | None, started: int) -> bool:
    return entry is not None and entry.started == started


def _children_of(table: Mapping[int, ProcessEntry]) -> Mapping[int, list[int]]:
    children: defaultdict[int, list[int]] = defaultdict(list)
    for entry in table.values():
        children[entry.parent].append(entry.pid)
    return children


def _with_descendants(roots: Iterable[int], children: Mapping[int, list[int]]) -> set[int]:
    found: set[int] = set()
    waiting = list(roots)
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting.extend(children.get(pid, ()))
    return found
