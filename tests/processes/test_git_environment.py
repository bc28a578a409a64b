"""Git's environment, with repositories whose settings and hooks run programs."""

import os
import subprocess

import pytest

from dirge_py.permission.git.repository import GIT_HARDENING
from dirge_py.processes.environment import EnvironmentPolicy, harden_git

QUIET = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}


@pytest.fixture
def repository(tmp_path):
    """A repository with one commit whose settings and hooks leave a mark when they run."""
    root = tmp_path / "proj"

    def git(*words: str) -> None:
        subprocess.run(["git", *words], cwd=root, check=True, env={**os.environ, **QUIET})

    root.mkdir()
    git("init", "-q", "-b", "main", ".")
    git("config", "user.name", "u")
    git("config", "user.email", "u@example.com")
    (root / "a").write_text("a\n")
    git("add", "a")
    git("commit", "-qm", "one")
    marker = tmp_path / "mark"
    marker.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran-$1\n")
    marker.chmod(0o755)
    git("config", "core.fsmonitor", f"{marker} fsmonitor; false")
    hook = root / ".git/hooks/pre-commit"
    hook.write_text(f"#!/bin/sh\n{marker} hook\n")
    hook.chmod(0o755)
    return root


async def git(runner, command: str, cwd, **options):
    finished = await runner.run(command, cwd=str(cwd), extra_env=QUIET, **options)
    return finished.exit_code, (finished.output.head + finished.output.tail).decode()


async def test_ordinary_git_commands_work(runner, repository, tmp_path):
    code, text = await git(
        runner,
        "git status --short && git checkout -qb b && echo b > b && git add b && git commit -qm two"
        " && git clone -q --bare . ../bare.git && git remote add o ../bare.git && git push -q o b"
        " && git worktree add -q ../tree main && git -C ../tree status --short"
        " && git -c core.fsmonitor=false stash list && git log --oneline | wc -l",
        repository,
    )

    assert (code, text.split()) == (0, ["2"])


async def test_fsmonitor_never_runs_and_hooks_run_unless_hardened(runner, repository, tmp_path):
    commit = "git commit --allow-empty -qm x && git status --short"
    await git(runner, commit, repository)
    result = sorted(path.name for path in tmp_path.glob("ran-*"))
    for path in tmp_path.glob("ran-*"):
        path.unlink()
    runner.prepare("strict", GIT_HARDENING)
    await git(runner, commit, repository, call_id="strict")

    assert result == ["ran-hook"]
    assert not list(tmp_path.glob("ran-*"))


async def test_bare_repository_inside_worktree_is_refused(runner, repository, tmp_path):
    await git(runner, "git clone -q --bare . sub/lib.git", repository)
    code, text = await git(runner, "git log", repository / "sub/lib.git")

    assert code == 128
    assert "safe.bareRepository" in text


async def test_ext_transport_is_refused(runner, repository, tmp_path):
    code, _text = await git(
        runner, f"git clone -q 'ext::touch {tmp_path}/ran-ext' ../copy", repository
    )

    assert code != 0
    assert not (tmp_path / "ran-ext").exists()


async def test_git_password_prompt_fails_at_once(runner, repository):
    code, text = await git(
        runner, "printf 'url=https://x@nowhere.invalid\\n' | git credential fill", repository
    )

    assert code != 0
    assert "terminal prompts disabled" in text


def test_git_hardening_is_merged_with_given_config_and_later_value_wins():
    environment = EnvironmentPolicy(source={}).build(
        "m",
        {
            "GIT_CONFIG_COUNT": "2",
            "GIT_CONFIG_KEY_0": "core.hooksPath",
            "GIT_CONFIG_VALUE_0": "/dev/null",
            "GIT_CONFIG_KEY_1": "safe.bareRepository",
            "GIT_CONFIG_VALUE_1": "all",
            "GIT_OPTIONAL_LOCKS": "1",
        },
    )
    output = subprocess.run(
        ["git", "config", "--list"], env=environment, capture_output=True, text=True, check=True
    ).stdout.split()

    assert environment["GIT_OPTIONAL_LOCKS"] == "1"
    assert output[-5:] == [
        "core.fsmonitor=false",
        "safe.barerepository=explicit",
        "protocol.ext.allow=never",
        "core.hookspath=/dev/null",
        "safe.barerepository=all",
    ]


def test_invalid_git_config_count_is_ignored():
    assert harden_git({"GIT_CONFIG_COUNT": "many"})["GIT_CONFIG_COUNT"] == "3"
