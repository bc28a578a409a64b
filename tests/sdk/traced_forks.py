"""A program to trace: forks whose commands try to write to the project BASE/project.

`python -m tests.sdk.traced_forks BASE` prints the answers of the forks.
"""

import asyncio
import os
import sys
from pathlib import Path

from dirge_py.processes.sandbox import probe
from dirge_py.processes.sandbox.profile import NoSandbox
from tests.sdk.harmful_commands import hostile
from tests.support.fork_projects import (
    LOOK,
    WORK,
    committed,
    run_commands,
    run_unjudged,
    text,
    write,
)
from tests.support.project import ScriptedProject


def tell(*lines: str) -> None:
    sys.stdout.write("\n".join([*lines, ""]))
    sys.stdout.flush()


async def main(base: Path) -> None:
    project = ScriptedProject(base)
    write(project.folder, {"a": "one\n", "sub/b": "two\n", "Makefile": "test:\n\techo x > made\n"})
    committed(project.folder)
    os.chdir(project.folder)
    find, none = probe.find_sandbox, NoSandbox("none is wanted", "")
    async with project.open() as conversation:
        conversation.settings.set_mode("yolo")
        tell("BEGIN")
        for spec, finds, every in (
            (LOOK, lambda project: none, 9),
            (LOOK, find, 2),
            (WORK, find, 5),
        ):
            probe.find_sandbox = finds
            await conversation.environment.read_tree()
            fork = await conversation.fork(spec)
            # Other tests run all of these commands and compare the files afterwards.
            commands = hostile(project.folder)[::every]
            if not fork.environment.sandbox:
                tell(*map(text, await run_commands(project, fork, commands)))
            else:
                tell(await run_unjudged(fork, "\n".join(commands)))
            if spec is WORK:
                tell(
                    *map(
                        text,
                        await run_commands(project, fork, ["make -s test", "git status --short"]),
                    )
                )
            await fork.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
