"""The read-only profile without other checks: what its commands can't do."""

import asyncio
import os
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from dirge_py.processes.environment import EnvironmentPolicy
from dirge_py.processes.programs import closed_folders, program_problem, search_path
from dirge_py.processes.runner import Runner
from dirge_py.processes.sandbox import seatbelt
from dirge_py.processes.sandbox.profile import LaunchSpec, SandboxProfile
from dirge_py.processes.sandbox.read_only import ReadOnlyProfile
from dirge_py.types.errors import ProcessError
from tests.conftest import NEEDS
from tests.support.requirements import as_nobody

HERE = Path(__file__).parents[2]

ATTEMPTS = {
    "make a file": "echo x > made",
    "make a file elsewhere": "echo x > ../made",
    "change a file": "echo x >> kept",
    "truncate a file": "perl -e 'truncate(q(kept), 0) or exit 1'",
    "open with O_TRUNC": "perl -e 'use Fcntl; sysopen(F, q(kept), O_RDONLY|O_TRUNC) or exit 1'",
    "rename": "mv kept other && mv other kept",
    "link": "ln kept link",
    "create a symlink": "ln -s kept symlink",
    "make a folder": "mkdir folder",
    "make a pipe": "mkfifo pipe",
    "set the mode": "chmod 777 kept",
    "set the time": "touch -d 2001-01-01 kept",
    "set the owner": "chown 1:1 kept",
    "set a flag": "chattr +d kept",
    "set limits of another process": "prlimit --pid $PPID --core=0:0",
    "change priority of another process": "renice -n 19 -p $PPID",
    "create a socket pair": "perl -e 'use Socket; socketpair(A,B,AF_UNIX,SOCK_DGRAM,0) or exit 1'",
    "connect to loopback": "exec 3<>/dev/tcp/127.0.0.1/PORT",
    "create a unix socket": "perl -e 'use Socket; socket(S, PF_UNIX, SOCK_STREAM, 0) or exit 1'",
    "run a script": "./script",
    "run a program": "./program",
    "run a program from the home folder": "HOME/program",
    "run a program it wrote": "cp /bin/true \"$TMPDIR\" && \"$TMPDIR/true\"",
    "write to a world-writable folder": "f=$(mktemp -p /tmp) && rm $f",
    "write to a device": ": > /dev/full",
    "regain privileges": "unshare -U true",
    "remove": "rm -f kept",
}  # fmt: skip

Run = Callable[[str], str]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    home = tmp_path / "home"
    for folder in (made, home):
        folder.mkdir()
        folder.chmod(0o777)
        for name in ("script", "program"):
            folder.joinpath(name).write_bytes(
                b"#!/bin/sh\n:\n" if name == "script" else Path("/bin/true").read_bytes()
            )
            folder.joinpath(name).chmod(0o755)
    (made / "kept").write_text("kept\n")
    (made / "kept").chmod(0o666)
    return made


@pytest.fixture
async def profile(project: Path) -> AsyncIterator[ReadOnlyProfile]:
    made = profile_of(project)
    yield made
    made.close()


def profile_of(project: Path, sandbox: SandboxProfile | None = None) -> ReadOnlyProfile:
    return ReadOnlyProfile(lambda: [str(project)], str(project.parent / "home"), sandbox=sandbox)


async def output(profile: ReadOnlyProfile | None, project: Path, command: str) -> str:
    runner = Runner(EnvironmentPolicy(), read_only=profile)
    runner.prepare("1", {}, is_read_only=True)
    finished = await runner.run(command, cwd=str(project), call_id="1")
    return finished.output.head.decode() + finished.output.tail.decode()


def attempts(project: Path, port: int = 9) -> str:
    """One command line that tries all attempts and prints the names of those that succeed."""
    lines = []
    for name, attempt in ATTEMPTS.items():
        words = attempt.replace("PORT", str(port)).replace("HOME", str(project.parent / "home"))
        lines.append(f"bash -c {shlex.quote(words)} >/dev/null 2>&1 && echo {shlex.quote(name)}")
    return "\n".join(lines)


async def listening() -> tuple[asyncio.Server, int]:
    server = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0)
    return server, server.sockets[0].getsockname()[1]


async def test_read_only_profile_blocks_writes_network_and_executing_workspace_files(
    project: Path, profile: ReadOnlyProfile
) -> None:
    server, port = await listening()
    restricted = await output(profile, project, attempts(project, port))
    before = (project / "kept").read_text()
    free = await output(None, project, attempts(project, port))
    server.close()

    assert (restricted, before) == ("", "kept\n")
    # Without the profile, these attempts succeed on this machine.
    for name in (
        "make a file", "rename", "set the mode", "set a flag", "set limits of another process",
        "connect to loopback", "create a socket pair", "run a program",
    ):  # fmt: skip
        assert name in free.splitlines()


def test_read_only_profile_works_for_unprivileged_user(project: Path) -> None:
    script = (
        "import asyncio, sys; from pathlib import Path; from tests.processes import "
        "test_read_only_profile as t; p = Path(sys.argv[1]); f = t.profile_of(p); "
        "print(f.mechanism.kind); print(asyncio.run(t.output(f, p, t.attempts(p)))); f.close()"
    )
    for above in (project.parent, *project.parents):
        if above.stat().st_uid == os.geteuid() and str(above).startswith("/tmp/"):
            above.chmod(0o755)
    ended = subprocess.run(
        [*as_nobody(), sys.executable, "-c", script, str(project)],
        cwd=HERE,
        env={"PATH": os.defpath, "HOME": str(project), "PYTHONPATH": str(HERE)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.stdout.split() == ["landlock"], ended.stderr
    assert (project / "kept").read_text() == "kept\n"


async def test_read_commands_work_in_read_only_profile(
    project: Path, profile: ReadOnlyProfile
) -> None:
    answer = await output(
        profile,
        project,
        "cat kept; ls -l kept >/dev/null 2>/dev/null && echo listed; echo a > $TMPDIR/a && cat "
        "$TMPDIR/a; seq 1 200000 | sort -r -S 1M | tail -n 1; git --version | cut -c1-11",
    )

    assert answer.split("\n") == ["kept", "listed", "a", "1", "git version", ""]


async def test_commands_outside_read_only_profile_keep_their_rights(
    project: Path, profile: ReadOnlyProfile
) -> None:
    await output(profile, project, "true")

    runner = Runner(EnvironmentPolicy(), read_only=profile)
    free = await runner.run("echo x > made && ./program && echo ran", cwd=str(project))

    assert free.output.head == b"ran\n"
    assert (project / "made").exists()


async def test_landlock_abi_1_also_blocks_truncating_files(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dirge_py.processes.sandbox.landlock_exec.abi", lambda: 1)
    profile = profile_of(project)

    restricted = await output(profile, project, attempts(project))
    profile.close()

    assert (profile.mechanism.kind, restricted) == ("landlock", "")
    assert (project / "kept").read_text() == "kept\n"


async def test_bubblewrap_is_used_if_landlock_is_missing(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dirge_py.processes.sandbox.landlock_exec.abi", lambda: 0)
    profile = profile_of(project)
    if profile.mechanism.kind != "bubblewrap":
        pytest.skip(f"{NEEDS}bubblewrap")

    server, port = await listening()
    restricted = await output(profile, project, attempts(project, port))
    read_output = await output(profile, project, "cat kept; echo a > $TMPDIR/a; cat $TMPDIR/a")
    server.close()
    profile.close()

    # bubblewrap can't prevent execution, and its reason says so.
    executes = {
        "run a script",
        "run a program",
        "run a program from the home folder",
        "run a program it wrote",
    }
    assert set(restricted.splitlines()) <= executes | {"write to a device"}
    assert "executed" in profile.mechanism.reason
    assert read_output == "kept\na\n"
    assert (project / "kept").read_text() == "kept\n"


async def test_without_mechanism_commands_run_and_reason_is_given(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dirge_py.processes.sandbox.landlock_exec.abi", lambda: 0)
    monkeypatch.setattr("dirge_py.processes.sandbox.bubblewrap.PROGRAMS", ())
    profile = profile_of(project)

    assert await output(profile, project, "cat kept") == "kept\n"
    assert str(profile.mechanism) == (
        "none: the kernel has no Landlock, or it is switched off, and bubblewrap is not installed"
    )


async def test_files_hidden_by_sandbox_are_hidden_in_read_only_profile(project: Path) -> None:
    home = project.parent / "home"
    (home / "private").write_text("private\n")
    sandbox = SandboxProfile(roots=(str(project),), home=str(home))
    profile = profile_of(project, sandbox)

    answer = await output(profile, project, f"cat kept; cat {home}/private; echo x > made")
    profile.close()

    assert answer.startswith("kept\n")
    assert "private\n" not in answer
    assert not (project / "made").exists()


async def test_closed_profile_starts_no_command_and_removes_its_folder(project: Path) -> None:
    profile = profile_of(project)
    await output(profile, project, "echo a > $TMPDIR/a")
    spec = LaunchSpec(cwd=str(project), environment={}, call_id="")
    started = profile.restricted_start(["true"], spec)
    assert started is not None
    folder = Path(started.environment["TMPDIR"])
    assert (folder / "a").exists()

    profile.close()

    assert not folder.exists()
    with pytest.raises(ProcessError):
        profile.restricted_start(["true"], spec)


def test_system_folders_are_not_closed(tmp_path: Path) -> None:
    inside = tmp_path / "work"
    inside.mkdir()

    closed = closed_folders(["/", "/usr", str(inside)], str(tmp_path))

    assert set(closed) >= {str(inside.resolve()), str(tmp_path.resolve())}
    assert not {"/", "/usr"} & set(closed)


def test_program_from_workspace_or_home_is_named_as_problem(tmp_path: Path) -> None:
    own, system = tmp_path / "own", tmp_path / "system"
    for folder, names in ((own, ("rg", "both", "inner")), (system, ("both",))):
        folder.mkdir()
        for name in names:
            (folder / name).write_text("")
            (folder / name).chmod(0o755)
    (system / "link").symlink_to(own / "inner")
    path = f"{own}:.:{system}"

    problems = {
        name: program_problem(name, path, (str(own),)) for name in ("rg", "both", "link", "none")
    }

    assert problems["rg"].startswith(f"`rg` is {own}/rg")
    assert problems["link"].startswith(f"`link` is {system}/link")
    assert (problems["both"], problems["none"]) == ("", "")
    assert search_path(path, [str(own)]) == str(system)


def test_seatbelt_profile_denies_writes_network_and_executing_workspace_files() -> None:
    text = seatbelt.read_only_profile("/private/tmp/own", ["/Users/me/project"])

    assert text.startswith("(version 1)\n(deny default)\n")
    assert '(deny process-exec (subpath "/Users/me/project"))' in text
    assert text.count("(allow file-write*") == 2
    assert '(allow file-write* (subpath "/private/tmp/own"))' in text
    assert text.endswith("(deny network*)\n")
