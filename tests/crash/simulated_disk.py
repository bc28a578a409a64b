"""A disk that keeps only synced data, and the states that a power loss can leave."""

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.requirements import lacking

BLOCKS = (1, 512, 4096)


@dataclass
class Disk:
    """Records the file operations below `base`, in order."""

    base: Path
    log: list[tuple[str, Path, Any]] = field(default_factory=list)

    def note(self, kind: str, at: int | str | Path, what: Any = None) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{at}") if isinstance(at, int) else at)
        if self.base in path.parents or path == self.base:
            self.log.append((kind, path, what))

    def committed(self, seq: int) -> None:
        """Mark a record that has to survive from here on."""
        self.log.append(("committed", self.base, seq))

    @contextmanager
    def watched(self) -> Iterator[None]:
        if not Path("/proc/self/fd").exists():
            lacking("/proc")
        real = os.write, os.fsync, os.ftruncate, os.replace, os.mkdir, os.open

        def write(fd: int, content: Any) -> int:
            length = real[0](fd, content)
            self.note("write", fd, bytes(content[:length]))
            return length

        def fsync(fd: int) -> None:
            real[1](fd)
            self.note("fsync", fd)

        def ftruncate(fd: int, size: int) -> None:
            real[2](fd, size)
            self.note("cut", fd, size)

        def replace(source: Any, target: Any) -> None:
            real[3](source, target)
            self.note("rename", Path(source), Path(target))

        def mkdir(path: Any, *given: Any) -> None:
            real[4](path, *given)
            self.note("folder", Path(path))

        def open_file(path: Any, flags: int, *given: Any) -> int:
            if flags & os.O_CREAT:
                self.note("file", Path(path))
            return real[5](path, flags, *given)

        replaced = {"write": write, "fsync": fsync, "ftruncate": ftruncate, "replace": replace}
        with pytest.MonkeyPatch.context() as patch:
            for name, function in {**replaced, "mkdir": mkdir, "open": open_file}.items():
                patch.setattr(os, name, function)
            yield

    def after_power_loss(self, moment: int, chance: random.Random, to: Path) -> set[int]:
        """Write one possible state after a power loss below `to`; returns the committed records.

        A file that was not synced keeps any beginning of what was added, in blocks, the last of
        them perhaps empty; a name whose folder was not synced may be missing or be the old one.
        """
        state = _State()
        for event in self.log[:moment]:
            state.take(*event)
        lost = {path for path in state.names - state.lasting if chance.random() < 0.5}
        for path, content in state.now.items():
            if not lost & {path, *path.parents}:
                left = to / path.relative_to(self.base)
                left.parent.mkdir(parents=True, exist_ok=True)
                left.write_bytes(_left(state.kept.get(path, b""), content, chance))
        return state.committed


@dataclass
class _State:
    """Files as they are `now` and as last synced; `names` are the durable directory entries."""

    now: dict[Path, bytes] = field(default_factory=dict)
    kept: dict[Path, bytes] = field(default_factory=dict)
    names: set[Path] = field(default_factory=set)
    lasting: set[Path] = field(default_factory=set)
    committed: set[int] = field(default_factory=set)

    def take(self, kind: str, path: Path, what: Any) -> None:
        match kind:
            case "folder":
                self.names.add(path)
            case "file":
                self.names.add(path)
                self.now.setdefault(path, b"")
            case "write":
                self.now[path] += what
            case "cut":
                self.now[path] = self.now[path][:what]
            case "rename":
                self.now[what] = self.now.pop(path)
                self.kept[what] = self.kept.pop(path, b"")
                self.names.add(what)
            case "fsync" if path in self.now:
                self.kept[path] = self.now[path]
            case "fsync":
                self.lasting |= {name for name in self.names if name.parent == path}
            case "committed":
                self.committed.add(what)


def _left(kept: bytes, content: bytes, chance: random.Random) -> bytes:
    if not content.startswith(kept):
        return chance.choice((kept, content))
    block = chance.choice(BLOCKS)
    end = chance.randrange(len(kept), len(content) + 1)
    end = max(len(kept), end - end % block)
    nothing = b"\0" * chance.choice((0, 0, block)) if end < len(content) else b""
    return content[:end] + nothing
