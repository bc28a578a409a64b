import os
import stat
import subprocess
from pathlib import Path

import pytest

from dirge_py.permission.git_config import GIT_HARDENING, Unreadable, hazard, settings

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
    """A program that leaves a file named `ran` when it is started."""
    program = project.home / "program"
    program.write_text(f"#!/bin/sh\ntouch {project.home}/ran\ncat\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


@pytest.mark.parametrize(("key", "value"), HOSTILE)
def test_a_key_that_names_a_program_asks_and_is_named(
    own_project: Project, key: str, value: str
) -> None:
    program = marker(own_project)
    own_project.git("config", "--local", key, value.replace("PROGRAM", str(program)))

    for command in ("git status", "git diff", "git log -p", "cd src && git show"):
        decision = own_project.run(command)
        assert decision.effect == "ask"
        assert key.lower() in decision.reason.lower()
    assert not (own_project.home / "ran").exists()


def test_an_ordinary_clone_is_no_hazard(own_project: Project) -> None:
    own_project.git("config", "--local", "remote.origin.url", "https://example.com/x.git")
    own_project.git(
        "config", "--local", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"
    )
    own_project.git("config", "--local", "branch.main.merge", "refs/heads/main")
    own_project.git("config", "--local", "core.fsmonitor", "false")

    assert hazard(str(own_project.root)) == ""


def test_a_changed_config_is_noticed(own_project: Project) -> None:
    assert own_project.run("git status").effect == "allow"
    own_project.git("config", "--local", "core.pager", "x")
    assert own_project.run("git status").effect == "ask"
    own_project.git("config", "--local", "--unset", "core.pager")
    assert own_project.run("git status").effect == "allow"


def test_an_embedded_bare_repository_asks(own_project: Project) -> None:
    bare = own_project.root / "vendor/bare"
    own_project.git("init", "-q", "--bare", str(bare))

    decision = own_project.run("cd vendor/bare && git status")

    assert decision.effect == "ask"
    assert "bare" in decision.reason
    assert own_project.run("git status").effect == "allow"


def test_an_embedded_repository_is_judged_by_its_own_config(own_project: Project) -> None:
    inner = own_project.root / "vendor/x"
    own_project.git("init", "-q", str(inner))
    own_project.git("config", "--local", "core.fsmonitor", "x", cwd=inner)

    assert own_project.run("cd vendor/x && git status").effect == "ask"
    assert own_project.run("git status").effect == "allow"


def test_a_submodule_counts_for_the_repository_that_holds_it(own_project: Project) -> None:
    inner = own_project.root / "vendor/x"
    own_project.git("init", "-q", str(inner))
    own_project.git("commit", "-q", "--allow-empty", "-m", "x", cwd=inner)
    own_project.git("add", "README.md", "src", "vendor/x")
    assert own_project.run("git status").effect == "allow"

    own_project.git("config", "--local", "filter.x.clean", "x", cwd=inner)

    assert "filter.x.clean" in own_project.run("git status").reason


def test_worktrees_and_their_own_config_are_followed(own_project: Project) -> None:
    own_project.git("commit", "-q", "--allow-empty", "-m", "x")
    tree = own_project.root / "trees/one"
    own_project.git("worktree", "add", "-q", str(tree), "-b", "one")
    assert own_project.run("cd trees/one && git status").effect == "allow"

    own_project.git("config", "--local", "extensions.worktreeConfig", "true")
    own_project.git("config", "--worktree", "diff.external", "x", cwd=tree)

    assert "diff.external" in own_project.run("cd trees/one && git diff").reason


def test_a_git_link_that_leads_nowhere_asks(own_project: Project) -> None:
    (own_project.root / "src/.git").write_text("nonsense\n")

    assert own_project.run("cd src && git status").effect == "ask"


def test_hardened_git_runs_no_program_of_the_repository(own_project: Project) -> None:
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


@pytest.mark.parametrize(
    "text",
    [
        '[core]\n\tfsmonitor = x\n[Diff "A.b"]\n  TextConv = y ; c\n[a]b=c\nd\n',
        "[core] fsmonitor = x\n# comment\n; comment\n\n",
        '[remote "or\\"igin"]\n\turl = a\\\nb\n',
        "\ufeff[core]\r\n\tpager = x\r\n",
    ],
)
def test_the_reader_finds_what_git_finds(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config"
    file.write_bytes(text.encode())
    listed = subprocess.run(
        ["git", "config", "--file", str(file), "--list", "--name-only", "-z"],
        capture_output=True,
        text=True,
        check=True,
    )

    names = [name.replace('\\"', '"') for name, _ in settings(text)]

    assert names == listed.stdout.split("\0")[:-1]


@pytest.mark.parametrize("text", ["x = y\n", "[core\nx = y", "[core]\n!x\n"])
def test_what_git_could_not_have_written_is_refused(text: str) -> None:
    with pytest.raises(Unreadable):
        settings(text)
