"""The sandbox of a process that other processes can't inspect."""

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.requirements import as_nobody, lacking

SCRIPT = """
import asyncio, os, sys
from dirge_py.processes.environment import EnvironmentPolicy
from dirge_py.processes.environment import block_inspection
from dirge_py.processes.runner import Runner
from dirge_py.processes.sandbox.probe import find_sandbox
from dirge_py.processes.sandbox.profile import Sandbox, SandboxProfile

assert block_inspection()
found = find_sandbox(SandboxProfile(roots=(sys.argv[1],), home="/nonexistent"))
assert isinstance(found, Sandbox), found
runner = Runner(EnvironmentPolicy(), found.launcher)
# With a filter, the kernel reports Seccomp mode 2.
look = "grep ^Seccomp: /proc/self/status; touch /usr/hacked; echo made > made; cat made"
finished = asyncio.run(runner.run(look, cwd=sys.argv[1], timeout_s=20))
print(found.kind, finished.output.head.decode())
found.close()
"""


def test_uninspectable_process_can_use_sandbox() -> None:
    nobody = as_nobody()
    if subprocess.run([*nobody, "bwrap", "--ro-bind", "/", "/", "true"]).returncode:
        lacking("a bubblewrap that other users may use")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        folder = Path(name)
        folder.chmod(0o777)
        result = subprocess.run(
            [*nobody, sys.executable, "-c", SCRIPT, name],
            capture_output=True,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        assert result.returncode == 0, result.stderr
        assert result.stdout.split()[:3] == ["bubblewrap", "Seccomp:", "2"]
        assert "Read-only file system" in result.stdout
        assert (folder / "made").read_text() == "made\n"
