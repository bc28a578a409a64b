"""Images and documents in a request: from the session's assets to the base64 that services take.

The images and documents of tool results come behind the last result, because many services accept
only text in results, and nothing else between two of them.
"""

import base64
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.providers.adapter import JsonCache, SendableMessage
from dirge_py.providers.catalog import ModelProfile
from dirge_py.types.messages import (
    AssistantMessage,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ToolResultMessage,
    UserMessage,
)

_ASSET_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
_PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_DOCUMENTS = frozenset({"application/pdf"})
MAX_BYTES = 20 * 1024 * 1024
Asset: TypeAlias = ImageBlock | DocumentBlock


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetEncoder:
    """Encodes assets for a model. One that sees no pictures refuses a request that holds one."""

    folder: str | None
    """The folder with the assets; None for none."""
    sees_pictures: bool
    """Whether the model accepts images."""
    reads_documents: bool
    """Whether the model accepts documents."""

    def encoded(self, asset: Asset) -> str | None:
        """The bytes in base64; None if they can't be read or sent (`missing` says so)."""
        # The id comes from a stored transcript, which may be wrong.
        is_id = _ASSET_ID.fullmatch(asset.asset_id)
        if self.folder is None or not is_id or not self._is_sendable(asset):
            return None
        try:
            path = Path(self.folder, asset.asset_id)
            if path.stat().st_size > MAX_BYTES:
                return None
            return base64.b64encode(path.read_bytes()).decode()
        except OSError:
            return None

    def missing(self, asset: Asset) -> str:
        """The text that a model reads in place of an asset that can't be sent."""
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
    """The encoder for a model with this profile; one that sees pictures reads documents as well."""
    return AssetEncoder(
        folder=folder,
        # An unknown model gets the picture, and may refuse it.
        sees_pictures=profile.sees_pictures is not False,
        reads_documents=bool(profile.images),
    )


def is_text(blocks: Sequence[TextBlock | Asset]) -> bool:
    """Whether `blocks` hold no assets."""
    return all(isinstance(block, TextBlock) for block in blocks)


def _kind(asset: Asset) -> str:
    return "picture" if isinstance(asset, ImageBlock) else "document"


@dataclass(frozen=True, slots=True)
class ToolMedia:
    """The assets of the tool results in front of it, in their order."""

    assets: tuple[Asset, ...]
    """The images and documents."""

    @property
    def title(self) -> TextBlock:
        """The text before the assets, where they are a message of their own."""
        kinds = " and ".join(f"{kind}s" for kind in dict.fromkeys(map(_kind, self.assets)))
        return TextBlock(f"The {kinds} of the tool results above:")


HistoryEntry: TypeAlias = SendableMessage | ToolMedia


def with_tool_media(history: Iterable[SendableMessage]) -> Iterator[HistoryEntry]:
    """`history`, with the assets of each run of tool results behind it."""
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


def encode_messages(
    history: Iterable[SendableMessage],
    json_cache: JsonCache,
    encode: Callable[[SendableMessage], dict[str, Any]],
    encode_user: Callable[[Sequence[TextBlock | Asset]], dict[str, Any]],
) -> list[dict[str, Any]]:
    """The messages of a chat. Those of the last request are the same objects as then.

    What `encode_user` makes is not cached: the file of an asset may be gone, and is too large.
    """
    messages: list[dict[str, Any]] = []
    for entry in with_tool_media(history):
        match entry:
            case AssistantMessage() if not (entry.text or entry.calls):
                pass  # it holds nothing but what another service compacted
            case ToolMedia():
                messages.append(encode_user([entry.title, *entry.assets]))
            case UserMessage() if not is_text(entry.content):
                messages.append(encode_user(entry.content))
            case _:
                messages.append(json_cache.of(entry, encode))
    return messages


def result_texts(result: ToolResultMessage) -> list[str]:
    """The texts of a result, at least one; a note stands in for each asset."""
    blocks, note = result.content, "[The {} follows the results.]"
    texts = [b.text if isinstance(b, TextBlock) else note.format(_kind(b)) for b in blocks]
    return [text for text in texts if text.strip()] or ["(no output)"]
