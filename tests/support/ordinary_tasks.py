"""Twenty ordinary tasks with a scripted model and real tools, and how often dirge interferes."""

import contextlib
import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dirge_py.providers.scripted import Reply
from dirge_py.types.messages import UserMessage
from dirge_py.types.questions import PermissionAnswer
from tests.support.project import ScriptedProject, ScriptedUser
from tests.support.web_site import serving

MOST_EXTRA = 0.05
"""The share of model calls that the checks at the end of a run may add to these tasks."""

GATES = {
    "You stopped right after": "resume",
    "You edited": "verifier",
    "A review of this run": "judge",
    "The goal is not met": "goal",
    "still open on your todo list": "todo",
}

APP = "VERSION = '1.0'\n\n\ndef add(a, b):\n    return a - b\n"
APP_TEST = """\
import unittest

import app


class Adding(unittest.TestCase):
    def test_add(self):
        self.assertEqual(app.add(2, 3), 5)
"""
OTHER_TEST = APP_TEST.replace("2, 3), 5", "2, 3), 6")
FIX = {"path": "app.py", "old_text": "a - b", "new_text": "a + b"}
COMMIT = "git add app.py && git -c user.name=a -c user.email=a@b.c commit -qm 1.1"
UNITTEST = {"command": "python3 -m unittest -q"}


def call(name: str, /, **arguments: Any) -> Reply:
    return Reply(calls=[(name, arguments)])


def say(text: str) -> Reply:
    return Reply(text=text)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrdinaryTask:
    """A task as a person would give it, and how a model does it that nobody interrupts."""

    name: str
    prompt: str
    replies: Sequence[Reply]
    files: Mapping[str, str] = field(default_factory=dict)
    """The project: contents by path. A content that begins with `#!` is made executable."""
    is_repository: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRun:
    """What happened in the run of a task."""

    name: str
    calls: int
    """The model calls of the task itself."""
    extra: int
    """The further calls, made because of a message at the end of the run."""
    gates: tuple[str, ...]
    """The names of the checks that sent these messages."""
    outcomes: tuple[str, ...]
    """The outcome of each tool call."""


TASKS = (
    OrdinaryTask(
        name="a question, no tools",
        prompt="What does `yield from` do?",
        replies=[say("It passes on everything that another generator yields.")],
    ),
    OrdinaryTask(
        name="read and explain",
        prompt="What does app.py do?",
        files={"app.py": APP},
        replies=[call("read", path="app.py"), say("It has one function, and that subtracts.")],
    ),
    OrdinaryTask(
        name="search and answer",
        prompt="Where is VERSION set?",
        files={"app.py": APP},
        replies=[
            call("grep", pattern="VERSION"),
            call("read", path="app.py"),
            say("In line 1 of app.py."),
        ],
    ),
    OrdinaryTask(
        name="is there a Dockerfile? (read fails)",
        prompt="Is there a Dockerfile?",
        files={"README.md": "# App\n"},
        replies=[
            call("list_dir", path="."),
            call("read", path="Dockerfile"),
            say("No, this project has none."),
        ],
    ),
    OrdinaryTask(
        name="what does `make` say? (exit 2)",
        prompt="What does make print?",
        files={"Makefile": "all:\n\t@echo stop; exit 1\n"},
        replies=[call("bash", command="make"), say("It prints `stop` and ends with an error.")],
    ),
    OrdinaryTask(
        name="fix words in the README",
        prompt="Fix the typo in the README.",
        files={"README.md": "# App\n\nTeh app.\n"},
        replies=[
            call("read", path="README.md"),
            call("edit", path="README.md", old_text="Teh", new_text="The"),
            say("Fixed."),
        ],
    ),
    OrdinaryTask(
        name="edit code, tests pass",
        prompt="add() is wrong. Fix it and run the tests.",
        files={"app.py": APP, "test_app.py": APP_TEST},
        replies=[
            call("read", path="app.py"),
            call("edit", **FIX),
            call("bash", **UNITTEST),
            say("Fixed; the tests pass."),
        ],
    ),
    OrdinaryTask(
        name="edit code, nothing run",
        prompt="add() is wrong. Fix it.",
        files={"app.py": APP, "test_app.py": APP_TEST},
        replies=[call("read", path="app.py"), call("edit", **FIX), say("Fixed.")],
    ),
    OrdinaryTask(
        name="write hello.py and run it",
        prompt="Write hello.py, which greets me, and run it.",
        replies=[
            call("write", path="hello.py", content="print('Hello!')\n"),
            call("bash", command="python3 hello.py"),
            say("It prints `Hello!`."),
        ],
    ),
    OrdinaryTask(
        name="edit code, try it with python -c",
        prompt="add() is wrong. Fix it.",
        files={"app.py": APP},
        replies=[
            call("read", path="app.py"),
            call("edit", **FIX),
            call("bash", command="python3 -c 'import app; print(app.add(2, 3))'"),
            say("It returns 5 now."),
        ],
    ),
    OrdinaryTask(
        name="edit code, try the program itself",
        prompt="It should print 5.",
        files={
            "app.py": APP,
            "sums": "#!/bin/sh\nexec python3 -c 'import app; print(app.add(2, 3))'\n",
        },
        replies=[
            call("read", path="app.py"),
            call("edit", **FIX),
            call("bash", command="./sums"),
            say("It prints 5 now."),
        ],
    ),
    OrdinaryTask(
        name="only add comments to code",
        prompt="Document app.py.",
        files={"app.py": APP},
        replies=[
            call("read", path="app.py"),
            call(
                "edit",
                path="app.py",
                old_text="def add(a, b):\n",
                new_text='# Used by the shop.\ndef add(a, b):\n    """Return the sum."""\n\n',
            ),
            say("I added a comment and a docstring."),
        ],
    ),
    OrdinaryTask(
        name="edit, then commit as asked",
        prompt="Set the version to 1.1 and commit it.",
        files={"app.py": APP},
        is_repository=True,
        replies=[
            call("read", path="app.py"),
            call("edit", path="app.py", old_text="1.0", new_text="1.1"),
            call("bash", command=COMMIT),
            say("Committed."),
        ],
    ),
    OrdinaryTask(
        name="write a SQL migration",
        prompt="Write a migration that adds users.email.",
        replies=[
            call("write", path="002.sql", content="ALTER TABLE users ADD COLUMN email TEXT;\n"),
            say("It is in 002.sql."),
        ],
    ),
    OrdinaryTask(
        name="edit a shell script, bash -n",
        prompt="Let run.sh stop at the first error.",
        files={"run.sh": "#!/bin/sh\nmkdir -p out\n"},
        replies=[
            call("read", path="run.sh"),
            call("edit", path="run.sh", old_text="mkdir", new_text="set -e\nmkdir"),
            call("bash", command="bash -n run.sh"),
            say("Done."),
        ],
    ),
    OrdinaryTask(
        name="edit, tests fail for another reason, said so",
        prompt="add() is wrong. Fix it.",
        files={"app.py": APP, "test_app.py": OTHER_TEST},
        replies=[
            call("read", path="app.py"),
            call("edit", **FIX),
            call("bash", **UNITTEST),
            say("add() adds now. test_add still fails: it expects 6 as the sum of 2 and 3."),
        ],
    ),
    OrdinaryTask(
        name="fetch a page that is gone",
        prompt="What is on SITE/news?",
        replies=[
            call("webfetch", url="SITE/"),
            call("webfetch", url="SITE/news"),
            say("There is no such page: the server answers 404."),
        ],
    ),
    OrdinaryTask(
        name="last grep has a bad pattern, answer known",
        prompt="Who calls add?",
        files={"app.py": APP, "shop.py": "from app import add\n\nprint(add(1, 2))\n"},
        replies=[
            call("grep", pattern="add"),
            call("grep", pattern="add(("),
            say("Only shop.py."),
        ],
    ),
    OrdinaryTask(
        name="front end: html and css",
        prompt="Make the heading red.",
        files={"index.html": "<h1>Shop</h1>\n", "style.css": "h1 { color: blue }\n"},
        replies=[
            call("read", path="style.css"),
            call("edit", path="style.css", old_text="blue", new_text="red"),
            say("It is red."),
        ],
    ),
    OrdinaryTask(
        name="two steps of three on the list, then asks",
        prompt="Tidy up the notes.",
        files={"a.md": "A\n", "b.md": "B\n"},
        replies=[
            call(
                "todo",
                items=[
                    {"id": "1", "text": "join a and b", "status": "in_progress"},
                    {"id": "2", "text": "add a heading"},
                    {"id": "3", "text": "delete the old files"},
                ],
            ),
            call("write", path="notes.md", content="# Notes\n\nA\nB\n"),
            call(
                "todo",
                merge=True,
                items=[{"id": "1", "status": "done"}, {"id": "2", "status": "done"}],
            ),
            say("Both are in notes.md now. Do you want me to delete a.md and b.md?"),
        ],
    ),
)


async def run_task(task: OrdinaryTask, base: Path, enter: Callable[[Path], None]) -> TaskRun:
    """Run a task in a new project below `base`; `enter` makes its folder the current one.

    A model that is asked anything more answers that it is done.
    """
    project = ScriptedProject(base)
    project.user = ScriptedUser(PermissionAnswer(effect="allow"))
    _write_files(task, project.folder)
    enter(project.folder)
    async with contextlib.AsyncExitStack() as stack:
        site = await stack.enter_async_context(serving({"/": "<p>Welcome</p>"}))
        project.configure(f'[web]\nprivate_hosts = ["{site.place}"]\n')
        for reply in task.replies:
            project.model.will(_at(reply, site.url))
        for _ in range(20):
            project.model.will(say("That is already so."))
        conversation = await stack.enter_async_context(project.open())
        await conversation.send(task.prompt.replace("SITE", site.url))
        messages = conversation.messages
    sent = [
        each.text for each in messages if isinstance(each, UserMessage) and each.origin == "harness"
    ]
    return TaskRun(
        name=task.name,
        calls=len(task.replies),
        extra=len(project.model.seen) - len(task.replies),
        gates=tuple(_gate(text) for text in sent),
        outcomes=tuple(each.details["outcome"] for each in messages if each.role == "toolResult"),
    )


def _write_files(task: OrdinaryTask, folder: Path) -> None:
    for path, content in task.files.items():
        (folder / path).write_text(content, encoding="utf-8")
        (folder / path).chmod(0o755 if content.startswith("#!") else 0o644)
    if task.is_repository:
        subprocess.run(["git", "init", "-q"], cwd=folder, check=True)


def _at(reply: Reply, url: str) -> Reply:
    calls = json.dumps(list(reply.calls)).replace("SITE", url)
    return replace(reply, calls=json.loads(calls))


def _gate(text: str) -> str:
    return next((gate for words, gate in GATES.items() if words in text), text[:40])
