"""Which files of the project are left out: its own rules, the person's, and ours."""

import os
import re
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.session.snapshots.git import Git, GitFailed, TreeEntry, git_settings

_READ_S = 10.0
_OUR_FILES = re.compile(r"\.dirge-[0-9a-f]{16}\.(tmp|new|old)")
_MAX_POINTER_BYTES = 4096


def is_never_held(path: str) -> bool:
    """Whether a path is git's or ours, whatever rules say: `.git`, `.dirge`, unfinished files."""
    parts = path.split("/")
    return any(part.lower() in (".git", ".dirge") for part in parts) or bool(
        _OUR_FILES.fullmatch(parts[-1])
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectGit:
    """What the project's own repository says; nothing is ever written there.

    `exclude` and `index` are files that need not be there, None outside of a repository.
    """

    git_dir: Path | None = None
    exclude: Path | None = None
    index: Path | None = None


def project_git(root: str) -> ProjectGit:
    """The repository whose work tree is the folder `root`, found without running git."""
    entry = Path(root, ".git")
    try:
        if entry.is_dir():
            git_dir = entry
        else:
            pointer = _line(entry)
            if not pointer.startswith("gitdir:"):
                return ProjectGit()
            git_dir = Path(root, pointer.removeprefix("gitdir:").strip())
        common = git_dir
        if (git_dir / "commondir").is_file():
            common = git_dir / _line(git_dir / "commondir")
    except (OSError, ValueError):
        return ProjectGit()
    return ProjectGit(git_dir=git_dir, exclude=common / "info" / "exclude", index=git_dir / "index")


async def personal_excludes(git: Git, project: ProjectGit, scratch: Path) -> Path | None:
    """The person's file of what git ignores everywhere, as far as git knows of one.

    `git config` reads settings and runs nothing, so here it may see those of the person.
    """
    home = os.environ.get("HOME", "")
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    asked = git.command(
        "config", "--includes", "--type=path", "--get", "core.excludesFile", stdout=scratch
    )
    own = {"GIT_CONFIG_NOSYSTEM": "0", "GIT_CONFIG_COUNT": "0", "XDG_CONFIG_HOME": base}
    # An empty value would name no file at all instead of the usual ones.
    line = f"unset GIT_CONFIG_GLOBAL; {asked}"
    try:
        await git.run(line, store=project.git_dir, timeout_s=_READ_S, extra=own)
        named = os.fsdecode(scratch.read_bytes()).strip("\n")
    except (GitFailed, OSError):
        named = ""
    path = named or os.path.join(base, "git", "ignore")
    return Path(git.root, path)


def ignore_options(*, own_folder: str, files: Sequence[Path | None]) -> list[str]:
    """The options of `git ls-files` for all rules. Of `files`, the later ones win.

    `own_folder` is our state folder below the project, "" where it lies elsewhere.
    """
    options = ["--exclude-per-directory=.gitignore"]
    options += [f"--exclude-from={file}" for file in files if file is not None and _is_file(file)]
    options.append("--exclude=.dirge")
    if own_folder:
        quoted = re.sub(r"([\\*?\[\]! ])", r"\\\1", own_folder)
        options.append(f"--exclude=/{quoted}")
    return options


def rules_in(entries: Mapping[str, TreeEntry]) -> dict[str, TreeEntry]:
    """The files of rules among those of a tree. Git follows no link to one."""
    return {
        path: entry
        for path, entry in entries.items()
        if path.rpartition("/")[2] == ".gitignore" and not entry.is_link
    }


async def ignored_by(
    git: Git,
    paths: Sequence[str],
    *,
    rules: Mapping[str, bytes],
    files: Sequence[Path | None],
    store: Path,
    scratch: Path,
) -> frozenset[str]:
    """Those of the paths that are ignored where a work tree has these files of rules.

    `files` are as for `ignore_options`; `scratch` is an empty folder. Raises GitFailed, OSError.
    """
    tree, asked, found = scratch / "tree", scratch / "asked", scratch / "found"
    for path, text in rules.items():
        file = tree / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text)
    tree.mkdir(exist_ok=True)
    outside = scratch / "rules"
    outside.write_bytes(
        b"\n".join(file.read_bytes() for file in files if file is not None and _is_file(file))
    )
    # This command takes no literal names, and without the dot one with a colon would be none.
    asked.write_bytes(b"".join(b"./" + os.fsencode(path) + b"\0" for path in paths))
    words = ("-C", tree, "check-ignore", "--no-index", "-z", "--stdin")
    # It says 1 where none is ignored.
    line = f"{{ {git.command(*words, stdin=asked, stdout=found)} || [ $? = 1 ]; }}"
    extra = {"GIT_WORK_TREE": str(tree), "GIT_LITERAL_PATHSPECS": "0"}
    extra |= git_settings(("core.excludesFile", str(outside)))
    await git.run(line, store=store, timeout_s=_READ_S, extra=extra)
    named = found.read_bytes().split(b"\0")
    return frozenset(os.fsdecode(path.removeprefix(b"./")) for path in named if path)


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.stat().st_mode) and os.access(path, os.R_OK)
    except (OSError, ValueError):
        return False


def _line(path: Path) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path} is no regular file")
        return os.fsdecode(stream.read(_MAX_POINTER_BYTES)).strip()
