"""Pictures, from the session's assets to the base64 that services take."""

import base64
import re
from pathlib import Path

from dirge_py.messages import ImageBlock

_ASSET_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
_MEDIA_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
MAX_IMAGE_BYTES = 20 * 1024 * 1024


def image_base64(image: ImageBlock, asset_dir: str | None) -> str | None:
    """The picture's bytes, None when it cannot be read or sent.

    An asset id is looked at before it touches the file system: it came out of a stored transcript.
    """
    if asset_dir is None or image.media_type not in _MEDIA_TYPES:
        return None
    if not _ASSET_ID.fullmatch(image.asset_id):
        return None
    try:
        path = Path(asset_dir, image.asset_id)
        if path.stat().st_size > MAX_IMAGE_BYTES:
            return None
        return base64.b64encode(path.read_bytes()).decode()
    except OSError:
        return None


def missing_image(image: ImageBlock) -> str:
    """What a model reads in place of a picture that cannot be sent."""
    return f"[A picture ({image.media_type}) was here; it can no longer be read.]"
