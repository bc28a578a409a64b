"""`trust.json` in the state folder: what a person said about the projects they opened."""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dirge_py.files.atomic import atomic_write
from dirge_py.files.regular_file import read_regular
from dirge_py.permission.trust import TrustRecord, record_from
from dirge_py.types.errors import DirgeError, FileError

_MAX_BYTES = 4 * 1024 * 1024
_VERSION = 1


class TrustDamaged(DirgeError):
    """The file is there and cannot be read: nothing is trusted, and nothing written over it."""


class TrustFile:
    """The records of all projects, by the physical path of each."""

    def __init__(self, state_dir: Path) -> None:
        self.path = state_dir / "trust.json"

    def record(self, root: Path) -> TrustRecord | None:
        """What was said about this folder; None if nothing was.

        Raises:
            TrustDamaged: the file cannot be read.
        """
        return self._read().get(str(root))

    def put(self, root: Path, record: TrustRecord | None) -> None:
        """Keep what was said about this folder; None forgets it.

        Raises:
            TrustDamaged: the file there is cannot be read; it stays as it is.
            FileError: it cannot be written.
        """
        with self._locked():
            records = self._read()
            records.pop(str(root), None)
            if record is not None:
                records[str(root)] = record
            table = {path: records[path].as_json() for path in sorted(records)}
            text = json.dumps({"version": _VERSION, "projects": table}, indent=1)
            atomic_write(self.path, f"{text}\n".encode(), mode=0o600)

    def _read(self) -> dict[str, TrustRecord]:
        try:
            content = read_regular(self.path, _MAX_BYTES + 1, follow=False)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise self._damaged(error.strerror or "it cannot be read") from error
        try:
            if len(content) > _MAX_BYTES:
                raise ValueError("it is larger than 4 MiB")
            return _records(json.loads(content))
        except (ValueError, RecursionError) as error:
            raise self._damaged(str(error)) from None

    def _damaged(self, why: str) -> TrustDamaged:
        return TrustDamaged(
            f"{self.path} is damaged, so no project is trusted: {why}.",
            hint="Mend it, or remove it and say anew what you trust.",
        )

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """One writer at a time, also across processes. A lock of its own: the file is replaced."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(self.path.with_name(".trust.json.lock"), flags, 0o600)
        except OSError as error:
            raise FileError(
                f"{self.path} cannot be written: {error.strerror}.",
                hint="Set DIRGE_STATE_DIR to a folder you can write.",
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _records(value: Any) -> dict[str, TrustRecord]:
    match value:
        case {"version": int(version), "projects": dict(projects)}:
            if version != _VERSION:
                raise ValueError(f"version {version} is not known here")
            return {str(path): record_from(record) for path, record in projects.items()}
    raise ValueError("it is no list of projects")
