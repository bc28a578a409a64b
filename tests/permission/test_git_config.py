import os
import stat
import subprocess
from pathlib import Path

import pytest

from dirge_py.files import versions
from dirge_py.permission.git.files import acting_setting
from dirge_py.permission.git.repository import GIT_HARDENING, git_hazard

from .conftest import QUIET_GIT, Project

HOSTILE = [
    ("core.fsmonitor", "PROGRAM"), ("core.hooksPath", "hooks"), ("core.sshCommand", "PROGRAM"),
    ("core.pager", "PROGRAM"), ("core.editor", "PROGRAM"), ("core.askPass", "PROGRAM"),
    ("core.gitProxy", "PROGRAM"), ("core.worktree", "/"), ("core.alternateRefsCommand", "PROGRAM"),
    ("alias.x", "!PROGRAM"), ("diff.external", "PROGRAM"), ("diff.x.command", "PROGRAM"),
    ("diff.x.textconv", "PROGRAM"), ("filter.x.clean", "PROGRAM"), ("filter.x.smudge", "PROGRAM"),
    ("filter.x.process", "PROGRAM"), ("merge.x.driver", "PROGRAM"),
    ("credential.helper", "!PROGRAM"),
    ("credential.https://x.helper", "!PROGRAM"), ("gpg.program", "PROGRAM"),
    ("gpg.ssh.program", "PROGRAM"), ("remote.origin.uploadpack", "PROGRAM"),
    ("remote.origin.receivepack", "PROGRAM"), ("remote.origin.vcs", "x"),
    ("submodule.x.update", "!PROGRAM"), ("uploadpack.packObjectsHook", "PROGRAM"),
    ("include.path", "/tmp/x"), ("includeIf.gitdir:/.path", "/tmp/x"), ("pager.log", "PROGRAM"),
    ("interactive.diffFilter", "PROGRAM"), ("sequence.editor", "PROGRAM"),
    ("difftool.x.cmd", "PROGRAM"), ("remote.origin.promisor", "true"),
]  # fmt: skip


def marker(project: Project) -> Path:
    """A program that creates a file `ran` when it starts."""
    program = project.home / "program"
    program.write_text(f"#!/bin/sh\ntouch {project.home}/ran\ncat\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


ACTING = [pair for pair in HOSTILE if (row := acting_setting(pair[0])) and row.answer == "asks"]


@pytest.mark.parametrize(("key", "value"), ACTING)
def test_git_setting_that_names_a_program_asks_and_is_named(
    own_project: Project, key: str, value: str
) -> None:
    program = marker(own_project)
    own_project.git("config", "--local", key, value.replace("PROGRAM", str(program)))

    for command in ("git status", "git diff", "git log -p", "cd src && git show"):
        decision = own_project.run(command)
        assert decision.effect == "ask"
        assert key.lower() in decision.reason.lower()
    assert not (own_project.home / "ran").exists()


def test_ordinary_clone_has_no_git_hazard(own_project: Project) -> None:
    own_project.git("config", "--local", "remote.origin.url", "https://example.com/x.git")
    own_project.git(
        "config", "--local", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"
    )
    own_project.git("config", "--local", "branch.main.merge", "refs/heads/main")
    own_project.git("config", "--local", "core.fsmonitor", "false")

    assert git_hazard(str(own_project.root)) == ""


def test_changed_git_config_is_detected(own_project: Project) -> None:
    assert own_project.run("git status").effect == "allow"
    own_project.git("config", "--local", "diff.external", "x")
    assert own_project.run("git status").effect == "ask"
    own_project.git("config", "--local", "--unset", "diff.external")
    assert own_project.run("git status").effect == "allow"


def test_embedded_bare_repository_asks(own_project: Project) -> None:
    bare = own_project.root / "vendor/bare"
    own_project.git("init", "-q", "--bare", str(bare))

    decision = own_project.run("cd vendor/bare && git status")

    assert decision.effect == "ask"
    assert "bare" in decision.reason
    assert own_project.run("git status").effect == "allow"


def test_embedded_repository_is_judged_by_its_own_config(own_project: Project) -> None:
    inner = own_project.root / "vendor/x"
    own_project.git("init", "-q", str(inner))
    own_project.git("config", "--local", "diff.external", "x", cwd=inner)

    assert own_project.run("cd vendor/x && git status").effect == "ask"
    assert own_project.run("git status").effect == "allow"


def test_hostile_config_of_submodule_makes_outer_repository_ask(own_project: Project) -> None:
    inner = own_project.root / "vendor/x"
    own_project.git("init", "-q", str(inner))
    own_project.git("commit", "-q", "--allow-empty", "-m", "x", cwd=inner)
    own_project.git("add", "README.md", "src", "vendor/x")
    assert own_project.run("git status").effect == "allow"

    own_project.git("config", "--local", "filter.x.clean", "x", cwd=inner)

    assert "filter.x.clean" in own_project.run("git status").reason


def test_config_of_linked_worktree_is_read(own_project: Project) -> None:
    own_project.git("commit", "-q", "--allow-empty", "-m", "x")
    tree = own_project.root / "trees/one"
    own_project.git("worktree", "add", "-q", str(tree), "-b", "one")
    assert own_project.run("cd trees/one && git status").effect == "allow"

    own_project.git("config", "--local", "extensions.worktreeConfig", "true")
    own_project.git("config", "--worktree", "diff.external", "x", cwd=tree)

    assert "diff.external" in own_project.run("cd trees/one && git diff").reason


def test_invalid_git_file_asks(own_project: Project) -> None:
    (own_project.root / "src/.git").write_text("nonsense\n")

    assert own_project.run("cd src && git status").effect == "ask"


def test_hardened_git_runs_no_fsmonitor_and_no_hook_of_repository(own_project: Project) -> None:
    program = marker(own_project)
    own_project.git("add", "README.md")
    own_project.git("config", "--local", "core.fsmonitor", str(program))
    hooks = own_project.root / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    (hooks / "post-index-change").symlink_to(program)

    for command in ("status", "diff", "ls-files", "grep README"):
        subprocess.run(
            ["git", *command.split()],
            cwd=own_project.root,
            env={**os.environ, **QUIET_GIT, **GIT_HARDENING},
            check=False,
            capture_output=True,
        )

    assert not (own_project.home / "ran").exists()


def test_config_section_after_comment_ending_in_backslash_asks(own_project: Project) -> None:
    config = own_project.root / ".git/config"
    config.write_text(config.read_text() + '# x \\\n[diff "evil"]\n\ttextconv = x\n')

    assert "diff.evil.textconv" in own_project.run("git diff").reason


@pytest.mark.parametrize("is_empty", [True, False])
def test_incomplete_git_folder_is_skipped_for_repository_above(
    own_project: Project, is_empty: bool
) -> None:
    inner = own_project.root / "src/.git"
    inner.mkdir()
    if not is_empty:
        (inner / "HEAD").write_text("ref: refs/heads/x\n")
    assert own_project.run("cd src && git status").effect == "allow"

    own_project.git("config", "--local", "diff.external", "x")

    assert "diff.external" in own_project.run("cd src && git status").reason


def test_folder_with_head_and_commondir_counts_as_bare_repository(own_project: Project) -> None:
    (own_project.root / "src/HEAD").symlink_to("refs/heads/x")
    (own_project.root / "src/commondir").write_text("elsewhere\n")

    assert "bare" in own_project.run("cd src && git status").reason


@pytest.mark.parametrize("name", ["index", "config"])
def test_pipe_in_place_of_git_index_or_config_asks(tmp_path: Path, name: str) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    place = tmp_path / ".git" / name
    place.unlink(missing_ok=True)
    os.mkfifo(place)

    assert git_hazard(str(tmp_path))


def rewrite_unnoticed(path: Path, content: bytes) -> None:
    """Rewrite a file with the same size and modification time."""
    before = path.stat()
    assert len(content) == before.st_size
    # Times of a file system have a coarse resolution: write until the change time differs.
    while path.stat().st_ctime_ns == before.st_ctime_ns:
        path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.parametrize("settled", [versions.SETTLED_NS, -1 << 62])
def test_config_rewritten_with_same_time_and_size_is_read_again(
    own_project: Project, monkeypatch: pytest.MonkeyPatch, settled: int
) -> None:
    monkeypatch.setattr(versions, "SETTLED_NS", settled)
    config = own_project.root / ".git/config"
    own_project.git("config", "--local", "diff.renamelimit", "sh")
    assert own_project.run("git diff").effect == "allow"

    rewrite_unnoticed(config, config.read_bytes().replace(b"renamelimit", b"external   "))

    assert own_project.run("git diff").effect == "ask"


def test_index_rewritten_with_same_time_and_size_is_read_again(
    own_project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "SETTLED_NS", -1 << 62)
    (own_project.root / "key-pem").write_text("old")
    own_project.git("add", "key-pem")
    blob = own_project.git("rev-parse", ":key-pem").strip()
    assert own_project.run(f"git show {blob}").effect == "allow"
    index = own_project.root / ".git/index"

    rewrite_unnoticed(index, index.read_bytes().replace(b"key-pem", b"key.pem"))

    assert own_project.run(f"git show {blob}").effect == "ask"
