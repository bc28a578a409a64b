"""AGENTS.md and CLAUDE.md: what a repository says about itself, as reference for the model."""

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from dirge_py.context.prompt_text import prompt_text
from dirge_py.files.regular_file import read_regular
from dirge_py.lib.clean import clean
from dirge_py.lib.lean_dataclass import dataclass

NAMES = ("AGENTS.md", "CLAUDE.md")
_MAX_LEVELS = 16
_MAX_TOTAL_BYTES = 128 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectFile:
    """One file that is sent. `path` as it is shown, `left_off_bytes` what did not fit."""

    path: str
    text: str
    left_off_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectFiles:
    """What was found, outermost folder first, and what the person should know about it."""

    files: tuple[ProjectFile, ...] = ()
    notices: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(file.path for file in self.files)


def find_project_files(
    cwd: Path, *, config_dir: Path | None = None, max_bytes: int = 32 * 1024
) -> ProjectFiles:
    """The project files from the git root down to `cwd`, after the person's own `AGENTS.md`.

    Outside a repository only `cwd` itself is looked at: what lies above belongs to somebody else.
    The same file or text twice is sent once. A link that leads out of the repository is not
    followed: it would send a stranger's choice of file to a model.
    """
    folders = _folders(cwd)
    root = folders[0]
    files: list[ProjectFile] = []
    notices: list[str] = []
    seen: set[str] = set()
    room = _MAX_TOTAL_BYTES
    for path, shown, within in _candidates(folders, root, config_dir):
        content, notice = _read(path, within)
        if notice:
            notices.append(f"{shown} was not read: {notice}.")
        if not content or not seen.isdisjoint(marks := _marks(path, content)):
            continue
        seen |= marks
        file = _as_project_file(shown, content, min(max_bytes, room))
        room -= len(content) - file.left_off_bytes
        if file.left_off_bytes:
            notices.append(f"{shown} is long: its last {file.left_off_bytes} bytes were left off.")
        if file.text:
            files.append(file)
    return ProjectFiles(files=tuple(files), notices=tuple(notices))


def as_prompt(files: Sequence[ProjectFile]) -> str:
    """The section of the system prompt; empty without files.

    Each text stands between lines with a digest of it, so no text can end its own quotation.
    """
    if not files:
        return ""
    parts = [prompt_text("project_files")]
    for file in files:
        mark = hashlib.sha256(file.text.encode("utf-8", "replace")).hexdigest()[:8]
        note = f"\n[{file.left_off_bytes} bytes left off]" if file.left_off_bytes else ""
        parts.append(f"--- {file.path} ({mark}) ---\n{file.text}{note}\n--- end ({mark}) ---")
    return "\n\n".join(parts)


def _folders(cwd: Path) -> list[Path]:
    """From the git root, at most 16 levels up, down to `cwd`."""
    real = cwd.resolve()
    upward = [real, *real.parents][:_MAX_LEVELS]
    for level, folder in enumerate(upward):
        if os.path.lexists(folder / ".git"):
            return upward[level::-1]
    return [real]


def _candidates(
    folders: Sequence[Path], root: Path, config_dir: Path | None
) -> Iterator[tuple[Path, str, Path | None]]:
    """(path, how it is shown, where it must lie) of every file to look for, in order."""
    if config_dir is not None:
        path = config_dir / NAMES[0]
        yield path, str(path), None
    for folder in folders:
        for name in NAMES:
            yield folder / name, clean(str((folder / name).relative_to(root))), root


def _read(path: Path, within: Path | None) -> tuple[bytes, str]:
    """(content, why there is none); both empty where there is no such file."""
    try:
        real = Path(os.path.realpath(path, strict=True))
        if within is not None and not real.is_relative_to(within):
            return b"", "it is a link that leads out of the repository"
        return read_regular(real, 8 * _MAX_TOTAL_BYTES, follow=False), ""
    except FileNotFoundError:
        return b"", ""
    except OSError as error:
        return b"", error.strerror or "it cannot be read"


def _marks(path: Path, content: bytes) -> set[str]:
    """What tells a file apart: where it really is, and what it says."""
    return {os.path.realpath(path), hashlib.sha256(content.strip()).hexdigest()}


def _as_project_file(shown: str, content: bytes, room: int) -> ProjectFile:
    kept = content[: max(0, room)]
    text = kept.decode("utf-8-sig", "replace" if len(kept) == len(content) else "ignore")
    return ProjectFile(
        path=shown, text=clean(text).strip(), left_off_bytes=len(content) - len(kept)
    )
