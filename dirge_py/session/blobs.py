"""Large texts of tool results, kept once each in files that are named by their content.

A record holds in the place of such a text where it lies, and says so in a member of its own:

    {"role": "toolResult", …, "content": "[70000 bytes: blobs/9f86d0…]",
     "blobs": [{"at": ["content"], "sha256": "9f86d0…", "bytes": 70000}]}

Whoever reads the session through this package gets the text itself.
"""

import contextlib
import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dirge_py.session.disk import READ_FLAGS, make_folder, sync_folder, write_all
from dirge_py.session.record import Record
from dirge_py.session.scan import Scan

LARGEST_INLINE = 16 * 1024
"""Characters of a text that stay in its record."""

_WRITE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
_SHA256 = re.compile(r"[0-9a-f]{64}")
_Place = list[str | int]


def laid_out(record: Record, folder: Path) -> Record:
    """The record as it is stored: its large texts are in `folder`/blobs, on the disk.

    Raises:
        OSError: one could not be written.
    """
    places = [place for root, part in _results(record) for place in _large_texts(part, root)]
    if not places:
        return record
    data = record.data
    kept = []
    for place in places:
        content = _at(data, place).encode("utf-8", "surrogatepass")
        digest = hashlib.sha256(content).hexdigest()
        _keep(folder / "blobs", digest, content)
        data = _put(data, place, f"[{len(content)} bytes: blobs/{digest}]")
        kept.append({"at": place, "sha256": digest, "bytes": len(content)})
    return replace(record, data={**data, "blobs": kept})


def with_blobs(found: Scan, folder: Path) -> Scan:
    """What was scanned, with the large texts in their places; for one that is gone, a remark."""
    if not any(map(_names_blobs, found.records)):
        return found
    records = [_restored(r, folder) if _names_blobs(r) else r for r in found.records]
    return replace(found, records=records)


def _results(record: Record) -> Iterator[tuple[_Place, Any]]:
    """The parts of a record that are results of tools, and where they are."""
    match record.type, record.data:
        case "tool_finished", {**data} if "blobs" not in data:
            yield [], data
        case "message", {"role": "toolResult", **data} if "blobs" not in data:
            yield [], data
        case "context", {"messages": [*messages], **data} if "blobs" not in data:
            for number, message in enumerate(messages):
                if isinstance(message, Mapping) and message.get("role") == "toolResult":
                    yield ["messages", number], message


def _large_texts(value: Any, place: _Place) -> Iterator[_Place]:
    if isinstance(value, str):
        if len(value) > LARGEST_INLINE:
            yield place
    elif isinstance(value, Mapping):
        for name, item in value.items():
            if isinstance(name, str):
                yield from _large_texts(item, [*place, name])
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from _large_texts(item, [*place, number])


def _names_blobs(record: Record) -> bool:
    return (
        record.type in ("message", "tool_finished", "context")
        and isinstance(record.data, dict)
        and isinstance(record.data.get("blobs"), list)
    )


def _restored(record: Record, folder: Path) -> Record:
    data = {name: value for name, value in record.data.items() if name != "blobs"}
    for kept in record.data["blobs"]:
        # A record that says something else here was made by nobody; it is read as it stands.
        with contextlib.suppress(KeyError, IndexError, TypeError, ValueError):
            place, digest = kept["at"], kept["sha256"]
            if _SHA256.fullmatch(digest) and isinstance(_at(data, place), str):
                data = _put(data, place, _text(folder / "blobs" / digest, digest))
    return replace(record, data=data)


def _text(path: Path, digest: str) -> str:
    try:
        content = _content(path)
    except OSError as error:
        return f"[This output is gone: blobs/{digest} cannot be read ({error.strerror}).]"
    if hashlib.sha256(content).hexdigest() != digest:
        return f"[This output is gone: blobs/{digest} is damaged.]"
    return content.decode("utf-8", "surrogatepass")


def _content(path: Path) -> bytes:
    with open(os.open(path, READ_FLAGS), "rb") as file:
        return file.read()


def _keep(folder: Path, digest: str, content: bytes) -> None:
    """Write a file once; its name appears when all of it is on the disk."""
    path = folder / digest
    with contextlib.suppress(OSError):
        if _content(path) == content:
            return
    for missing in (folder.parent, folder):
        make_folder(missing)
    unfinished = path.with_suffix(".part")
    fd = os.open(unfinished, _WRITE_FLAGS, 0o600)
    try:
        with open(fd, "wb", buffering=0):
            write_all(fd, content)
            os.fsync(fd)
        os.replace(unfinished, path)
    except BaseException:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise
    sync_folder(folder)


def _at(value: Any, place: _Place) -> Any:
    for step in place:
        value = value[step]
    return value


def _put(value: Any, place: _Place, text: str) -> Any:
    """A copy of `value` with `text` at `place`; what is beside the way there is shared."""
    if not place:
        return text
    step, rest = place[0], place[1:]
    changed = _put(value[step], rest, text)
    if isinstance(value, Mapping):
        return {**value, step: changed}
    return [changed if number == step else item for number, item in enumerate(value)]
