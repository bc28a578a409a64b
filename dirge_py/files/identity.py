"""Which version of which file: how a later change of it is noticed."""

import hashlib
import os

from dirge_py.lib.lean_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """One version of one file. `sha256` is None where the file was too large to hash."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    sha256: str | None

    @classmethod
    def of(cls, status: os.stat_result, sha256: str | None) -> "FileIdentity":
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, sha256)

    def same_version(self, other: "FileIdentity") -> bool:
        """Whether nobody changed the file between the two.

        Bytes decide where both were hashed: a `touch` changes only the time, and two writes within
        one clock tick do not change even that.
        """
        if self.sha256 is not None and other.sha256 is not None:
            return self.sha256 == other.sha256
        return (self.device, self.inode, self.size, self.mtime_ns) == (
            other.device,
            other.inode,
            other.size,
            other.mtime_ns,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FileContent:
    """A whole file as it was at one moment. `real` is its physical path."""

    real: str
    content: bytes
    identity: FileIdentity


def sha256_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
