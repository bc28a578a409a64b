"""What a project brings along that would act, and `trust.json`: what a person said about it.

`TrustStore` reads and writes that file in the state folder; everything else here is pure.
`project_trust` reads the project's files and asks the person.
"""

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from pathlib import Path, PurePath
from typing import Any

from dirge_py.files.atomic import atomic_write
from dirge_py.files.safe_read import read_regular
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.errors import DirgeError, FileError
from dirge_py.types.questions import ActingFile

FOLDER = ".dirge"
SETTINGS = f"{FOLDER}/config.toml"
_FILES = {"config.toml": "settings", "mcp.json": "mcp", "mcp.toml": "mcp", "hooks.toml": "hook"}
_FOLDERS = {
    # What does not run by itself may be used by what does, so there every file counts.
    "plugins": ("plugin", ""),
    "skills": ("skill", ""),
    "hooks": ("hook", ""),
    "mcp": ("mcp", ""),
    "prompts": ("prompt", ".md"),
    "agents": ("agent", ".md"),
    "themes": ("theme", ".toml"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ActingFileContent:
    """One acting file as it was read."""

    path: str
    """Its path, relative to the project."""
    content: bytes
    """The bytes."""
    sha256: str
    """Their hash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustRecord:
    """What a person said about one folder."""

    device: int = 0
    """The device of the folder they saw."""
    inode: int = 0
    """Its inode: tells it from another that stands there later."""
    accepted: Mapping[str, str] = field(default_factory=dict)
    """Hashes by path of what is trusted."""
    declined: Mapping[str, str] = field(default_factory=dict)
    """Hashes by path of what is not."""

    def as_json(self) -> dict[str, Any]:
        return {
            "device": self.device,
            "inode": self.inode,
            "accepted": dict(self.accepted),
            "declined": dict(self.declined),
        }


def record_from(value: Any) -> TrustRecord:
    """The record that `as_json` wrote.

    Raises:
        ValueError: it is none.
    """
    match value:
        case {
            "device": int(device),
            "inode": int(inode),
            "accepted": dict(accepted),
            "declined": dict(declined),
        } if _are_hashes(accepted) and _are_hashes(declined):
            return TrustRecord(device=device, inode=inode, accepted=accepted, declined=declined)
    raise ValueError("no record of trust")


def acting_kind(path: str) -> str:
    """What the file would act as; "" for one that dirge never loads.

    `path` is relative to the project, and compared letter by letter: what is loaded later is looked
    up among these very names.
    """
    top, *below = path.removeprefix(f"{FOLDER}/").split("/")
    if not below:
        return _FILES.get(top, "")
    kind, ending = _FOLDERS.get(top, ("", ""))
    if ending and (len(below) > 1 or not below[0].endswith(ending)):
        return ""
    return kind


def may_hold_acting_files(path: str) -> bool:
    """Whether files below this folder of the project could act."""
    top, *below = path.removeprefix(f"{FOLDER}/").split("/")
    return top in _FOLDERS and (not below or not _FOLDERS[top][1])


def files_digest(files: Iterable[tuple[str, str]]) -> str:
    """One hash for all of (path, sha256), whatever their order."""
    digest = hashlib.sha256()
    for path, sha256 in sorted((os.fsencode(path), sha256) for path, sha256 in files):
        digest.update(path + b"\0" + sha256.encode("ascii") + b"\n")
    return digest.hexdigest()


def judge_files(
    brought: Iterable[ActingFileContent], record: TrustRecord | None, *, device: int, inode: int
) -> tuple[ActingFile, ...]:
    """Each file with what the record says of it. A record of another folder says nothing."""
    accepted: Mapping[str, str] = {}
    if record is not None and (record.device, record.inode) == (device, inode):
        accepted = record.accepted
    return tuple(
        ActingFile(
            path=file.path,
            kind=acting_kind(file.path),
            size=len(file.content),
            sha256=file.sha256,
            state="new"
            if file.path not in accepted
            else "trusted"
            if accepted[file.path] == file.sha256
            else "changed",
        )
        for file in brought
    )


def is_answered(
    files: Iterable[ActingFile], record: TrustRecord | None, *, device: int, inode: int
) -> bool:
    """Whether each of these files, as it is now, was already trusted or turned down."""
    if record is None or (record.device, record.inode) != (device, inode):
        return False
    return all(
        file.state == "trusted" or record.declined.get(file.path) == file.sha256 for file in files
    )


def why_untrustable(root: PurePath, home: PurePath) -> str:
    """Why this folder cannot be trusted as a project; "" if it can. Both are physical paths."""
    if root == PurePath("/"):
        return "the root of the file system is no project"
    if root == home:
        return "your home folder is no project"
    if root in home.parents:
        return "a folder above your home folder is no project"
    return ""


def _are_hashes(table: Mapping[Any, Any]) -> bool:
    return all(isinstance(path, str) and isinstance(one, str) for path, one in table.items())


_MAX_BYTES = 4 * 1024 * 1024
_VERSION = 1


class TrustDamaged(DirgeError):
    """The file is there and cannot be read: nothing is trusted, and nothing written over it."""


class TrustStore:
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
