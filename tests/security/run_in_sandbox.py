"""Runs a command in a sandbox, as a separate program so that another user can run it.

`python run_in_sandbox.py PROFILE KIND COMMAND…`: PROFILE is JSON for `SandboxProfile`. The command
gets the environment of this program. Exit code 99 means that this kind of sandbox is unavailable;
stderr has the reason.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from dirge_py.processes.sandbox.bubblewrap import PROGRAMS
from dirge_py.processes.sandbox.probe import find_sandbox
from dirge_py.processes.sandbox.profile import LaunchSpec, NoSandbox, SandboxProfile


def main(room_text: str, kind: str, *command: str) -> int:
    project = SandboxProfile(
        **{
            key: tuple(value) if isinstance(value, list) else value
            for key, value in json.loads(room_text).items()
        }
    )
    found = find_sandbox(project, programs=PROGRAMS if kind == "bubblewrap" else ())
    if isinstance(found, NoSandbox) or found.kind != kind:
        sys.stderr.write(str(found))
        return 99
    cwd = project.roots[0]
    environment = dict(os.environ)
    spec = LaunchSpec(cwd=cwd, environment=environment, call_id="1")
    words = [word.replace("{pid}", str(os.getpid())) for word in command]
    try:
        arguments = found.launcher(words, spec)
        return subprocess.run(
            arguments, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, check=False
        ).returncode
    finally:
        found.close()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
