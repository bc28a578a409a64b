"""The trust gate: nothing in a project's `.dirge/` is parsed or run until the user trusts it.

The files are read once, within limits, and never through a link. The bytes that are hashed are kept
and are what is loaded later, so nothing can be exchanged between the question and the loading.
The user's decisions are stored in `trust.json` in the state folder.
"""

import contextlib
import hashlib
import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, field, replace
from pathlib import Path, PurePath
from typing import Any, Literal

from dirge_py.config.paths import state_dir
from dirge_py.config.project import ProjectConfig, read_project_config
from dirge_py.files.atomic import atomic_write
from dirge_py.files.resolve import FILE, open_beneath, open_folder_handle, reason_of
from dirge_py.files.resolve import FOLDER as AS_FOLDER
from dirge_py.files.safe_read import read_regular
from dirge_py.lib.file_lock import hold_lock
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.text import visible
from dirge_py.permission.rules import Rule, make_rule
from dirge_py.types.errors import ConfigError, DirgeError, FileError
from dirge_py.types.questions import ActingFile, TrustOffer

FOLDER = ".dirge"
SETTINGS = f"{FOLDER}/config.toml"
_FILES = {"config.toml": "settings", "mcp.json": "mcp", "mcp.toml": "mcp", "hooks.toml": "hook"}
_FOLDERS = {
    # Plugins may use files that do not act on their own, so every file counts there.
    "plugins": ("plugin", ""),
    "skills": ("skill", ""),
    "hooks": ("hook", ""),
    "mcp": ("mcp", ""),
    "prompts": ("prompt", ".md"),
    "agents": ("agent", ".md"),
    "themes": ("theme", ".toml"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustRecord:
    """The user's decision about one folder."""

    device: int = 0
    """The device of the folder."""
    inode: int = 0
    """The inode of the folder: tells it from another one at the same path later."""
    accepted: Mapping[str, str] = field(default_factory=dict)
    """Hashes of the trusted files by path."""
    declined: Mapping[str, str] = field(default_factory=dict)
    """Hashes of the declined files by path."""


def record_from(value: Any) -> TrustRecord:
    """Return the record that was written as a dictionary. Raises ValueError."""
    match value:
        case {
            "device": int(device),
            "inode": int(inode),
            "accepted": dict(accepted),
            "declined": dict(declined),
        } if _are_hashes(accepted) and _are_hashes(declined):
            return TrustRecord(device=device, inode=inode, accepted=accepted, declined=declined)
    raise ValueError("an entry is not a trust record")


def acting_kind(path: str) -> str:
    """Return the kind of a file that dirge would load; "" for a file that it never loads.

    `path` is relative to the project, and compared with case, as when files are loaded.
    """
    top, *below = path.removeprefix(f"{FOLDER}/").split("/")
    if not below:
        return _FILES.get(top, "")
    kind, ending = _FOLDERS.get(top, ("", ""))
    if ending and (len(below) > 1 or not below[0].endswith(ending)):
        return ""
    return kind


def may_hold_acting_files(path: str) -> bool:
    """Whether dirge could load files below this folder of the project."""
    top, *below = path.removeprefix(f"{FOLDER}/").split("/")
    return top in _FOLDERS and (not below or not _FOLDERS[top][1])


def files_digest(files: Iterable[tuple[str, str]]) -> str:
    """Return one hash of all (path, sha256) pairs, independent of their order."""
    digest = hashlib.sha256()
    for path, sha256 in sorted((os.fsencode(path), sha256) for path, sha256 in files):
        digest.update(path + b"\0" + sha256.encode("ascii") + b"\n")
    return digest.hexdigest()


def why_untrustable(root: PurePath, home: PurePath) -> str:
    """Return why the physical folder `root` cannot be trusted as a project, or ""."""
    if root == PurePath("/"):
        return "the root of the file system is not a project"
    if root == home:
        return "your home folder is not a project"
    return "a folder above your home folder is not a project" if root in home.parents else ""


def _are_hashes(table: Mapping[Any, Any]) -> bool:
    return all(isinstance(path, str) and isinstance(one, str) for path, one in table.items())


_MAX_BYTES = 4 * 1024 * 1024
_VERSION = 1
_PATIENCE_S = 10.0


class TrustDamaged(DirgeError):
    """The trust file exists but is unreadable: nothing is trusted, and it is not overwritten."""


class TrustStore:
    """The records of all projects, by their physical path."""

    def __init__(self, state_dir: Path) -> None:
        self.path = state_dir / "trust.json"

    def record(self, root: Path) -> TrustRecord | None:
        """Return the decision about this folder, if any. Raises TrustDamaged."""
        return self._read().get(str(root))

    def put(self, root: Path, record: TrustRecord | None) -> None:
        """Store the decision about this folder; None removes it.

        Raises TrustDamaged if the existing file cannot be read (it stays as it is), and FileError.
        """
        # The lock is a separate file, because the store itself is replaced.
        with contextlib.ExitStack() as lock:
            try:
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                lock.enter_context(hold_lock(self.path.with_name(".trust.json.lock"), _PATIENCE_S))
            except OSError as error:
                raise FileError(
                    f"{self.path} cannot be written: {error.strerror}.",
                    hint="Set DIRGE_STATE_DIR to a folder you can write.",
                ) from error
            records = self._read()
            records.pop(str(root), None)
            if record is not None:
                records[str(root)] = record
            table = {path: asdict(records[path]) for path in sorted(records)}
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
            match json.loads(content):
                case {"version": int(version), "projects": dict(projects)}:
                    if version != _VERSION:
                        raise ValueError(f"version {version} is unknown")
                    return {str(path): record_from(record) for path, record in projects.items()}
            raise ValueError("it is not a list of projects")
        except (ValueError, RecursionError) as error:
            raise self._damaged(str(error)) from None

    def _damaged(self, why: str) -> TrustDamaged:
        return TrustDamaged(
            f"{self.path} is damaged, so no project is trusted: {why}.",
            hint="Fix it, or remove it and answer the trust questions again.",
        )


_MOST_FILES = 256
_MOST_ENTRIES = 4096
_MOST_LEVELS = 8
_MOST_FILE_BYTES = 1024 * 1024
_MOST_BYTES = 8 * 1024 * 1024
_MOST_TOLD = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedFile:
    """A file that would be loaded but is refused, and why."""

    path: str
    """Its path in the project."""
    reason: str
    """Why it is refused."""


class _TooMuch(Exception):
    """The project contains more files than a user could review."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _FoundFiles:
    """The files found so far, with the content of each acting file."""

    files: dict[ActingFile, bytes] = field(default_factory=dict)
    refused: list[RefusedFile] = field(default_factory=list)


def _read_all(anchor: int, found: _FoundFiles) -> None:
    entries_left, bytes_left = _MOST_ENTRIES, _MOST_BYTES
    folders = [FOLDER]
    while folders:
        folder = folders.pop()
        for name, mode in _entries(anchor, folder, found):
            entries_left -= 1
            if entries_left < 0:
                raise _TooMuch(f"{FOLDER} contains more than {_MOST_ENTRIES} entries")
            path = f"{folder}/{name}"
            is_folder = may_hold_acting_files(path)
            if stat.S_ISDIR(mode):
                if is_folder and path.count("/") > _MOST_LEVELS:
                    raise _TooMuch(f"{path} is too deep in folders")
                folders += [path] if is_folder else []
            elif acting_kind(path) or (is_folder and stat.S_ISLNK(mode)):
                bytes_left -= _read_file(anchor, path, mode, found)
                if len(found.files) > _MOST_FILES:
                    raise _TooMuch(f"{FOLDER} contains more than {_MOST_FILES} files to load")
                if bytes_left < 0:
                    raise _TooMuch(f"the files of {FOLDER} are larger than 8 MiB together")


def _entries(anchor: int, folder: str, found: _FoundFiles) -> Iterator[tuple[str, int]]:
    """Yield (name, mode) of each entry of the folder, sorted by name."""
    try:
        handle = open_beneath(anchor, folder, AS_FOLDER)
    except FileNotFoundError:
        return
    except OSError as error:
        reason = reason_of(error)
        with contextlib.suppress(OSError):
            # `.dirge` itself: the path above it is the project, and everything below is checked.
            mode = os.stat(folder, dir_fd=anchor, follow_symlinks=False).st_mode
            reason = "it is a link" if stat.S_ISLNK(mode) else reason
        found.refused.append(RefusedFile(path=folder, reason=reason))
        return
    try:
        with os.scandir(handle) as entries:
            for count, entry in enumerate(entries):
                if count > _MOST_ENTRIES:
                    raise _TooMuch(f"{folder} contains more than {_MOST_ENTRIES} entries")
                yield entry.name, entry.stat(follow_symlinks=False).st_mode
    except FileNotFoundError:
        return  # It was removed meanwhile, so it will not be loaded either.
    finally:
        os.close(handle)


def _read_file(anchor: int, path: str, mode: int, found: _FoundFiles) -> int:
    """Read one file, or record why not; return how many bytes were read."""
    try:
        if not stat.S_ISREG(mode):
            raise OSError("it is a link" if stat.S_ISLNK(mode) else "it is not a regular file")
        descriptor = open_beneath(anchor, path, FILE)
        with open(descriptor, "rb") as stream:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError("it is not a regular file")
            content = stream.read(_MOST_FILE_BYTES + 1)
        if len(content) > _MOST_FILE_BYTES:
            raise OSError("it is larger than 1 MiB")
    except FileNotFoundError:
        return 0
    except OSError as error:
        found.refused.append(RefusedFile(path=path, reason=reason_of(error)))
        return 0
    sha256, size = hashlib.sha256(content).hexdigest(), len(content)
    found.files[ActingFile(path=path, kind=acting_kind(path), size=size, sha256=sha256)] = content
    return size


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectTrust:
    """A project folder and its acting files, read once."""

    root: Path
    """The physical folder of the project."""
    state: Literal["none", "restricted", "trusted"] = "none"
    """`none`: it has no acting files. `trusted`: the user trusts all of them. `restricted`: the
    user does not trust some, and only trusted, unchanged ones are loaded."""
    files: tuple[ActingFile, ...] = ()
    """All acting files, each with its state."""
    refused: tuple[RefusedFile, ...] = ()
    """Acting files that are never loaded."""
    digest: str = ""
    """One hash of all `files`."""
    offer: TrustOffer | None = None
    """The question to ask the user now; None if all files are trusted, exactly these were declined,
    or the project cannot be trusted (`obstacle`)."""
    obstacle: str = ""
    """Why it cannot be trusted, or ""."""
    device: int = 0
    """The device of the folder."""
    inode: int = 0
    """The inode of the folder."""
    contents: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """The bytes that were hashed, by path."""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The environment that names the folder of the trust record."""

    @property
    def places(self) -> Sequence[Path]:
        """Return the files and folders one of which changes when `offer` may: also missing ones.

        Empty without a `.dirge`.
        """
        if not os.path.lexists(self.root / FOLDER):
            return ()
        below = {FOLDER, *(f"{FOLDER}/{name}" for name in (*_FILES, *_FOLDERS))}
        for file in self.files:
            below |= {file.path, *map(str, PurePath(file.path).parents)} - {"."}
        return [self.root / path for path in sorted(below)]

    @property
    def settings(self) -> ProjectConfig | None:
        """Return the settings of its `config.toml`, if it exists and is trusted.

        Raises ConfigError if it contains a setting that a project may not set.
        """
        content = self.trusted("settings").get(SETTINGS)
        if content is None:
            return None
        return read_project_config(content, visible(str(self.root / SETTINGS)))

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Return its rules, which ask or deny. Raises ConfigError."""
        settings = self.settings
        source = visible(str(self.root / SETTINGS))
        return tuple(
            make_rule(rule.op, rule.match, rule.effect, source=source, error=ConfigError)
            for rule in (settings.permission.rule if settings else ())
        )

    @property
    def theme(self) -> str:
        """Return the theme in its settings; "" if there is none. Raises ConfigError."""
        settings = self.settings
        return (settings.ui.theme or "") if settings else ""

    @property
    def notices(self) -> tuple[str, ...]:
        """Return what the user should know before starting: at most one line for each problem."""
        if self.state == "none":
            return ()
        notices = [
            f"{visible(refused.path)} of this project is never loaded: {refused.reason}."
            for refused in self.refused[:_MOST_TOLD]
        ]
        if self.obstacle:
            return (*notices, f"{FOLDER} of this project is not loaded: {self.obstacle}.")
        if waiting := sum(file.state != "trusted" for file in self.files):
            count = f"{waiting} file{'s' if waiting > 1 else ''} in {FOLDER}"
            verb = "are" if waiting > 1 else "is"
            notices.append(
                f"{count} of this project {verb} not trusted and not loaded; "
                "`dirge trust --show` lists what is there."
            )
        if not self._are_plugins_whole and any(file.kind == "plugin" for file in self.files):
            notices.append(
                "None of its plugins is loaded: a plugin could use files that aren't trusted."
            )
        return tuple(notices)

    @property
    def _are_plugins_whole(self) -> bool:
        """Whether every file that a plugin could use is trusted and unchanged."""
        return all(
            file.state == "trusted" for file in self.files if file.kind == "plugin"
        ) and not any(acting_kind(file.path) == "plugin" for file in self.refused)

    def trusted(self, kind: str) -> Mapping[str, bytes]:
        """Return its trusted files of this kind, as hashed, by path; plugins all or none."""
        if kind == "plugin" and not self._are_plugins_whole:
            return {}
        return {
            file.path: self.contents[file.path]
            for file in self.files
            if file.state == "trusted" and file.kind == kind
        }


def project_root(start: Path, home: Path) -> Path:
    """Return the folder whose `.dirge` counts: the nearest upwards with `.git`, else `start`.

    Only the existence of `.git` counts; nothing in it is read. A repository at the home folder or
    above it holds the user's own settings and is not a project.
    """
    real = Path(os.path.realpath(start))
    for folder in (real, *real.parents):
        if why_untrustable(folder, home):
            break
        if os.path.lexists(folder / ".git"):
            return folder
    return real


def inspect_project(cwd: Path, environment: Mapping[str, str] = os.environ) -> ProjectTrust:
    """Return the project around `cwd`, its acting files read and hashed, but not parsed."""
    home = Path(os.path.realpath(environment.get("HOME") or os.path.expanduser("~")))
    root = project_root(cwd, home)
    try:
        project = _read_project(root, environment)
    except OSError as error:
        # A folder that cannot be opened has nothing to load; other operations there will report it.
        return ProjectTrust(root=root, obstacle=error.strerror or "it cannot be opened")
    if not (project.files or project.refused or project.obstacle):
        return ProjectTrust(root=root)
    obstacle = project.obstacle or why_untrustable(root, home)
    record = None
    if not obstacle:
        try:
            record = TrustStore(state_dir(environment)).record(root)
        except TrustDamaged as error:
            obstacle = error.message.removesuffix(".")
    return apply_record(replace(project, obstacle=obstacle), record)


def _read_project(root: Path, environment: Mapping[str, str]) -> ProjectTrust:
    """Read all acting files below `.dirge` of the physical folder `root`, without a decision.

    Raises OSError if `root` cannot be opened.
    """
    anchor = open_folder_handle(str(root))
    try:
        status = os.fstat(anchor)
        found, too_much = _FoundFiles(), ""
        try:
            _read_all(anchor, found)
        except _TooMuch as problem:
            found, too_much = _FoundFiles(), str(problem)
    finally:
        os.close(anchor)
    return ProjectTrust(
        root=root,
        files=tuple(sorted(found.files, key=lambda file: file.path)),
        refused=tuple(sorted(found.refused, key=lambda file: file.path)),
        obstacle=too_much,
        device=status.st_dev,
        inode=status.st_ino,
        contents={file.path: content for file, content in found.files.items()},
        environment=environment,
    )


def trust_project(project: ProjectTrust) -> ProjectTrust:
    """Trust exactly the files that were read; return the project in its new state.

    Raises DirgeError if it cannot be trusted, or the decision cannot be stored, and ConfigError if
    it contains a setting that a project may not set. Nothing is stored then.
    """
    if project.obstacle:
        raise DirgeError(f"{project.root} cannot be trusted: {project.obstacle}.")
    hashes = {file.path: file.sha256 for file in project.files}
    record = TrustRecord(device=project.device, inode=project.inode, accepted=hashes)
    trusted = apply_record(project, record)
    _ = trusted.rules  # If they are invalid, nothing is stored, so the next start asks again.
    TrustStore(state_dir(project.environment)).put(project.root, record)
    return trusted


def decline_project(project: ProjectTrust) -> ProjectTrust:
    """Store that the offer was declined; that holds until one of the files changes."""
    record = TrustRecord(
        device=project.device,
        inode=project.inode,
        accepted={file.path: file.sha256 for file in project.files if file.state == "trusted"},
        declined={file.path: file.sha256 for file in project.files if file.state != "trusted"},
    )
    # If it cannot be stored, this start continues, and the next one asks again.
    with contextlib.suppress(FileError):
        TrustStore(state_dir(project.environment)).put(project.root, record)
    return replace(project, offer=None)


def forget_project(project: ProjectTrust) -> None:
    """Remove the decision about this folder."""
    TrustStore(state_dir(project.environment)).put(project.root, None)


class TrustGate:
    """The project of one process, which is read once and asked about once."""

    def __init__(self, cwd: Path, environment: Mapping[str, str] = os.environ) -> None:
        self._cwd = cwd
        self._environment = environment
        self._project: ProjectTrust | None = None

    @property
    def project(self) -> ProjectTrust:
        if self._project is None:
            self._project = inspect_project(self._cwd, self._environment)
        return self._project

    @property
    def offer(self) -> TrustOffer | None:
        """Return the question to ask before any session is opened; None if there is none."""
        return self.project.offer

    @property
    def theme(self) -> str:
        return self.project.theme

    def answer(self, *, is_trusted: bool) -> None:
        """Apply the user's answer. Raises as `trust_project`."""
        project = self.project
        self._project = replace(project, offer=None)
        self._project = trust_project(project) if is_trusted else decline_project(project)


def apply_record(project: ProjectTrust, record: TrustRecord | None) -> ProjectTrust:
    """Return the project with each file's recorded state. A record of another folder is ignored."""
    if record is None or (record.device, record.inode) != (project.device, project.inode):
        record = TrustRecord()
    files = tuple(replace(file, state=_state_of(file, record)) for file in project.files)
    waiting = tuple(file for file in files if file.state != "trusted")
    is_declined = all(record.declined.get(file.path) == file.sha256 for file in waiting)
    is_open = bool(waiting) and not is_declined and not project.obstacle
    is_trusted = bool(files) and not waiting and not project.obstacle
    offer = TrustOffer(
        project=str(project.root),
        files=waiting,
        digest=files_digest((file.path, file.sha256) for file in waiting),
    )
    return replace(
        project,
        state="trusted" if is_trusted else "restricted",
        files=files,
        digest=files_digest((file.path, file.sha256) for file in files),
        offer=offer if is_open else None,
    )


def _state_of(file: ActingFile, record: TrustRecord) -> Literal["new", "trusted", "changed"]:
    accepted = record.accepted.get(file.path)
    if accepted is None:
        return "new"
    return "trusted" if accepted == file.sha256 else "changed"
