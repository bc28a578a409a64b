"""Pictures and documents, from the session's assets to the base64 that services take.

What tool results show comes behind the last of them, as most results hold only text: between two
results nothing else may stand.
"""

import base64
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.providers.catalog import ModelProfile
from dirge_py.providers.history import SendableMessage
from dirge_py.types.messages import DocumentBlock, ImageBlock, TextBlock, ToolResultMessage

_ASSET_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
_PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_DOCUMENTS = frozenset({"application/pdf"})
MAX_BYTES = 20 * 1024 * 1024
Asset: TypeAlias = ImageBlock | DocumentBlock


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetEncoder:
    """The assets in `folder` (None: there are none), for a model that sees and reads them, or not.

    A model that sees no pictures refuses the whole request for one that another was shown.
    """

    folder: str | None
    sees_pictures: bool
    reads_documents: bool

    def encoded(self, asset: Asset) -> str | None:
        """The bytes in base64, None when they cannot be read or sent: then say `missing`.

        An asset id is looked at before it touches the file system: it came out of a stored
        transcript.
        """
        if self.folder is None or not self._is_sendable(asset):
            return None
        if not _ASSET_ID.fullmatch(asset.asset_id):
            return None
        try:
            path = Path(self.folder, asset.asset_id)
            if path.stat().st_size > MAX_BYTES:
                return None
            return base64.b64encode(path.read_bytes()).decode()
        except OSError:
            return None

    def missing(self, asset: Asset) -> str:
        """What a model reads in place of something that cannot be sent."""
        if isinstance(asset, ImageBlock):
            why = "it can no longer be read" if self.sees_pictures else "you cannot see pictures"
            return f"[A picture ({asset.media_type}) was here; {why}.]"
        named = f"{asset.name}, {asset.media_type}" if asset.name else asset.media_type
        if self._is_sendable(asset):
            return f"[A document ({named}) was here; it can no longer be read.]"
        return f"[A document ({named}) was here; you cannot read it. A command can take its text.]"

    def _is_sendable(self, asset: Asset) -> bool:
        if isinstance(asset, ImageBlock):
            return self.sees_pictures and asset.media_type in _PICTURES
        return self.reads_documents and asset.media_type in _DOCUMENTS


def asset_encoder(profile: ModelProfile, folder: str | None) -> AssetEncoder:
    """The assets as a model of this profile takes them: if it sees pictures, also documents."""
    return AssetEncoder(
        folder=folder,
        # One that nobody told of is left to say so itself.
        sees_pictures=profile.sees_pictures is not False,
        reads_documents=bool(profile.images),
    )


def kind_of(asset: Asset) -> str:
    """`picture` or `document`, for words about it."""
    return "picture" if isinstance(asset, ImageBlock) else "document"


@dataclass(frozen=True, slots=True)
class ToolMedia:
    """The assets of the tool results in front of it, in their order."""

    assets: tuple[Asset, ...]

    @property
    def title(self) -> TextBlock:
        """What is said of them where they are a message of their own."""
        kinds = " and ".join(f"{kind}s" for kind in dict.fromkeys(map(kind_of, self.assets)))
        return TextBlock(f"The {kinds} of the tool results above:")


HistoryEntry: TypeAlias = SendableMessage | ToolMedia


def with_tool_media(history: Iterable[SendableMessage]) -> Iterator[HistoryEntry]:
    """`history`, and behind each run of tool results what they show, if they show anything."""
    later: list[Asset] = []
    for message in history:
        if isinstance(message, ToolResultMessage):
            later += [block for block in message.content if not isinstance(block, TextBlock)]
        elif later:
            yield ToolMedia(tuple(later))
            later = []
        yield message
    if later:
        yield ToolMedia(tuple(later))


def result_texts(result: ToolResultMessage) -> list[str]:
    """What a result says, never nothing; a word in place of each thing that follows."""
    texts = [
        b.text if isinstance(b, TextBlock) else f"[The {kind_of(b)} follows the results.]"
        for b in result.content
    ]
    return [text for text in texts if text.strip()] or ["(no output)"]
