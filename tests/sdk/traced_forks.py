"""A program to watch from outside: forks whose commands try to write to the project BASE/project.

`python -m tests.sdk.traced_forks BASE`. It prints what they said.
"""

import asyncio
import os
import sys
from pathlib import Path

from dirge_py.processes.sandbox.profile import NoSandbox
from dirge_py.sdk import environment
from tests.conversation.room import Room
from tests.sdk.fork_projects import LOOK, WORK, committed, ran, text, unjudged, write
from tests.sdk.harmful_commands import hostile


def tell(*lines: str) -> None:
    sys.stdout.write("\n".join([*lines, ""]))
    sys.stdout.flush()


async def main(base: Path) -> None:
    room = Room(base)
    write(room.project, {"a": "one\n", "sub/b": "two\n", "Makefile": "test:\n\techo x > made\n"})
    committed(room.project)
    os.chdir(room.project)
    find, none = environment.find_sandbox, NoSandbox("none is wanted", "")
    async with room.open() as talk:
        talk.settings.set_mode("yolo")
        tell("BEGIN")
        for spec, finds, every in ((LOOK, lambda room: none, 9), (LOOK, find, 2), (WORK, find, 5)):
            environment.find_sandbox = finds
            await talk.environment.read_tree()
            fork = await talk.fork(spec)
            # All of them are tried by tests that look at the files afterwards.
            commands = hostile(room.project)[::every]
            if not fork.environment.sandbox:
                tell(*map(text, await ran(room, fork, commands)))
            else:
                tell(await unjudged(fork, "\n".join(commands)))
            if spec is WORK:
                tell(*map(text, await ran(room, fork, ["make -s test", "git status --short"])))
            await fork.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
