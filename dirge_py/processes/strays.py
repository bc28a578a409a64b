"""Children that no command owns up to any more: orphans that came to us, ended when all is quiet.

A process that got rid of both marks, left its session and lost its parent bears no sign of the
command it came from. But as a subreaper we become its parent, and that gives it away.
"""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Iterator

from dirge_py.processes.marks import Mark, mark_of
from dirge_py.processes.orphans import adopt_orphans
from dirge_py.processes.table import ProcessEntry, family_table
from dirge_py.processes.tree import descendants

_RESCAN_S = 0.005
_KILL_LIMIT_S = 2.0


class Strays:
    """Tells the orphans among our children from the children that others in this process started.

    A child is spared if it

    - is the started process of a running command,
    - was our child already when the first of the running commands began,
    - or shares our session: no descendant of a command can come back into that.

    All others are killed when the last running command ends; before that an orphan may belong to
    one that goes on. What bears the mark of its command is no matter for this class: `CommandTree`
    finds it. But a busy machine may put the mark too late. When such a command ends, all without a
    mark are killed too, provided that every other command was marked in time.

    The dead are reaped whenever a command ends. Whoever starts a child in a session of its own
    while commands run must start it with a `Runner`.
    """

    def __init__(self) -> None:
        self._leaders: dict[int, Mark] = {}
        self._earlier: dict[int, int] = {}

    def expect(self) -> None:
        """A command is about to begin."""
        if not self._leaders and adopt_orphans():
            children = _children(family_table())
            self._earlier = {entry.pid: entry.started for entry in children}

    def began(self, leader: int, mark: Mark) -> None:
        """It began, with this process, which was given this mark."""
        self._leaders[leader] = mark

    async def end_after(self, leader: int) -> int:
        """This command is over; returns how many strays ran, as far as they are killed now."""
        most = 0
        for running in self._killing(leader):
            most = max(most, running)
            await asyncio.sleep(_RESCAN_S if running else 0)
        return most

    def kill_after(self, leader: int) -> None:
        """As `end_after`, without an event loop. Doing it again changes nothing."""
        for running in self._killing(leader):
            time.sleep(_RESCAN_S if running else 0)

    def _killing(self, leader: int) -> Iterator[int]:
        """Kill until two scans in a row find nobody, yielding what each scan found."""
        deadline = time.monotonic() + _KILL_LIMIT_S
        empty_scans = 0
        # Its number is given up last: a command that begins meanwhile takes over what is left.
        while adopt_orphans():
            running = self._kill() if self._is_time(leader) else self._reap_only()
            empty_scans = 0 if running else empty_scans + 1
            if empty_scans == 2 or time.monotonic() > deadline:
                break
            yield running
        self._leaders.pop(leader, None)

    def _is_time(self, leader: int) -> bool:
        """Whether strays can belong to no command but this one, or to one that is over."""
        others = [mark for pid, mark in self._leaders.items() if pid != leader]
        own = self._leaders.get(leader)
        if own is None:
            return False
        return not others or (not own.is_sure and all(mark.is_sure for mark in others))

    def _kill(self) -> int:
        """Kill every stray and what is beneath it, reap the dead; returns how many ran."""
        table = family_table()
        strays = self._strays(table)
        self._reap(strays)
        marks = {mark.number for mark in self._leaders.values() if mark.number}
        if len(self._leaders) > 1:
            strays = [entry for entry in strays if mark_of(entry.pid) not in marks]
        tops = {entry.pid for entry in strays}
        running = [pid for pid in descendants(tops, table) if not table[pid].is_zombie]
        # A shell goes before its children, whose end it would report; else the newest goes first,
        # as a process that forks and exits in a chain is caught at its newest link.
        for pid in sorted(running, key=lambda pid: (pid not in tops, -pid)):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        return len(running)

    def _reap_only(self) -> int:
        self._reap(self._strays(family_table()))
        return 0

    def _strays(self, table: dict[int, ProcessEntry]) -> list[ProcessEntry]:
        return [entry for entry in _children(table) if self._is_stray(entry)]

    def _reap(self, strays: list[ProcessEntry]) -> None:
        for entry in strays:
            if entry.is_zombie:
                # By its number: waiting for any child would steal the exit codes of other owners.
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(entry.pid, os.WNOHANG)

    def _is_stray(self, entry: ProcessEntry) -> bool:
        return (
            entry.pid not in self._leaders
            and self._earlier.get(entry.pid) != entry.started
            and entry.session != os.getsid(0)
        )


STRAYS = Strays()
"""The one of this process: children belong to a process, not to a `Runner`."""


def _children(table: dict[int, ProcessEntry]) -> list[ProcessEntry]:
    return [entry for entry in table.values() if entry.parent == os.getpid()]
