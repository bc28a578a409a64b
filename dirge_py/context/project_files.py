"""AGENTS.md and CLAUDE.md: what a repository says about itself, as reference for the model."""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from dirge_py.context.gathering import MAX_TOTAL_BYTES, Candidate, Gathering, Scope
from dirge_py.context.prompt_text import prompt_text
from dirge_py.context.quotation import quoted
from dirge_py.lib.clean import clean
from dirge_py.lib.lean_dataclass import dataclass

NAMES = ("AGENTS.md", "CLAUDE.md")
_MAX_LEVELS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectFile:
    """One file that is sent. `path` as it is shown, `left_off_bytes` what did not fit.

    `imported_by` is the file that names it, as shown; empty for those that are looked for.
    """

    path: str
    text: str
    left_off_bytes: int = 0
    imported_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectFiles:
    """What was found, outermost folder first, then what those import, nearest first.

    `notices` are for the person. `marks` tell what was met, `taken_bytes` how much room it took.
    """

    files: tuple[ProjectFile, ...] = ()
    notices: tuple[str, ...] = ()
    marks: frozenset[str] = frozenset()
    taken_bytes: int = 0

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(file.path for file in self.files)


def find_project_files(
    cwd: Path,
    *,
    config_dir: Path | None = None,
    max_bytes: int = 32 * 1024,
    withholds: Callable[[str], bool] = lambda real: False,
) -> ProjectFiles:
    """The project files from the git root down to `cwd`, after the person's own `AGENTS.md`.

    Outside a repository only `cwd` itself is looked at: what lies above belongs to somebody else.
    Each of them may import others (`@path`), which come after all of them. The same file or text
    twice is sent once. A link that leads out of the repository is not followed, and what
    `withholds` names (physical paths) is not read: a stranger's choice of file would be sent to a
    model.
    """
    folders = folders_down_to(cwd)
    candidates = [*_own(config_dir), *_looked_for(folders, folders[0])]
    return _gathered(candidates, ProjectFiles(), max_bytes, withholds)


def find_in_folders(
    folders: Sequence[Path],
    *,
    root: Path,
    sent: ProjectFiles,
    max_bytes: int = 32 * 1024,
    withholds: Callable[[str], bool] = lambda real: False,
) -> ProjectFiles:
    """What these folders beneath `root` have besides what was `sent`; both are physical paths.

    There is one limit for all of it together, so what was sent leaves that much less room.
    `marks` and `taken_bytes` of the answer count `sent`, too.
    """
    return _gathered(list(_looked_for(folders, root)), sent, max_bytes, withholds)


def folders_down_to(cwd: Path) -> list[Path]:
    """The physical folders from the git root, at most 16 levels up, down to `cwd`."""
    real = cwd.resolve()
    upward = [real, *real.parents][:_MAX_LEVELS]
    for level, folder in enumerate(upward):
        if os.path.lexists(folder / ".git"):
            return upward[level::-1]
    return [real]


def as_prompt(files: Sequence[ProjectFile], *, heading: str = "project_files") -> str:
    """A section of the system prompt, or with another `heading` a message; empty without files.

    Each text stands between lines with a digest of it, so no text can end its own quotation.
    """
    if not files:
        return ""
    return "\n\n".join([prompt_text(heading), *map(_quotation, files)])


def _quotation(file: ProjectFile) -> str:
    note = f"\n[{file.left_off_bytes} bytes left off]" if file.left_off_bytes else ""
    by = f", imported by {file.imported_by}" if file.imported_by else ""
    return quoted(f"{file.path}{by}", f"{file.text}{note}")


def _gathered(
    candidates: Sequence[Candidate],
    sent: ProjectFiles,
    max_bytes: int,
    withholds: Callable[[str], bool],
) -> ProjectFiles:
    gathering = Gathering(
        max_bytes=max_bytes,
        room_bytes=max(0, MAX_TOTAL_BYTES - sent.taken_bytes),
        marks=sent.marks,
        withholds=withholds,
    )
    files = tuple(
        ProjectFile(
            path=text.shown,
            text=text.text,
            left_off_bytes=text.left_off_bytes,
            imported_by=text.imported_by,
        )
        for text in gathering.gather(candidates)
    )
    return ProjectFiles(
        files=files,
        notices=gathering.notices,
        marks=frozenset(gathering.marks),
        taken_bytes=MAX_TOTAL_BYTES - gathering.room_bytes,
    )


def _own(config_dir: Path | None) -> Iterator[Candidate]:
    if config_dir is not None:
        path = config_dir / NAMES[0]
        scope = Scope(root=os.path.realpath(config_dir), is_own=True)
        yield Candidate(path=str(path), shown=clean(str(path)), scope=scope)


def _looked_for(folders: Sequence[Path], root: Path) -> Iterator[Candidate]:
    scope = Scope(root=str(root))
    for folder in folders:
        for name in NAMES:
            path = folder / name
            yield Candidate(path=str(path), shown=clean(str(path.relative_to(root))), scope=scope)
