"""Forks in workspaces of their own: what they may do there, and what they leave."""

import asyncio
import os
import socket
import subprocess
import tempfile
import threading
from pathlib import Path

import pytest

from dirge_py.conversation.conversation import Conversation
from dirge_py.conversation.deps import ForkOptions
from dirge_py.processes.sandbox.profile import Sandbox, SandboxProfile
from dirge_py.sdk import environment
from dirge_py.types.errors import ConfigError
from dirge_py.types.events import LoopEvent, SystemNotice
from dirge_py.types.questions import PermissionAnswer
from tests.conversation.room import Room
from tests.sdk.fork_projects import (
    LOOK,
    WORK,
    committed,
    everything,
    git,
    ran,
    text,
    unjudged,
    write,
)
from tests.sdk.sandboxes import in_sandbox

ALLOWING = PermissionAnswer(effect="allow")
IN_SESSION = PermissionAnswer(effect="allow", remember="session")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def room(tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch) -> Room:
    room = Room(tmp_path)
    write(room.project, {"a": "one\n", "sub/b": "two\n", ".gitignore": "node_modules\n*.log\n"})
    monkeypatch.chdir(room.project)
    in_sandbox(monkeypatch, "")
    return room


@pytest.fixture(params=["bubblewrap", ""], ids=["bubblewrap", "no sandbox"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    in_sandbox(monkeypatch, request.param)
    return str(request.param)


def copies(temporary: Path) -> list[Path]:
    return list(temporary.glob("dirge-copy-*"))


# --- a room to look in


async def test_only_commands_that_look_are_run(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    in_sandbox(monkeypatch, "bubblewrap")
    room.configure('[permission]\nmode = "yolo"\n', alias="fake")
    committed(room.project)
    commands = [
        "cat a | wc -l",
        "git log --format=%s",
        "echo x > a",
        "python3 -c \"open('a', 'w')\"",
        "rm -r sub",
        "git commit --allow-empty -m x",
        "sed -i s/one/two/ a",
    ]

    async with room.open(allow=("execute:python3 *", "execute:rm *", "edit:**")) as talk:
        talk.settings.add_grant("execute:sed *")
        before = everything(room.project)
        fork = await talk.fork(LOOK)
        results = await ran(room, fork, commands)
        await fork.close()

    assert [result.is_error for result in results] == [False] * 2 + [True] * 5
    assert [text(result).strip() for result in results[:2]] == ["1", "first"]
    assert all("only read-only commands" in text(result) for result in results[2:])
    assert room.person.asked == [] and everything(room.project) == before


async def test_what_a_person_would_be_asked_about_is_denied_for_a_command(room: Room) -> None:
    rules = '[[permission.rule]]\nop = "execute"\nmatch = "git log*"\neffect = "ask"\n'
    room.configure(rules + '[[permission.rule]]\nop = "read"\nmatch = "sub/**"\neffect = "deny"\n')
    room.person.answer = ALLOWING

    async with room.open() as talk:
        fork = await talk.fork(LOOK)
        results = await ran(room, fork, ["git log", "cat /etc/hostname", "cat sub/b", "cat a"])
        await fork.close()

    assert [result.is_error for result in results] == [True, True, True, False]
    assert room.person.asked == []


async def test_tools_that_change_files_are_denied_too(room: Room) -> None:
    room.model.will_call("write", path="a", content="x").will_call("read", path="a").will_say("ok")

    async with room.open() as talk:
        talk.settings.set_mode("yolo")
        fork = await talk.fork(LOOK)
        await fork.send("x")
        await fork.close()

    assert (room.project / "a").read_text() == "one\n"


async def test_what_a_fork_reads_its_parent_has_not_read(room: Room) -> None:
    room.model.will_call("read", path="a").will_say("ok")
    room.model.will_call("edit", path="a", edits=[{"old": "one", "new": "two"}]).will_say("ok")

    async with room.open() as talk:
        talk.settings.set_mode("yolo")
        fork = await talk.fork(LOOK)
        await fork.send("x")
        assert fork.environment.isolation
        await fork.close()
        await talk.send("y")

    assert (room.project / "a").read_text() == "one\n"


async def test_it_says_what_keeps_commands_from_changing_things(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def shut_in(*specs: ForkOptions) -> list[tuple[str, str]]:
        async with room.open() as talk:
            forks = [await talk.fork(spec) for spec in specs]
            return [(fork.environment.isolation, fork.environment.sandbox) for fork in forks]

    in_sandbox(monkeypatch, "bubblewrap")
    looking = ("read-only: bubblewrap", "bubblewrap")
    working = ("a copy, without a network: bubblewrap", "bubblewrap")
    assert await shut_in(LOOK, WORK) == [looking, working]
    room.configure('[plan]\nsandbox = "off"\n')
    words = '`[plan] sandbox` is "off"'
    assert await shut_in(LOOK) == [(f"{words}: only commands that look", "")]
    # Never less shut in than the conversation it comes from.
    room.configure('[plan]\nsandbox = "off"\n[sandbox]\nmode = "preferred"\n')
    assert await shut_in(LOOK) == [looking]
    in_sandbox(monkeypatch, "")
    assert await shut_in(LOOK, WORK) == [
        ("no sandbox works here: only commands that look", ""),
        ("a copy; no sandbox works here: commands ask as always", ""),
    ]


# --- a copy to work in


async def test_an_untouched_copy_has_the_hash_of_the_project(room: Room, temporary: Path) -> None:
    committed(room.project)
    write(room.project, {"new": "x", "a": "changed", "x.log": "ignored"})
    (room.project / "link").symlink_to("sub/b")
    (room.project / "sub/b").chmod(0o755)

    async with room.open() as talk:
        fork = await talk.fork(WORK)
        project, copy = await talk.environment.read_tree(), await fork.environment.read_tree()

        assert copy == project
        assert sorted(project.files) == [".gitignore", "a", "link", "new", "sub/b"]
        assert sorted(os.listdir(fork.cwd)) == [".git", ".gitignore", "a", "link", "new", "sub"]

        (fork.cwd / "made").write_text("by a build")
        assert await fork.environment.read_tree() == project
        (fork.cwd / "sub/b").write_text("TWO\n")
        assert (await fork.environment.read_tree()).sha256 != project.sha256
        assert await talk.environment.read_tree() == project
        assert len(copies(temporary)) == 1
        await fork.close()
        assert copies(temporary) == []


@pytest.mark.security
async def test_what_ran_on_other_files_did_not_run_on_those_of_the_project(room: Room) -> None:
    """Else a review could change a file, see its tests pass, and change it back."""
    committed(room.project)
    write(room.project, {"node_modules/x": "1"})

    async with room.open() as talk:
        fork = await talk.fork(WORK)
        project, before = await talk.environment.read_tree(), await fork.environment.read_tree()
        await unjudged(fork, "cp -p a x; echo better > a; cp -p x a")
        during, after = await fork.environment.read_tree(), await fork.environment.read_tree()
        await unjudged(fork, "rm node_modules; mkdir node_modules")
        replaced = [await fork.environment.read_tree(), await fork.environment.read_tree()]
        await fork.close()

    assert before == after == project
    assert during.sha256 != project.sha256
    assert all(tree.sha256 != project.sha256 for tree in replaced)


@pytest.mark.security
async def test_without_a_sandbox_no_mode_lets_it_change_the_project(room: Room) -> None:
    project = room.project
    write(project, {"node_modules/x": "1\n"})
    denied = [
        f"echo x > {project}/a",
        f"rm -r {project}/sub",
        f"cp a {project}/new",
        f"tee {project}/a",
    ]
    denied += ["echo x > node_modules/x", "rm node_modules/x"]
    allowed = ["echo x > a", "rm -r sub", f"cat {project}/a"]
    room.model.will_call("write", path=str(project / "a"), content="x").will_say("ok")

    async with room.open(allow=("edit:**", "execute:*")) as talk:
        talk.settings.set_mode("yolo")
        before = everything(project)
        fork = await talk.fork(WORK)
        await fork.send("x")
        results = await ran(room, fork, [*denied, *allowed])
        await fork.close()

    assert [result.is_error for result in results] == [True] * len(denied) + [False] * len(allowed)
    assert all("the project itself" in text(result) for result in results[: len(denied)])
    assert everything(project) == before


@pytest.mark.security
async def test_it_sees_no_other_repository_where_its_parent_sees_none(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_sandbox(monkeypatch, "bubblewrap")
    committed(room.project)
    other = room.project.parent / "other"
    git(room.project.parent, "clone", "-q", "--bare", str(room.project), str(other))
    (room.project / ".git/objects/info/alternates").write_text(f"{other}/objects\n")
    seen: list[bool] = []

    for mode in ("off", "preferred"):
        room.configure(f'[sandbox]\nmode = "{mode}"\n')
        async with room.open() as talk:
            fork = await talk.fork(LOOK)
            said = await unjudged(fork, f"ls -d {other}/objects/*")
            seen.append(f"{other}/objects/pack" in said.split())
            await fork.close()

    assert seen == [True, False]


@pytest.mark.security
async def test_in_a_sandbox_builds_run_unasked_and_reach_nothing_else(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_sandbox(monkeypatch, "bubblewrap")
    write(room.project, {"Makefile": "test:\n\techo ran > made && cat made\n"})
    committed(room.project)
    write(room.project, {"node_modules/x/i.js": "1\n"})
    reach = "import socket; socket.create_connection(('127.0.0.1', {}), 2); print('reached')"

    async with room.open(allow=("network:*",)) as talk:
        before = everything(room.project)
        fork = await talk.fork(WORK)
        commands = ["make -s test", "cat node_modules/x/i.js", "git status --short"]
        made, read, status = await ran(room, fork, commands)
        said = await unjudged(fork, "echo 2 > node_modules/x/i.js; touch node_modules/y; echo end")
        talk.settings.set_mode("yolo")
        with socket.create_server(("127.0.0.1", 0)) as server:
            code = reach.format(server.getsockname()[1])
            [reached] = await ran(room, fork, [f'python3 -c "{code}"'])
        await fork.close()

    assert text(made).strip() == "ran" and room.person.asked == []
    # What is linked there is nothing that a build made.
    assert text(read).strip() == "1" and text(status).strip() == "?? made"
    assert said.count("Read-only file system") == 2 and said.endswith("end\n")
    assert "ConnectionRefusedError" in text(reached)
    assert everything(room.project) == before


async def test_without_a_sandbox_they_ask(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    in_sandbox(monkeypatch, "")
    write(room.project, {"Makefile": "test:\n\techo ran > made\n"})
    room.person.answer = ALLOWING

    async with room.open() as talk:
        fork = await talk.fork(WORK)
        await ran(room, fork, ["make -s test"])
        assert (fork.cwd / "made").exists()
        await fork.close()

    assert [request.tool_name for request in room.person.asked] == ["bash"]
    assert not (room.project / "made").exists()


async def test_git_works_there_and_stays_there(room: Room, kind: str) -> None:
    committed(room.project)
    write(room.project, {"a": "changed\n", "staged": "x\n"})
    git(room.project, "add", "staged")
    room.person.answer = ALLOWING
    identity = "git -c user.name=a -c user.email=a@b"

    async with room.open() as talk:
        before = everything(room.project, undated="" if kind else ".git/objects")
        fork = await talk.fork(WORK)
        commands = ["git status --short", "git log --format=%s", "git diff --stat"]
        results = await ran(room, fork, [*commands, f"{identity} commit -qam second", "git log"])
        await fork.close()

    said = [text(result).strip() for result in results]
    assert said[0].split("\n") == ["M a", "A  staged"] and said[1] == "first"
    assert "a | 2 +-" in said[2] and "second" in said[4]
    # Git dates anew what it would have written again, wherever that is; a sandbox keeps it from it.
    spared = "" if kind else ".git/objects"
    assert everything(room.project, undated=spared) == before


@pytest.mark.parametrize("inner", ["sub", "node_modules/x"])
async def test_it_begins_at_the_same_place(
    room: Room, monkeypatch: pytest.MonkeyPatch, inner: str
) -> None:
    committed(room.project)
    write(room.project, {"node_modules/x/own": "1"})
    monkeypatch.chdir(room.project / inner)

    async with room.open() as talk:
        fork = await talk.fork(WORK)
        listed = os.listdir(fork.cwd)
        assert fork.cwd.relative_to(fork.cwd.parents[inner.count("/")]).as_posix() == inner
        assert await fork.environment.read_tree() == await talk.environment.read_tree()
        await fork.close()

    assert listed in (["b"], ["own"])


async def test_a_linked_work_tree_has_its_own_history_there(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_sandbox(monkeypatch, "bubblewrap")
    committed(room.project)
    tree = room.project.parent / "tree"
    git(room.project, "worktree", "add", "-q", "-b", "other", str(tree))
    git(tree, "commit", "--allow-empty", "-qm", "there")
    monkeypatch.chdir(tree)

    async with room.open() as talk:
        fork = await talk.fork(WORK)
        log, branch = await ran(room, fork, ["git log --format=%s", "git status -sb"])
        await fork.close()

    assert text(log).split() == ["there", "first"] and text(branch).strip() == "## other"


async def test_what_cannot_be_copied_is_told(room: Room) -> None:
    events: list[LoopEvent] = []
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        async with room.open() as talk:
            talk.subscribe(events.append)
            fork = await talk.fork(WORK)
            await fork.close()

    assert [event.content for event in events if isinstance(event, SystemNotice)] == [
        "Not in the copy of the project: socket (no regular file)."
    ]


# --- rules and grants


RULES = """\
[[permission.rule]]
op = "read"
match = "private/**"
effect = "deny"
[[permission.rule]]
op = "execute"
match = "git log*"
effect = "deny"
[[permission.rule]]
op = "edit"
match = "{project}/locked/**"
effect = "deny"
[[permission.rule]]
op = "read"
match = "{home}/*/sub/**"
effect = "ask"
"""


@pytest.mark.security
async def test_rules_about_the_project_hold_in_the_copy(room: Room) -> None:
    room.configure(RULES.format(project=room.project, home=room.project.parent))
    write(room.project, {"private/x": "secret\n", "locked/y": "y\n", ".env": "KEY=secret\n"})
    tries = [
        ("read", {"path": "private/x"}),
        ("bash", {"command": "cat private/x"}),
        ("bash", {"command": "grep -r secret ."}),
        ("bash", {"command": "git log"}),
        ("write", {"path": "locked/y", "content": "x"}),
        ("read", {"path": "sub/b"}),
        ("read", {"path": ".env"}),
        ("read", {"path": str(room.project / "private/x")}),
    ]
    room.model.will_call_all(*tries, ("read", {"path": "a"}))
    room.model.will_call("read", path=str(room.project / "a")).will_say("ok")

    async with room.open() as talk:
        talk.settings.set_mode("accept")
        fork = await talk.fork(WORK)
        await fork.send("x")
        results = [text(m) for m in fork.messages if m.role == "toolResult"]
        await fork.close()

    assert ["denied" in result for result in results] == [True] * len(tries) + [False] * 2
    assert not any("secret\n" in result for result in results)
    # An asking rule asks there, too, and so does what may hold secrets.
    assert [request.claims[0].resource.rpartition("/")[2] for request in room.person.asked] == [
        "b",
        ".env",
    ]


async def test_what_is_granted_there_holds_in_later_copies_only(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_sandbox(monkeypatch, "")
    room.person.answer = IN_SESSION
    write(room.project, {"check.sh": "echo $((1 + 1))\n"})
    command = "sh check.sh"

    async with room.open() as talk:
        for _ in range(2):
            fork = await talk.fork(WORK)
            [result] = await ran(room, fork, [command])
            assert text(result).strip() == "2"
            await fork.close()

        assert len(room.person.asked) == 1
        assert talk.settings.grants == ()


async def test_it_may_never_do_more_than_its_parent_may_now(room: Room) -> None:
    write(room.project, {"Makefile": "test:\n\techo ran\n"})

    async with room.open() as talk:
        talk.settings.set_mode("yolo")
        talk.settings.add_grant("execute:true")
        fork = await talk.fork(WORK)
        first = await ran(room, fork, ["make -s test"])
        talk.settings.set_mode("plan")
        second = await ran(room, fork, ["make -s test"])
        talk.settings.set_mode("standard")
        third = await ran(room, fork, ["true"])
        talk.settings.remove_grant(0)
        fourth = await ran(room, fork, ["python3 -c pass"])
        await fork.close()

    assert [one.is_error for [one] in (first, second, third, fourth)] == [False, True, False, True]


# --- their end


async def test_a_copy_goes_whatever_was_done_to_it(
    room: Room, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_sandbox(monkeypatch, "")
    async with room.open() as talk:
        fork = await talk.fork(WORK)
        await unjudged(fork, "mkdir -p x/y && touch x/y/z && chmod 0 x/y x sub; ln -s / root")
        await fork.close()

    assert copies(temporary) == [] and (room.project / "sub/b").exists()


async def test_the_end_of_a_conversation_is_that_of_its_forks(room: Room, temporary: Path) -> None:
    forks: list[Conversation] = []
    async with room.open() as talk:
        forks += [await talk.fork(WORK), await talk.fork(LOOK)]
        assert len(copies(temporary)) == 1

    assert copies(temporary) == []
    for fork in forks:
        await fork.close()


async def test_a_room_that_cannot_be_made_leaves_nothing(
    room: Room, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_sandbox(monkeypatch, "bubblewrap")
    room.configure('[sandbox]\nmode = "required"\n')
    descriptors = Path("/proc/self/fd")
    async with room.open() as talk:
        await talk.environment.read_tree()
        before = len(list(descriptors.iterdir()))
        in_sandbox(monkeypatch, "")
        for spec in (LOOK, WORK):
            with pytest.raises(ConfigError, match="No sandbox works here"):
                await talk.fork(spec)

        assert copies(temporary) == []
        assert len(list(descriptors.iterdir())) == before


async def test_a_copy_that_is_cancelled_is_taken_back(room: Room, temporary: Path) -> None:
    write(room.project, {f"many/{number}": "x" for number in range(300)})

    async with room.open() as talk:
        making = asyncio.ensure_future(talk.fork(WORK))
        async with asyncio.timeout(10):
            while not copies(temporary):  # noqa: ASYNC110 - a thread sets no event of ours
                await asyncio.sleep(0)
        making.cancel()
        with pytest.raises(asyncio.CancelledError):
            await making

        assert copies(temporary) == []


async def test_a_sandbox_that_nobody_waits_for_any_more_is_closed(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked, go_on, closed = threading.Event(), threading.Event(), threading.Event()

    def find(_room: SandboxProfile) -> Sandbox:
        looked.set()
        go_on.wait(10)
        return Sandbox(kind="bubblewrap", launcher=lambda words, _spec: words, close=closed.set)

    async with room.open() as talk:
        monkeypatch.setattr(environment, "find_sandbox", find)
        making = asyncio.ensure_future(talk.fork(LOOK))
        await asyncio.to_thread(looked.wait, 10)
        making.cancel()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await making

        assert closed.is_set()


async def test_what_runs_in_the_background_ends_with_its_fork(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_sandbox(monkeypatch, "")
    mark = room.project / "mark"
    async with room.open() as talk:
        fork = await talk.fork(WORK)
        seen = fork.cwd / "seen"
        script = f"(setsid sh -c 'touch seen; sleep 5; touch {mark}' &) ; sleep 60"
        fork.environment.shells.start(script, cwd=str(fork.cwd), timeout_s=60)
        async with asyncio.timeout(10):
            while not seen.exists():  # noqa: ASYNC110 - another process sets no event of ours
                await asyncio.sleep(0)
        await fork.close()
        left = await asyncio.to_thread(
            subprocess.run, ["pgrep", "-f", str(mark)], capture_output=True, text=True
        )

    assert left.stdout == "" and not mark.exists()
