"""Pictures and documents of a session, kept as files that are named after their content."""

import hashlib
from pathlib import Path

from dirge_py.files.atomic import atomic_write


class AssetStore:
    """The folder of one session's assets; made when the first one comes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, content: bytes) -> str:
        """Keep `content`; returns the asset id under which blocks refer to it.

        Raises:
            OSError: it cannot be kept.
        """
        # By content: the same picture twice is one file, and the name says nothing of the person.
        asset_id = hashlib.sha256(content).hexdigest()[:32]
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (self.folder / asset_id).exists():
            atomic_write(self.folder / asset_id, content, mode=0o600)
        return asset_id
