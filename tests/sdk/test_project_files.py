"""The files of a project: the same as git lists, without running its settings."""

import asyncio
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from dirge_py.config.load import load
from dirge_py.files.tree_hash import RealFolders
from dirge_py.git import repository_copy
from dirge_py.sdk import project_files
from dirge_py.sdk.project_files import Listed, Project, project_around
from dirge_py.types.errors import FileError
from tests.support.requirements import require_root_tools


def run_git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"]
    ended = subprocess.run(
        ["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True
    )
    return ended.stdout


def write(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name}\n")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    write(folder, "a", "sub/b")
    return folder


@pytest.fixture(scope="module")
def first_commit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The git folder of a repository with the files of `folder`."""
    folder = tmp_path_factory.mktemp("first")
    write(folder, "a", "sub/b")
    run_git(folder, "init", "-q", "-b", "main")
    run_git(folder, "add", ".")
    run_git(folder, "commit", "-qm", "first")
    return folder / ".git"


@pytest.fixture
def repository(folder: Path, first_commit: Path) -> Path:
    shutil.copytree(first_commit, folder / ".git")
    return folder


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return home


def project(cwd: Path, *, state: Path | None = None) -> Project:
    base = cwd.parent / "dirge"
    environment = {
        "HOME": str(base),
        "DIRGE_CONFIG_DIR": str(base / "config"),
        "DIRGE_STATE_DIR": str(state or base / "state"),
    }
    return project_around(load(environment=environment), cwd, [str(cwd)])


def listed(cwd: Path, *, dependencies: bool = False) -> Listed:
    return asyncio.run(project(cwd).files(dependencies=dependencies))


def test_changed_new_and_removed_files_are_listed(repository: Path) -> None:
    write(repository, "new", "é x\ny", ".hidden")
    (repository / "a").unlink()
    (repository / "link").symlink_to("/etc")

    files = listed(repository).files

    # A removed file is listed as well; readers find that it is missing.
    assert sorted(files) == [".hidden", "a", "link", "new", "sub/b", "é x\ny"]


def test_ignored_files_are_left_out_unless_tracked(repository: Path, home: Path) -> None:
    write(repository, "held.log", "out/x")
    run_git(repository, "add", "held.log")
    write(repository, "new.log", "mine.personal", "local")
    (repository / ".gitignore").write_text("*.log\nout/\n")
    (repository / ".git/info/exclude").write_text("local\n")
    (home / ".config/git").mkdir(parents=True)
    (home / ".config/git/ignore").write_text("*.personal\n")

    assert sorted(listed(repository).files) == [".gitignore", "a", "held.log", "sub/b"]


def test_dependency_folders_are_listed_separately(repository: Path) -> None:
    write(repository, "node_modules/x/i.js", "sub/node_modules/y.js", "out/z", "env/pyvenv.cfg")
    (repository / "vendor").symlink_to("/usr/share")
    (repository / ".gitignore").write_text("node_modules\nout\nvendor\nenv\n")

    found = listed(repository, dependencies=True)

    assert sorted(found.dependencies) == ["env", "node_modules", "sub/node_modules", "vendor"]
    assert sorted(found.files) == [".gitignore", "a", "sub/b"]


def test_build_artifacts_count_as_written_only_if_tracked(repository: Path) -> None:
    write(repository, "held.o", "__pycache__/held.pyc")
    run_git(repository, "add", ".")
    write(repository, "new.o", "__pycache__/new.pyc")
    found = listed(repository)

    assert sorted(found.files) == [
        "__pycache__/held.pyc", "__pycache__/new.pyc", "a", "held.o", "new.o", "sub/b"
    ]  # fmt: skip
    assert sorted(found.written) == ["__pycache__/held.pyc", "a", "held.o", "sub/b"]


def test_listing_files_leaves_temporary_folder_in_project_unchanged(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(repository / "tmp"))
    (repository / "tmp").mkdir()
    before = (repository / "tmp").stat().st_mtime_ns

    assert sorted(listed(repository).files) == ["a", "sub/b"]
    assert (repository / "tmp").stat().st_mtime_ns == before


def test_listing_files_leaves_no_temporary_files(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = repository.parent / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    listed(repository)
    (repository / ".git/index").write_text("no index")

    assert sorted(listed(repository).files) == ["a", "sub/b"]
    assert list(temporary.iterdir()) == []


def test_gitignore_applies_without_git(folder: Path) -> None:
    write(folder, "x.log", "node_modules/x", "venv/pyvenv.cfg", "venv/y", ".hidden", "sub/keep.log")
    (folder / ".gitignore").write_text("*.log\n!keep.log\n")
    (folder / "link").symlink_to("sub")

    found = listed(folder, dependencies=True)

    assert sorted(found.files) == [".gitignore", ".hidden", "a", "link", "sub/b", "sub/keep.log"]
    assert sorted(found.dependencies) == ["node_modules", "venv"]


def test_subfolder_belongs_to_the_whole_repository(repository: Path) -> None:
    found = project(repository / "sub")

    assert found.root == str(repository)
    assert sorted(asyncio.run(found.files()).files) == ["a", "sub/b"]


def test_work_in_an_ignored_folder_lists_its_files(repository: Path) -> None:
    write(repository, "out/x", "out/y.log", "out/deep/z")
    (repository / ".gitignore").write_text("/out\n")
    (repository / "out/.gitignore").write_text("*.log\n")

    files = listed(repository / "out").files

    assert sorted(files) == [".gitignore", "a", "out/.gitignore", "out/deep/z", "out/x", "sub/b"]


def test_linked_work_tree_is_a_separate_project(repository: Path) -> None:
    tree = repository.parent / "tree"
    run_git(repository, "worktree", "add", "-q", str(tree))
    write(tree, "only-here")
    run_git(tree, "add", "only-here")

    places = project(tree).git_places()

    assert sorted(listed(tree).files) == ["a", "only-here", "sub/b"]
    assert places is not None
    assert places.common == repository / ".git"
    assert places.git_dir == repository / ".git/worktrees/tree"


def test_nested_repositories_are_listed_by_their_own_ignore_rules(repository: Path) -> None:
    other = repository.parent / "other"
    write(other, "c")
    run_git(other, "init", "-q")
    run_git(other, "add", ".")
    run_git(other, "commit", "-qm", "x")
    run_git(repository, "submodule", "--quiet", "add", str(other), "module")
    run_git(repository, "clone", "-q", str(other), "nested")
    write(repository, "nested/new", "nested/x.log", "module/new")
    (repository / "nested/.gitignore").write_text("*.log\n")

    assert sorted(listed(repository).files) == [
        ".gitmodules", "a", "module/c", "module/new", "nested/.gitignore", "nested/c",
        "nested/new", "sub/b",
    ]  # fmt: skip


@pytest.mark.security
def test_hooks_and_programs_in_git_config_are_not_run(repository: Path) -> None:
    trap = repository.parent / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {trap}.sprung\n")
    trap.chmod(0o755)
    hook = repository / ".git/hooks/post-index-change"
    hook.write_text(trap.read_text())
    hook.chmod(0o755)
    for key in ("core.fsmonitor", "core.pager", "filter.x.clean", "filter.x.process"):
        run_git(repository, "config", key, str(trap))
    (repository / ".gitattributes").write_text("* filter=x\n")
    write(repository, "new")

    files = listed(repository, dependencies=True).files

    assert sorted(files) == [".gitattributes", "a", "new", "sub/b"]
    assert not trap.with_name("trap.sprung").exists()


@pytest.mark.security
def test_git_file_that_points_to_another_repository_is_ignored(
    repository: Path, tmp_path: Path
) -> None:
    liar = tmp_path / "liar"
    write(liar, "x")
    (liar / ".git").write_text(f"gitdir: {repository}/.git\n")

    assert project(liar).git_places() is None
    assert listed(liar).files == ["x"]


@pytest.mark.security
def test_forged_index_names_do_not_escape_the_repository(repository: Path) -> None:
    write(repository, "xx/y", ".xyz/config")
    run_git(repository, "add", ".")
    index = repository / ".git/index"
    content = index.read_bytes()[:-20].replace(b"xx/y", b"../y").replace(b".xyz/c", b".git/c")
    index.write_bytes(content + hashlib.sha1(content).digest())
    write(repository.parent, "y")

    files = listed(repository).files

    assert sorted(files) == [".xyz/config", "a", "sub/b", "xx/y"]
    folders = RealFolders(str(repository))
    assert [folders.holds(name) for name in ("sub", "..", "sub/..", "/etc", "sub/.", "")] == [
        True, False, False, False, False, True
    ]  # fmt: skip


def test_files_of_dirge_are_not_part_of_the_project(repository: Path) -> None:
    write(repository, "state/sessions/x", ".dirge-0123456789abcdef.tmp")

    found = project(repository, state=repository / "state")

    assert sorted(asyncio.run(found.files()).files) == ["a", "sub/b"]


def test_home_folder_is_not_a_project(home: Path) -> None:
    write(home, ".bashrc", "work/a")
    run_git(home, "init", "-q")

    found = project(home / "work")

    assert found.root == str(home / "work")
    assert asyncio.run(found.files()).files == ["a"]


def test_too_many_files_raise_file_error(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project_files, "MOST_FILES", 2)
    assert len(listed(repository).files) == 2

    write(repository, "new")
    with pytest.raises(FileError, match="more than 2 files"):
        listed(repository)


def test_split_index_and_foreign_owner_are_readable(repository: Path) -> None:
    require_root_tools("chown")
    run_git(repository, "update-index", "--split-index")
    write(repository, "new")
    run_git(repository, "add", "new")
    subprocess.run(["chown", "-R", "65534", str(repository)], check=True)

    assert sorted(listed(repository).files) == ["a", "new", "sub/b"]


def test_copied_git_folder_has_the_same_history_and_status(repository: Path) -> None:
    run_git(repository, "pack-refs", "--all")
    run_git(repository, "tag", "v1")
    run_git(repository, "config", "core.autocrlf", "false")
    places = project(repository).git_places()
    assert places is not None
    copy = repository.parent / 'co"py'
    copy.mkdir()

    repository_copy.make_git_folder(copy / ".git", places, ignored=["a b!"])
    write(copy, "a", "sub/b", "a b!")

    assert run_git(copy, "log", "--format=%H %D") == run_git(repository, "log", "--format=%H %D")
    assert run_git(copy, "status", "--short") == ""
    run_git(copy, "commit", "--allow-empty", "-qm", "second")
    assert run_git(repository, "log", "--format=%s") == "first\n"
    assert not os.path.exists(copy / ".git/hooks")


@pytest.mark.security
def test_links_in_git_folder_do_not_copy_outside_secrets(repository: Path) -> None:
    secret = repository.parent / "keys"
    write(secret, "key")
    (secret / "exclude").write_text("SECRET")
    (secret / "key").write_text("SECRET")
    branch = (repository / ".git/refs/heads/main").read_bytes()
    for name, target in [("packed-refs", "key"), ("shallow", "key"), ("refs", ""), ("info", "")]:
        (repository / ".git" / name).exists() and (repository / ".git" / name).rename(
            repository.parent / f"was-{name}"
        )
        (repository / ".git" / name).symlink_to(secret / target)
    (secret / "main").write_bytes(branch)
    places = project(repository).git_places()
    assert places is not None
    copy = repository.parent / "copy.git"

    repository_copy.make_git_folder(copy, places)

    copied = {path.name: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    assert copied["main"] == branch
    assert not any(b"SECRET" in content for content in copied.values())
    (repository / ".git/index").unlink()
    (repository / ".git/index").symlink_to(secret / "key")
    (repository / ".git/HEAD").unlink()
    (repository / ".git/HEAD").symlink_to(secret / "key")
    with pytest.raises(OSError, match="HEAD"):
        repository_copy.make_git_folder(repository.parent / "other.git", places)


def test_ignored_name_with_newline_ignores_no_other_file(repository: Path) -> None:
    places = project(repository).git_places()
    assert places is not None
    copy = repository.parent / "copy"
    copy.mkdir()
    repository_copy.make_git_folder(copy / ".git", places, ignored=["vendor\nnew", "x"])
    write(copy, "a", "sub/b", "new", "x")

    assert run_git(copy, "status", "--short") == "?? new\n"


def test_git_objects_are_found_in_folders_with_special_names(tmp_path: Path) -> None:
    folder = tmp_path / '"quo\\ted" #1'
    write(folder, "a")
    run_git(folder, "init", "-q")
    run_git(folder, "add", ".")
    run_git(folder, "commit", "-qm", "first")
    places = project(folder).git_places()
    assert places is not None

    repository_copy.make_git_folder(tmp_path / "copy.git", places)

    assert run_git(tmp_path, "--git-dir=copy.git", "show", "--format=", "HEAD:a") == "a\n"
