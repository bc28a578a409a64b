"""Orphans of our commands that no `CommandTree` finds: killed when their command is over.

A process that removed both marks, left its session and lost its parent shows no sign of the command
it came from. A process that forks and exits again and again is gone before a tree has read the
process table. But we are a subreaper: the kernel makes every orphan our child before its parent
counts as dead. So the list of our children is never empty while such a process runs.
"""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Iterator

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.processes.environment import MARKER_NAME
from dirge_py.processes.marks import Mark, mark_of
from dirge_py.processes.orphans import adopt_orphans
from dirge_py.processes.table import ProcessEntry, has_in_environment, our_children
from dirge_py.processes.tree import Ended

_LIMIT_S = 2.5
"""How long we try to kill the strays of one command, before its result names those left."""

_LAST_LIMIT_S = 1.0
"""The same, for what is left of all commands when dirge ends."""

_SLICE_S = 0.01
"""How long the event loop stands still at a time: what forks all the time must not be let go."""

_RESCAN_S = 0.005


@dataclass(frozen=True, slots=True)
class _Command:
    """A running command: its limit, its variable, and the unmarked strays that are older."""

    mark: Mark
    variable: bytes
    older: frozenset[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class _Scan:
    """Numbers of the strays of one command that ran, and of those that had died since."""

    running: tuple[int, ...] = ()
    dead: tuple[int, ...] = ()


class Strays:
    """Tells the orphans among our children from the children that others in this process started.

    A child is spared if it

    - is the started process of a running command,
    - was our child already when the first of the running commands began,
    - or shares our session: no descendant of a command can come back into that.

    When a command ends, all others that bear its mark are killed. Those that bear none are killed
    when the last running command ends: before that, one of them may belong to a command that still
    runs. But a busy machine may put the mark too late. When such a command ends, all without a mark
    are killed too, provided that every other command was marked in time.

    The dead are reaped whenever a command ends. Whoever starts a child in a session of its own
    while commands run must start it with a `Runner`.
    """

    def __init__(self) -> None:
        self._leaders: dict[int, _Command] = {}
        self._earlier: dict[int, int] = {}
        self._is_unfinished = False

    def expect(self) -> None:
        """A command is about to begin."""
        # What outran us must not count as having been here before.
        if not self._leaders and not self._is_unfinished and adopt_orphans():
            self._earlier = {entry.pid: entry.started for entry in our_children()}

    def began(self, leader: int, mark: Mark, marker: str) -> None:
        """It began, with this process, which was given this mark and this marker."""
        # Alone it owns all that comes: there is nothing to compare with.
        there = self._strays() if self._leaders else []
        older = frozenset((each.pid, each.started) for each in there)
        self._leaders[leader] = _Command(mark, f"{MARKER_NAME}={marker}".encode(), older)

    async def end_after(self, leader: int) -> Ended:
        """This command is over: kill its strays; returns how many ran, and which still run."""
        most, last = await self._end(leader)
        return Ended(most, self._left_after(leader, last))

    async def end_during(self, leader: int) -> None:
        """Kill the strays of this command, which is about to be over."""
        await self._end(leader)

    async def _end(self, leader: int) -> tuple[int, _Scan]:
        most, last = 0, _Scan()
        for last, pause_s in self._killing(leader, _LIMIT_S):
            most = max(most, len(last.running))
            if pause_s is not None:
                await asyncio.sleep(pause_s)
        return most, last

    def kill_after(self, leader: int) -> None:
        """As `end_after`, without an event loop. Doing it again changes nothing."""
        last = _Scan()
        for scan, pause_s in self._killing(leader, _LIMIT_S):
            last = scan
            time.sleep(pause_s or 0)
        self._left_after(leader, last)

    def kill_rest(self) -> None:
        """Kill what is left of all commands, without an event loop; none runs any more."""
        if self._is_unfinished and not self._leaders:
            for _, pause_s in self._killing(None, _LAST_LIMIT_S):
                time.sleep(pause_s or 0)

    def _killing(self, leader: int | None, limit_s: float) -> Iterator[tuple[_Scan, float | None]]:
        """Kill until two scans in a row find nothing; yields each scan, and the pause after it.

        A dead stray counts as much as a running one: whatever forks and exits leaves one for each
        time it got away from us. No pause (None) while there are new ones.
        """
        if not adopt_orphans() or (leader is not None and leader not in self._leaders):
            return
        deadline = time.monotonic() + limit_s
        slice_end = time.monotonic() + _SLICE_S
        empty_scans, before = 0, _Scan()
        while empty_scans < 2 and (now := time.monotonic()) < deadline:
            scan = self._kill(leader)
            empty_scans = 0 if scan.running or scan.dead else empty_scans + 1
            is_dying = bool(scan.running) and scan.running == before.running
            pause_s = _RESCAN_S if is_dying else 0.0 if now > slice_end else None
            before = scan
            yield scan, pause_s
            if pause_s is not None:
                slice_end = time.monotonic() + _SLICE_S

    def _left_after(self, leader: int, last: _Scan) -> tuple[int, ...]:
        """Give up the command; returns what may still run of it after this last scan."""
        command = self._leaders.get(leader)
        if command is None:
            return ()
        if last.running or last.dead:
            self._is_unfinished = True
        elif len(self._leaders) == 1:
            self._is_unfinished = False
        left = set(last.running or last.dead[-1:])
        for entry in self._strays():
            if entry.pid in left:
                # It was killed, and dies as soon as it can: the next command need not wait for it.
                self._earlier[entry.pid] = entry.started
            elif self._may_be_of(entry, command):
                left.add(entry.pid)
        # Given up last: a command that begins meanwhile takes over what is left.
        del self._leaders[leader]
        return tuple(sorted(left))

    def _may_be_of(self, entry: ProcessEntry, command: _Command) -> bool:
        """Whether it runs, nobody's mark is on it, and it came while the command ran."""
        is_new = (entry.pid, entry.started) not in command.older
        others = list(self._leaders.values())
        return is_new and not entry.is_zombie and not _bears_mark_of(entry.pid, others)

    def _kill(self, leader: int | None) -> _Scan:
        """Kill every stray of this command that runs, reap every dead one."""
        strays = self._strays()
        running = []
        # The newest first: of a chain of processes only the last one is alive.
        for entry in reversed(strays):
            if not entry.is_zombie and self._is_meant(entry.pid, leader):
                running.append(entry.pid)
                self._kill_one(entry)
        dead = [each.pid for each in strays if each.is_zombie and self._is_meant(each.pid, leader)]
        for entry in strays:
            if entry.is_zombie:
                # By its number: waiting for any child would steal the exit codes of other owners.
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(entry.pid, os.WNOHANG)
        return _Scan(tuple(running), tuple(dead))

    def _kill_one(self, entry: ProcessEntry) -> None:
        try:
            os.kill(entry.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        except PermissionError:
            # Another user's by now: it is named in the result, and no later command waits for it.
            self._earlier[entry.pid] = entry.started

    def _is_meant(self, pid: int, leader: int | None) -> bool:
        """Whether a stray belongs to this command, or to none that still runs."""
        others = [command for each, command in self._leaders.items() if each != leader]
        own = self._leaders.get(leader) if leader is not None else None
        if not others or (own is not None and _bears_mark_of(pid, [own])):
            return True
        if own is None or own.mark.is_sure or not all(each.mark.is_sure for each in others):
            return False
        return not _bears_mark_of(pid, others)

    def _strays(self) -> list[ProcessEntry]:
        return [entry for entry in our_children() if self._is_stray(entry)]

    def _is_stray(self, entry: ProcessEntry) -> bool:
        return (
            entry.pid not in self._leaders
            and self._earlier.get(entry.pid) != entry.started
            and entry.session != os.getsid(0)
        )


STRAYS = Strays()
"""The one of this process: children belong to a process, not to a `Runner`."""


def _bears_mark_of(pid: int, commands: list[_Command]) -> bool:
    number = mark_of(pid)
    return any(
        (number != 0 and number == command.mark.number) or has_in_environment(pid, command.variable)
        for command in commands
    )
