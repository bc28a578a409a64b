"""One snapshot: what differs since the last one goes into the private index, then into a tree."""

import asyncio
import os
import shlex
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.session.snapshots.base import Snapshot
from dirge_py.session.snapshots.candidates import (
    Candidates,
    Stamp,
    candidates,
    differing,
    entries_in,
    load_stamps,
    names_in,
    save_stamps,
    stamps,
    write_absent,
    write_names,
)
from dirge_py.session.snapshots.git import Git, GitFailed
from dirge_py.session.snapshots.ignoring import ProjectGit, ignore_options
from dirge_py.session.snapshots.pack import OutOfTime, write_pack
from dirge_py.session.snapshots.seat import Seat
from dirge_py.types.errors import SessionError

PACKED_FROM = 200
"""With so many new files, they are written as one pack."""


class TooLarge(Exception):
    """The project has too many files, or takes too long: the text says which, for the person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What is taken: files up to `file_bytes`, in trees of up to `files`, within `take_s`."""

    file_bytes: int
    files: int = 60_000
    take_s: float = 20.0


class Taking:
    """Takes snapshots into one store, from one seat. One at a time.

    `ref` is the folder of refs that keep them; `own_folder` is our state folder in the project.
    """

    def __init__(
        self,
        git: Git,
        seat: Seat,
        *,
        project: ProjectGit,
        personal: Path | None,
        own_folder: str,
        ref: str,
        terms: Terms,
    ) -> None:
        self._git = git
        self._seat = seat
        self._store = seat.folder.parent.parent
        self._project = project
        self._personal = personal
        self._own_folder = own_folder
        self._ref = ref
        self._terms = terms
        self._tree = ""
        self._tracked: tuple[str, ...] = ()
        self._tracked_of: Mapping[str, Stamp] | None = None
        self._tracked_stamps: Mapping[str, Stamp] = {}
        self._kept: dict[str, Stamp | None] = {}
        self._named: set[str] = set()
        self._deadline = 0.0

    async def take(self, date: int, also: Sequence[str] = ()) -> Snapshot:
        """The work tree as it is now; `date` in seconds is kept with it.

        The files `also`, relative to the project, are in it although rules or their size leave
        them out; from now on they are held like the others.

        Raises:
            TooLarge: there is too much of it.
            GitFailed, OSError: the store or its disk does not do.
        """
        self._deadline = time.monotonic() + self._terms.take_s
        is_first = not self._seat.index.exists()
        try:
            found = await self._found(frozenset(also))
            await self._check_count(found)
            await self._write(found, date)
        except (OutOfTime, GitFailed) as error:
            if isinstance(error, GitFailed) and not error.timed_out:
                raise
            slow = f"reading its files took longer than {self._terms.take_s:.0f} seconds"
            if is_first:
                raise TooLarge(slow) from error
            raise SessionError(f"A snapshot was not taken: {slow}.") from error
        left_out = await asyncio.to_thread(self._left_out, found)
        return Snapshot(tree=self._tree, left_out=left_out)

    async def _run(self, *commands: str, is_durable: bool = False) -> None:
        await self._git.run(
            *commands,
            store=self._store,
            index=self._seat.index,
            is_durable=is_durable,
            timeout_s=self._deadline - time.monotonic(),
        )

    def stop(self) -> None:
        """Let a snapshot that is being taken come to nothing, soon."""
        self._deadline = 0.0

    def _is_late(self) -> bool:
        return time.monotonic() > self._deadline

    # -- what there is

    def _ignores(self) -> list[str]:
        files = (self._personal, self._project.exclude)
        return ignore_options(own_folder=self._own_folder, files=files)

    async def _found(self, also: frozenset[str]) -> Candidates:
        seat, git = self._seat, self._git
        # What a killed command left would stop every one that comes.
        seat.file("index.lock").unlink(missing_ok=True)
        changed, others = seat.file("changed"), seat.file("others")
        listing, learn = self._tracked_listing()
        # All in one: beside starting a command, what it does costs little.
        await self._run(
            git.command("diff-files", "-z", "--name-only", "--no-renames", stdout=changed),
            git.command("ls-files", "-z", "--others", *self._ignores(), stdout=others),
            *listing,
        )
        tracked = [*learn(), *self._kept_now(also)]
        return await asyncio.to_thread(
            lambda: candidates(
                git.root,
                changed=names_in(changed),
                others=[*names_in(others), *tracked],
                limit_bytes=self._terms.file_bytes,
                also=self._kept.keys(),
            )
        )

    def _kept_now(self, also: frozenset[str]) -> list[str]:
        """What was once asked to be held and differs from what it was, with what is asked now."""
        # Git stops at a path that leads through a link.
        root = self._git.root
        named = {path for path in (*self._kept, *also) if not _is_behind_link(root, path)}
        found = stamps(root, named)
        differing = [path for path, stamp in found.items() if self._kept.get(path) != stamp]
        self._kept = {path: found.get(path) for path in (*self._kept, *also)}
        return [*differing, *(path for path in also & named if path not in differing)]

    @property
    def kept(self) -> Collection[str]:
        """The paths that this process was asked to hold."""
        return self._kept.keys()

    def _tracked_listing(self) -> tuple[Sequence[str], Callable[[], Sequence[str]]]:
        """What the project's git has although a rule ignores it, as far as it changed.

        Commands to run, if its index changed, and then a function that tells. From then on it is in
        our index, and the rules say nothing about it any more.
        """
        index = self._project.index
        if index is None:
            return (), lambda: ()
        now = stamps("", [str(index)])
        listed = self._seat.file("tracked")
        is_known = now == self._tracked_of

        def learn() -> Sequence[str]:
            if not is_known:
                self._tracked, self._tracked_of = tuple(names_in(listed)), now
            before = self._tracked_stamps
            self._tracked_stamps = stamps(self._git.root, self._tracked)
            return [p for p, stamp in self._tracked_stamps.items() if before.get(p) != stamp]

        ask = self._git.command(
            "ls-files", "-z", "--cached", "--ignored", *self._ignores(), stdout=listed
        )
        # One of a kind that cannot be read alone names nothing.
        quoted = shlex.quote(str(listed))
        command = f"{{ GIT_INDEX_FILE={shlex.quote(str(index))} {ask} || : >{quoted}; }}"
        return (() if is_known else (command,)), learn

    async def _check_count(self, found: Candidates) -> None:
        """Raises TooLarge for an index of too many files, also without those ignored by now."""
        index, most = self._seat.index, self._terms.files
        if entries_in(index) + len(found.present) <= most:
            return
        ignored = self._seat.file("ignored")
        if entries_in(index):
            command = self._git.command(
                "ls-files", "-z", "--cached", "--ignored", *self._ignores(), stdout=ignored
            )
            await self._run(command)
            await asyncio.to_thread(write_absent, self._seat.file("gone"), names_in(ignored))
            await self._run(self._remove())
        if entries_in(index) + len(found.present) > most:
            raise TooLarge(f"it has more than {most:,} files")

    # -- what becomes of it

    async def _write(self, found: Candidates, date: int) -> None:
        if found.is_empty and self._tree:
            return
        await asyncio.to_thread(write_names, self._seat.file("present"), found.present)
        await asyncio.to_thread(write_absent, self._seat.file("gone"), found.absent)
        # Hundreds of files are packed, and not waited for: a power cut costs a first snapshot.
        is_many = len(found.present) >= PACKED_FROM
        commands = []
        if is_many:
            pack = self._seat.file("new.pack")
            await asyncio.to_thread(
                write_pack, self._git.root, found.present, pack, is_late=self._is_late
            )
            commands.append(
                self._git.command(
                    "index-pack", "--stdin", stdin=pack, stdout=self._seat.file("said")
                )
            )
        if found.absent:
            commands.append(self._remove())
        if found.present:
            add = self._git.command(
                *("update-index", "-z", "--add", "--remove", "--replace", "--stdin"),
                stdin=self._seat.file("present"),
            )
            commands.append(add)
        await self._run(*commands, self._keep(date), is_durable=not is_many)
        self._seat.file("new.pack").unlink(missing_ok=True)
        self._tree = self._seat.file("tree").read_text(encoding="ascii").strip()
        if is_many:
            await asyncio.to_thread(self._seat.publish)

    def _remove(self) -> str:
        return self._git.command(
            "update-index", "-z", "--index-info", stdin=self._seat.file("gone")
        )

    def _keep(self, date: int) -> str:
        """Write the tree, and a commit whose ref keeps it from being pruned and dates it."""
        git, tree = shlex.quote(self._git.program), shlex.quote(str(self._seat.file("tree")))
        # Without the sign git takes a number of few digits, or of too many, for no date at all.
        when = f"@{max(0, date)} +0000"
        return (
            f"{git} write-tree >{tree} && "
            f'commit=$(GIT_AUTHOR_DATE="{when}" GIT_COMMITTER_DATE="{when}" '
            f'{git} commit-tree -m snapshot "$(<{tree})") && '
            f'{git} update-ref "{self._ref}/$(<{tree})" "$commit"'
        )

    def _left_out(self, found: Candidates) -> tuple[str, ...]:
        """Files that changed and are or were too large to be held; once, what is never held."""
        before = load_stamps(self._seat.large)
        if found.large != before:
            save_stamps(self._seat.large, found.large)
        named = differing(before, found.large) if before is not None else []
        once = {*found.nested, *found.unreadable} - self._named
        self._named |= once
        return (*named, *sorted(once))


def _is_behind_link(root: str, path: str) -> bool:
    folder = os.path.dirname(f"{root}/{path}")
    return os.path.realpath(folder) != folder
