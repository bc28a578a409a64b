"""Commands in a sandbox work as outside, except for what it forbids."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from dirge_py.processes.environment import EnvironmentPolicy
from dirge_py.processes.runner import Runner
from dirge_py.processes.running_command import CommandResult
from dirge_py.processes.sandbox.probe import find_sandbox
from dirge_py.processes.sandbox.profile import NoSandbox, Sandbox, SandboxProfile
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import ProcessError
from tests.support.requirements import lacking

KINDS = ["bubblewrap", "landlock"]


@pytest.fixture
def work(home: Path) -> Path:
    folder = home / "work"
    (folder / "sub").mkdir(parents=True)
    return folder


@pytest.fixture
def profile(home: Path, work: Path) -> SandboxProfile:
    # The Python of the tests may be in a temporary folder, which a sandbox replaces.
    return SandboxProfile(roots=(str(work),), home=str(home), readable=(sys.prefix,))


def open_sandbox(profile: SandboxProfile, kind: str = "bubblewrap") -> Sandbox:
    found = find_sandbox(profile) if kind == "bubblewrap" else find_sandbox(profile, programs=())
    if isinstance(found, NoSandbox) or found.kind != kind:
        lacking(f"a working sandbox made with {kind}")
    return found


class SandboxRunner:
    """Runs commands in a sandbox of `profile`."""

    def __init__(self, profile: SandboxProfile, kind: str = "bubblewrap") -> None:
        self.sandbox = open_sandbox(profile, kind)
        self.runner = Runner(EnvironmentPolicy(), self.sandbox.launcher)
        self.cwd = profile.roots[0]

    async def run(self, command: str, **options: object) -> CommandResult:
        return await self.runner.run(command, cwd=self.cwd, **options)  # type: ignore[arg-type]

    async def text(self, command: str, **options: object) -> str:
        finished = await self.run(command, **options)
        return (finished.output.head + finished.output.tail).decode()

    async def close(self) -> None:
        await self.runner.shutdown()
        self.sandbox.close()


@pytest.fixture
async def sandboxed(profile: SandboxProfile) -> AsyncIterator[SandboxRunner]:
    made = SandboxRunner(profile)
    yield made
    await made.close()


@pytest.fixture(params=KINDS)
async def any_sandbox(
    request: pytest.FixtureRequest, profile: SandboxProfile
) -> AsyncIterator[SandboxRunner]:
    made = SandboxRunner(profile, request.param)
    yield made
    await made.close()


def git(*words: str, cwd: Path) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    return subprocess.run(
        ["git", *identity, *words], cwd=cwd, check=True, capture_output=True, text=True
    ).stdout


def repository(folder: Path) -> Path:
    git("init", "-q", cwd=folder)
    (folder / "file").write_text("one\n")
    git("add", ".", cwd=folder)
    git("commit", "-qm", "first", cwd=folder)
    return folder


IDENTITY = {
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@b",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@b",
}


# --- what works as outside


async def test_sandboxed_command_keeps_output_exit_code_and_folder(any_sandbox, work):
    finished = await any_sandbox.run("pwd -P; echo said >&2; exit 3")

    assert finished.exit_code == 3
    assert finished.output.head.decode() == f"{work.resolve()}\nsaid\n"


async def test_file_written_in_workspace_persists(any_sandbox, work):
    assert (await any_sandbox.run("echo made > sub/file")).exit_code == 0

    assert (work / "sub/file").read_text() == "made\n"


async def test_sandboxed_command_has_its_own_temporary_folder(any_sandbox):
    text = await any_sandbox.text(
        'f=$(mktemp) && echo kept > $f && cat $f && dirname $f && echo "$TMPDIR"'
    )

    kept, folder, named = text.split()
    assert (kept, folder) == ("kept", named)


async def test_pytest_runs_in_sandbox(sandboxed, work):
    (work / "test_it.py").write_text("def test_it(tmp_path):\n    assert tmp_path\n")

    finished = await sandboxed.run(f"{sys.executable} -m pytest -q -p no:xdist", timeout_s=60)

    assert finished.exit_code == 0, finished.output.head


async def test_server_of_same_command_is_reachable(sandboxed):
    script = (
        "import socket; s = socket.create_server(('127.0.0.1', 0));"
        "socket.create_connection(s.getsockname()); print('reached')"
    )
    assert await sandboxed.text(f'{sys.executable} -c "{script}"') == "reached\n"


async def test_only_given_environment_is_visible(any_sandbox, monkeypatch):
    monkeypatch.setenv("CANARY_TOKEN", "canary")

    text = await any_sandbox.text("env; cat /proc/self/environ | tr '\\0' '\\n'")

    assert "canary" not in text
    assert "DIRGE_CALL=" in text


async def test_readable_and_writable_paths_are_mounted(home, profile):
    (home / "shown").mkdir()
    (home / "shown/file").write_text("shown\n")
    (home / "open").mkdir()
    wider = replace(profile, readable=(str(home / "shown"),), writable=(str(home / "open"),))
    sandboxed = SandboxRunner(wider)

    text = await sandboxed.text("cat ~/shown/file; touch ~/shown/new ~/open/new; ls ~")
    await sandboxed.close()

    assert text.splitlines()[0] == "shown"
    assert text.splitlines()[-3:] == ["open", "shown", "work"]
    assert [path.name for path in home.glob("*/new")] == ["new"]
    assert (home / "open/new").exists()


# --- nothing is left running


async def test_stopped_command_gets_sigterm_first(any_sandbox, work):
    command = "trap 'echo bye > sub/said; exit' TERM; echo ready; while :; do sleep 0.05; done"
    signal = AbortSignal()

    finished = await any_sandbox.run(
        command, signal=signal, on_output=lambda text, size: signal.abort()
    )

    assert finished.aborted
    assert (work / "sub/said").read_text() == "bye\n"


@pytest.mark.parametrize(
    "command",
    [
        "setsid sleep 987 & disown; echo ready; sleep 987",
        "(setsid nohup sleep 987 >/dev/null 2>&1 &) ; trap '' TERM; echo ready; sleep 987",
        "env -i setsid bash -c 'trap \"\" TERM; sleep 987' & echo ready; wait",
    ],
)
async def test_aborted_command_leaves_no_process(any_sandbox, our_children, command):
    signal = AbortSignal()
    before = our_children()
    sleeping = sleepers()

    finished = await any_sandbox.run(
        command, signal=signal, on_output=lambda text, size: signal.abort()
    )

    assert (finished.aborted, finished.left) == (True, ())
    assert sleepers() == sleeping
    assert our_children() <= before


async def test_timed_out_command_leaves_no_process(any_sandbox):
    sleeping = sleepers()

    finished = await any_sandbox.run("setsid sleep 987 & sleep 987", timeout_s=0.3)

    assert (finished.timed_out, finished.left) == (True, ())
    assert finished.duration_s < 3
    assert sleepers() == sleeping


async def test_finished_command_leaves_no_background_process(any_sandbox):
    sleeping = sleepers()

    finished = await any_sandbox.run("setsid sleep 987 & echo done")

    assert finished.exit_code == 0
    assert finished.duration_s < 3
    assert sleepers() == sleeping


def sleepers() -> set[str]:
    """The processes left by the commands of these tests."""
    found = set()
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:2] == [b"sleep", b"987"]:
            found.add(name)
    return found


# --- git


async def test_git_folder_is_readable_and_not_writable(any_sandbox, work):
    repository(work)

    text = await any_sandbox.text(
        "git log --format=%s; git commit --allow-empty -m more; ls .git/hooks"
    )

    assert text.splitlines()[0] == "first"
    assert git("log", "--format=%s", cwd=work) == "first\n"


async def test_command_with_git_permit_commits_but_cannot_change_hooks_or_config(sandboxed, work):
    repository(work)
    sandboxed.runner.prepare("c", IDENTITY, frozenset({"git"}))
    command = (
        "echo two > file; git commit -qam second && echo committed; touch .git/hooks/pre-commit;"
        "git config core.fsmonitor /bin/evil; mv .git/hooks .git/h; mv .git git.old; ls -A"
    )

    text = await sandboxed.text(command, call_id="c")

    assert "committed" in text
    assert git("log", "--format=%s", cwd=work) == "second\nfirst\n"
    assert "fsmonitor" not in (work / ".git/config").read_text()
    assert not (work / ".git/hooks/pre-commit").exists()
    assert not (work / "git.old").exists()


async def test_command_with_git_permit_can_create_repository(sandboxed, work):
    sandboxed.runner.prepare("c", {}, frozenset({"git"}))

    first = await sandboxed.run("git init -q", call_id="c")
    await sandboxed.close()

    assert first.exit_code == 0
    assert git("rev-parse", "--is-inside-work-tree", cwd=work) == "true\n"
    assert (work / ".git").stat().st_mode & 0o7777 == 0o755


async def test_linked_worktree_works_in_sandbox(sandboxed, home, work):
    main = home / "main"
    main.mkdir()
    repository(main)
    work.joinpath("sub").rmdir()
    git("worktree", "add", "-q", str(work), cwd=main)
    sandboxed.runner.prepare("c", IDENTITY, frozenset({"git"}))

    seen = await sandboxed.text(
        "git log --format=%s; rm .git; ls ~/main; git commit --allow-empty -m x"
    )
    written = await sandboxed.run("git commit -q --allow-empty -m second", call_id="c")

    assert seen.splitlines()[0] == "first"
    assert written.exit_code == 0
    assert git("log", "--format=%s", cwd=work) == "second\nfirst\n"


async def test_git_file_pointing_to_foreign_repository_opens_nothing(home, work, profile):
    other = home / "other"
    other.mkdir()
    repository(other)
    (work / ".git").write_text(f"gitdir: {other}/.git\n")
    sandboxed = SandboxRunner(profile)

    text = await sandboxed.text(f"ls {other}/.git; git log --format=%s")
    await sandboxed.close()

    assert "first" not in text
    assert "HEAD" not in text


async def test_subfolder_of_repository_sees_history_but_cannot_write_outside(home, profile):
    top = home / "top"
    (top / "part").mkdir(parents=True)
    repository(top)
    sandboxed = SandboxRunner(replace(profile, roots=(str(top / "part"),)))

    text = await sandboxed.text("git log --format=%s; touch ../new; ls -A")
    await sandboxed.close()

    assert text.splitlines()[0] == "first"
    assert not (top / "new").exists()
    assert not (top / "part/.git").exists()


async def test_submodule_git_folder_is_protected(sandboxed, home, work):
    library = home / "library"
    library.mkdir()
    repository(library)
    repository(work)
    allowed = ["-c", "protocol.file.allow=always"]
    git(*allowed, "submodule", "add", "-q", str(library), "vendor", cwd=work)
    sandboxed.runner.prepare("c", {}, frozenset({"git"}))

    await sandboxed.run("echo gitdir: evil > vendor/.git; touch .git/modules/vendor/new")
    await sandboxed.run(
        "touch .git/modules/vendor/hooks/pre-commit; echo x >> .git/modules/vendor/config",
        call_id="c",
    )

    assert git("rev-parse", "--show-prefix", cwd=work / "vendor") == "\n"
    assert not (work / ".git/modules/vendor/new").exists()
    assert not (work / ".git/modules/vendor/hooks/pre-commit").exists()
    assert "x\n" not in (work / ".git/modules/vendor/config").read_text()


async def test_protected_submodule_cannot_be_replaced_by_moving_folders(any_sandbox, home, work):
    library = home / "library"
    library.mkdir()
    repository(library)
    repository(work)
    allowed = ["-c", "protocol.file.allow=always"]
    git(*allowed, "submodule", "add", "-q", str(library), "parts/vendor", cwd=work)
    exchange = (
        "mv parts/vendor parts/old; mv parts old; mkdir -p parts/vendor;"
        "echo gitdir: ../../evil > parts/vendor/.git"
    )

    await any_sandbox.run("rm -f .gitmodules; echo > .gitmodules")
    await any_sandbox.run(exchange)

    assert git("rev-parse", "--git-dir", cwd=work / "parts/vendor") == (
        f"{work}/.git/modules/parts/vendor\n"
    )


async def test_writable_repository_cannot_be_redirected_to_other_config(sandboxed, home, work):
    library = home / "library"
    library.mkdir()
    repository(library)
    repository(work)
    allowed = ["-c", "protocol.file.allow=always"]
    git(*allowed, "submodule", "add", "-q", str(library), "vendor", cwd=work)
    git("worktree", "add", "-q", str(home / "tree"), cwd=work)
    git("config", "extensions.worktreeConfig", "true", cwd=work)
    sandboxed.runner.prepare("c", IDENTITY, frozenset({"git"}))
    command = (
        "cp -r .git evil; git config -f evil/config core.fsmonitor /bin/evil;"
        "echo ../evil > .git/commondir; rm .git/commondir;"
        "git config -f .git/config.worktree core.fsmonitor /bin/evil;"
        "echo ../../../evil > .git/worktrees/tree/commondir;"
        "mv .git/worktrees .git/w; cp -r .git/w .git/worktrees;"
        "mv .git/modules .git/m; cp -r .git/m .git/modules;"
        "git config -f .git/modules/vendor/config core.fsmonitor /bin/evil;"
        "git config -f .git/worktrees/tree/config.worktree core.fsmonitor /bin/evil;"
        "echo ../../../evil > .git/modules/vendor/commondir;"
        "git commit -q --allow-empty -m second && echo committed"
    )

    text = await sandboxed.text(command, call_id="c")
    await sandboxed.close()

    assert "committed" in text
    for folder in (work, work / "vendor", home / "tree"):
        assert "evil" not in git("config", "--list", cwd=folder)
    assert not (work / ".git/commondir").exists()
    assert not (work / ".git/modules/vendor/commondir").exists()


async def test_fifo_at_git_config_path_does_not_block(any_sandbox, work):
    repository(work)
    os.mkfifo(work / ".gitmodules")
    (work / ".git/config").unlink()
    os.mkfifo(work / ".git/config")

    assert await any_sandbox.text("echo done") == "done\n"


async def test_folder_containing_a_root_cannot_be_moved(home, work, profile):
    inner = work / "sub/inner"
    inner.mkdir(parents=True)
    sandboxed = SandboxRunner(replace(profile, roots=(str(work), str(inner))))

    await sandboxed.run("mv sub old; mkdir -p sub/inner/.dirge/plugins")
    await sandboxed.close()

    assert sorted(path.name for path in work.iterdir()) == ["sub"]
    assert list(inner.iterdir()) == []


# --- what is left on disk


async def test_sandbox_leaves_no_files(any_sandbox, work):
    await any_sandbox.run("ls -A")
    await any_sandbox.close()

    assert [path.name for path in work.iterdir()] == ["sub"]


async def test_guard_folder_left_by_crash_is_removed_by_next_sandbox(sandboxed, work, profile):
    (work / ".dirge").mkdir()
    (work / ".dirge").chmod(0o1700)
    await sandboxed.run("true")
    await sandboxed.close()

    assert not (work / ".dirge").exists()


async def test_guard_folder_with_user_files_is_kept(sandboxed, work):
    await sandboxed.run("true")
    (work / ".dirge/prompts").mkdir()
    await sandboxed.close()

    assert (work / ".dirge").stat().st_mode & 0o7777 == 0o755
    assert (work / ".dirge/prompts").exists()


async def test_guard_folder_used_by_another_sandbox_is_kept(sandboxed, profile, work):
    other = SandboxRunner(profile)
    await asyncio.gather(sandboxed.run("true"), other.run("true"))
    await sandboxed.close()
    held = (work / ".dirge").exists()
    text = await other.text("mkdir .dirge/x || echo refused")
    await other.close()

    assert held
    assert "refused" in text
    assert not (work / ".dirge").exists()


# --- no sandbox, no command


def fake(folder: Path, script: str) -> str:
    program = folder / "bwrap"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return str(program)


def test_broken_sandbox_program_is_rejected_with_reason(tmp_path, profile, monkeypatch):
    monkeypatch.setattr("dirge_py.processes.sandbox.landlock_exec.abi", lambda: 0)
    program = fake(tmp_path, "echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1")

    found = find_sandbox(profile, programs=[program])

    assert isinstance(found, NoSandbox)
    assert "setting up uid map: Permission denied" in found.reason
    assert found.fix


def test_missing_sandbox_program_suggests_installation(profile, monkeypatch):
    monkeypatch.setattr("dirge_py.processes.sandbox.landlock_exec.abi", lambda: 0)

    found = find_sandbox(profile, programs=[])

    assert isinstance(found, NoSandbox)
    assert "apt install bubblewrap" in found.fix


async def test_sandbox_that_breaks_later_runs_no_command(tmp_path, profile, work):
    open_sandbox(profile).close()
    program = fake(tmp_path, 'exec /usr/bin/bwrap "$@"')
    sandbox = find_sandbox(profile, programs=[program])
    assert isinstance(sandbox, Sandbox)
    runner = Runner(EnvironmentPolicy(), sandbox.launcher)

    fake(tmp_path, "exit 1")
    broken = await runner.run("touch made", cwd=str(work))
    Path(program).unlink()
    gone = await runner.run("touch made", cwd=str(work))
    sandbox.close()
    with pytest.raises(ProcessError):
        await runner.run("touch made", cwd=str(work))

    assert 0 not in (broken.exit_code, gone.exit_code)
    assert not (work / "made").exists()


def test_home_folder_is_rejected_as_workspace(home, profile):
    for root in (home, home.parent, Path("/")):
        found = find_sandbox(replace(profile, roots=(str(root),)))

        assert isinstance(found, NoSandbox)


@pytest.mark.parametrize("name", [".git", ".dirge"])
async def test_symlink_that_cannot_be_protected_is_refused(sandboxed, home, work, profile, name):
    (home / "real").mkdir()
    (work / name).symlink_to(home / "real")

    with pytest.raises(ProcessError, match="symbolic link"):
        await sandboxed.run("true")
    assert isinstance(find_sandbox(profile), NoSandbox)


async def test_command_in_hidden_folder_is_refused(sandboxed, home):
    (home / "private").mkdir()

    with pytest.raises(ProcessError, match="hidden"):
        await sandboxed.runner.run("true", cwd=str(home / "private"))


@pytest.mark.parametrize("kind", KINDS)
async def test_working_folder_outside_workspace_is_not_writable(profile, tmp_path, kind):
    other = tmp_path / "other"
    (other / "deep").mkdir(parents=True)
    sandboxed = SandboxRunner(replace(profile, readable=(*profile.readable, str(other))), kind)

    for folder in (other, other / "deep"):
        finished = await sandboxed.runner.run(
            "pwd -P; touch made; touch ../made; cd ..; touch made", cwd=str(folder)
        )
        assert finished.output.head.decode().splitlines()[0] == str(folder.resolve())
    await sandboxed.close()

    assert sorted(path.name for path in other.rglob("*")) == ["deep"]
