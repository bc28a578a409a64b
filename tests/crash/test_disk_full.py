"""A disk that fills up at any write: the conversation continues and is saved later."""

import contextlib
import errno
import itertools
import os
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dirge_py.session.journal import read_journal
from dirge_py.session.record import Record
from dirge_py.session.segments import Scan
from tests.security.sizes import count, size
from tests.support.fake_service import ModelReply
from tests.support.product import ProcessResult, Product, Service
from tests.support.requirements import small_disk

STEP = size(18, 1)
FOREVER = 10_000
ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
BIG = "a long line of a file\n" * 1000


class FullDisk:
    """Fails `length` writes and syncs below a folder, from the n-th on."""

    def __init__(self, folder: Path, *, first: int = 0, length: int = 0, code: int = 0) -> None:
        self.folder = str(folder)
        self.first = first
        self.length = length
        self.code = code
        self.calls = 0

    @contextmanager
    def mounted(self) -> Iterator[None]:
        real = os.write, os.fsync

        def write(fd: int, content: Any) -> int:
            error = self.refusal(fd)
            if error is not None:
                # Half of it still fitted.
                real[0](fd, bytes(content[: len(content) // 2]))
                raise error
            return real[0](fd, content)

        def fsync(fd: int) -> None:
            error = self.refusal(fd)
            if error is not None:
                raise error
            real[1](fd)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "write", write)
            patch.setattr(os, "fsync", fsync)
            yield

    def refusal(self, fd: int) -> OSError | None:
        name = os.readlink(f"/proc/self/fd/{fd}")
        if not name.startswith(self.folder):
            return None
        self.calls += 1
        is_full = self.first <= self.calls < self.first + self.length
        return OSError(self.code, os.strerror(self.code)) if is_full else None


class Again(Service):
    """A service that can restart from its first reply."""

    def restart(self, *replies: ModelReply) -> None:
        self.requests.clear()
        self.replies[:] = replies
        self._given = itertools.count()


@pytest.fixture
def service() -> Iterator[Again]:
    with Again() as service:
        yield service


def new_product(base: Path, service: Again) -> Product:
    product = Product(base, service)
    product.configure("[session]\nsegment_records = 12\n")
    product.file("big.txt", BIG)
    return product


def run(product: Product, service: Again, disk: FullDisk | None = None) -> ProcessResult:
    """A run that reads two files, changes one, and ends with a text."""
    edit = {"path": "note.txt", "old_text": "old", "new_text": "new"}
    reads = [("read", {"path": "big.txt", "limit": 1000}), ("read", {"path": "note.txt"})]
    service.restart(
        ModelReply(calls=reads), ModelReply(calls=[("edit", edit)]), *[ModelReply(text="done")] * 3
    )
    product.file("note.txt", "old\n")
    with disk.mounted() if disk else contextlib.nullcontext():
        return product.ask("--yolo", "--session", "s", "go")


def stored(product: Product) -> Scan:
    return read_journal(product.journals[0])


def is_whole(records: Sequence[Record]) -> bool:
    """Whether everything since the prompt is stored."""
    said = [record.data for record in records if record.type == "message"]
    prompts = [place for place, message in enumerate(said) if message["content"] == "go"]
    run = said[prompts[-1] :] if prompts else []
    results = [message for message in run if message["role"] == "toolResult"]
    return len(results) == 3 and "done" in str(run[-1]["content"])


def test_full_disk_at_any_write_loses_no_stored_record(tmp_path: Path, service: Again) -> None:
    chance = random.Random(3)
    product = new_product(tmp_path, service)
    sessions = product.state_dir / "sessions"
    run(product, service)
    counted = FullDisk(sessions)
    run(product, service, counted)
    tried = 0

    for first in range(1, counted.calls + 1, STEP):
        before = stored(product).records
        length = chance.choice((1, 2, FOREVER)) if tried else 1
        code = chance.choice(ERRORS)
        disk = FullDisk(sessions, first=first, length=length, code=code)
        result = run(product, service, disk)
        tried += 1

        found = stored(product)
        new = found.records[len(before) :]
        assert (result.exit_code, result.json["result"]) == (0, "done"), result.stderr
        assert found.damage == []
        assert found.records[: len(before)] == before
        assert (product.project / "note.txt").read_text() in ("old\n", "new\n")
        if not is_whole(new):
            assert length == FOREVER
            assert "cannot be saved: " in result.stderr and "keeps it in memory" in result.stderr
        if tried == 1:
            assert "The session is saved again; nothing was lost." in result.stderr
    count("crash: a disk full at the n-th write", tried, 0, "lost something")


def test_session_on_a_full_disk_continues_in_memory_and_is_stored_later(
    tmp_path: Path, service: Again
) -> None:
    with small_disk(tmp_path / "disk", "size=1m") as disk:
        product = new_product(disk, service)
        run(product, service)
        before = stored(product).records
        (disk / "fill").write_bytes(b"")
        with pytest.raises(OSError, match="space"), (disk / "fill").open("wb", 0) as fill:
            while True:
                fill.write(b"x" * 4096)

        full = run(product, service)
        kept = stored(product).records
        (disk / "fill").unlink()
        later = run(product, service)

        assert (full.exit_code, full.json["result"]) == (0, "done")
        assert "cannot be saved: No space left on device" in full.stderr
        assert kept[: len(before)] == before
        assert later.exit_code == 0
        assert "saved" not in later.stderr
        assert len(stored(product).records) > len(kept)
