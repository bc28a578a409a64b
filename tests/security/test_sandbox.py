"""Ways out of the sandbox, each tried inside."""

import ctypes
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.security.sizes import count
from tests.support.requirements import lacking

HERE = Path(__file__).parent
IN_A_SANDBOX = str(HERE / "run_in_sandbox.py")
SECRET = "canary-8f2b61"
KINDS = ["bubblewrap", "landlock"]

NOT_WITH_LANDLOCK = {"see_the_parent", "change_permissions"}
"""What Landlock cannot keep from a command; its `limits` say so."""


HARMLESS = [
    "move_git", "write_hook", "git_of_a_folder_without", "make_dirge", "read_secrets",
    "read_through_a_link", "shared_memory_files", "see_the_parent", "system_v_memory", "ipv4",
    "abstract_socket", "sockets_of_services",
]  # fmt: skip
"""Ways that touch nothing but what the test made, so that they can be tried without a sandbox."""


@dataclass(frozen=True, kw_only=True)
class Site:
    """A workspace under git, one without, a home with secrets, and listeners around them."""

    base: Path
    prefix: tuple[str, ...]
    python: str
    targets: dict[str, Any]

    @property
    def work(self) -> Path:
        return self.base / "home" / "work"

    @property
    def environment(self) -> dict[str, str]:
        return {"PATH": "/usr/bin:/bin", "HOME": str(self.base / "home"), "DIRGE_CALL": "call"}

    def room(self) -> str:
        home = self.base / "home"
        return json.dumps(
            {
                "roots": [str(self.work), str(self.base / "bare")],
                "home": str(home),
                "hidden": [str(home / ".local/state/dirge"), str(home / ".config/dirge")],
            }
        )

    def run(self, kind: str, *command: str) -> "subprocess.CompletedProcess[str]":
        result = subprocess.run(
            [*self.prefix, self.python, "-B", IN_A_SANDBOX, self.room(), kind, *command],
            env=self.environment,
            cwd=self.work,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if result.returncode == 99:
            lacking(f"a working sandbox made with {kind}: {self.python}: {result.stderr}")
        return result


@pytest.fixture(params=["current user", "unprivileged user"])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    prefix: tuple[str, ...] = ()
    python = sys.executable
    if request.param == "unprivileged user":
        prefix, python = ordinary_user()
    with ExitStack() as stack:
        # Not pytest's: every session that begins closes the way to that one to other users.
        base = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="escapes-"))).resolve()
        base.chmod(0o755)
        targets = build(base, stack)
        if prefix:
            subprocess.run(["chown", "-R", "1000:1000", str(base)], check=True)
            os.chown(f"/dev/shm/{targets['shm']}", 1000, 1000)
        yield Site(base=base, prefix=prefix, python=python, targets=targets)


def ordinary_user() -> tuple[tuple[str, ...], str]:
    """A command prefix for an ordinary user, and a Python that it can run."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        lacking("root and setpriv")
    prefix = ("setpriv", "--reuid=1000", "--regid=1000", "--clear-groups")
    # Started by root it may run where its own user could not start it again.
    check = (
        "import os, sys; "
        "sys.exit(sys.version_info < (3, 11) or not os.access(sys.executable, os.X_OK))"
    )
    candidates = (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3")
    for python in filter(os.path.exists, candidates):
        if subprocess.run([*prefix, python, "-c", check], capture_output=True).returncode == 0:
            return prefix, python
    return lacking("a Python that other users may run")


def build(base: Path, stack: ExitStack) -> dict[str, Any]:
    home, bare = base / "home", base / "bare"
    work = home / "work"
    for folder in (work / "sub", bare, home / ".ssh", home / ".gnupg", home / ".config/dirge"):
        folder.mkdir(parents=True)
    (home / ".local/state/dirge").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    (work / "sub/file").write_text("fine\n")
    secrets = [
        home / ".ssh/id_ed25519",
        home / ".local/state/dirge/session.jsonl",
        home / ".config/dirge/config.toml",
        home / ".bash_history",
        base / "elsewhere.txt",
    ]
    for path in secrets:
        path.write_text(SECRET)
    shm = f"dirge-{os.getpid()}"
    Path(f"/dev/shm/{shm}").write_text(SECRET)
    stack.callback(Path(f"/dev/shm/{shm}").unlink, missing_ok=True)
    paths = [str(home / ".gnupg/S.gpg-agent"), f"/tmp/{shm}.sock"]
    for path in paths:
        listen(stack, socket.AF_UNIX, path)
        stack.callback(Path(path).unlink, missing_ok=True)
    listen(stack, socket.AF_UNIX, f"\0{shm}")
    return {
        "work": str(work),
        "bare": str(bare),
        "home": str(home),
        "secret": SECRET,
        "secrets": [str(path) for path in secrets],
        "outside": [str(HERE)],
        "hidden": [str(base), str(home), "/tmp", "/var/tmp", "/run", "/dev/shm"],
        "shm": shm,
        "mark": f"dirge-escape-{os.getpid()}",
        "shm_key": system_v_memory(stack),
        "abstract": shm,
        "sockets": [*paths, "/run/docker.sock", "/var/run/docker.sock", "/tmp/.X11-unix/X0"],
        "port": listen(stack, socket.AF_INET, ("127.0.0.1", 0)),
        "port6": listen(stack, socket.AF_INET6, ("::1", 0)) if socket.has_ipv6 else 1,
    }


def listen(stack: ExitStack, family: int, address: Any) -> int:
    listening = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
    listening.bind(address)
    listening.listen()
    if isinstance(address, str) and address.startswith("/"):
        os.chmod(address, 0o777)
    return listening.getsockname()[1] if isinstance(address, tuple) else 0


def system_v_memory(stack: ExitStack) -> int:
    libc, key = ctypes.CDLL(None), 0x44495247 + os.getpid()
    made = libc.shmget(key, 4096, 0o1666)
    stack.callback(libc.shmctl, made, 0, None)
    return key


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b""
        for path in sorted(folder.rglob("*"))
        if not path.is_socket()
    }


WAYS = (HERE / "sandbox_escapes.py").read_text()
"""As text: its file may lie where the sandbox shows nothing."""


@pytest.mark.parametrize("kind", KINDS)
def test_sandbox_has_no_known_escape(site: Site, kind: str) -> None:
    before = contents(site.base)
    given = json.dumps({**site.targets, "pid": "PID"}).replace('"PID"', "{pid}")

    result = site.run(kind, "/usr/bin/python3", "-I", "-S", "-c", WAYS, given)

    assert result.returncode == 0, result.stderr
    through = {name for name, is_out in json.loads(result.stdout).items() if is_out}
    if kind == "landlock":
        through -= NOT_WITH_LANDLOCK
    left = {
        path: content
        for path, content in contents(site.base).items()
        if before.get(path) != content and not path.startswith("home/work/sub/")
    }
    mark = site.targets["mark"]
    escaped = [*Path("/").glob(f"*/{mark}"), *Path("/").glob(f"*/*/{mark}")]
    count(f"sandbox escapes, {kind}", len(json.loads(result.stdout)), len(through) + len(left))
    assert (through, left, escaped) == (set(), {}, [])
    assert set(before) <= set(contents(site.base))


def test_known_escapes_work_without_a_sandbox(site: Site) -> None:
    # Else the test above might see nothing because it can do nothing.
    given = json.dumps({**site.targets, "pid": os.getpid(), "only": HARMLESS})
    result = subprocess.run(
        [*site.prefix, "/usr/bin/python3", "-I", "-S", "-c", WAYS, given],
        env=site.environment,
        cwd=site.work,
        capture_output=True,
        text=True,
        check=True,
    )

    assert json.loads(result.stdout) == dict.fromkeys(HARMLESS, True)
