"""Workspaces of forks: what forks may do there, and what they leave behind."""

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
from dirge_py.processes.sandbox import probe
from dirge_py.processes.sandbox.profile import Sandbox, SandboxProfile
from dirge_py.types.errors import ConfigError
from dirge_py.types.events import LoopEvent, SystemNotice
from dirge_py.types.questions import PermissionAnswer
from tests.support.fork_projects import (
    LOOK,
    WORK,
    committed,
    describe_tree,
    git,
    run_commands,
    run_unjudged,
    text,
    write,
)
from tests.support.fork_sandboxes import in_sandbox
from tests.support.project import ScriptedProject

ALLOWING = PermissionAnswer(effect="allow")
IN_SESSION = PermissionAnswer(effect="allow", remember="session")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def project(tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch) -> ScriptedProject:
    project = ScriptedProject(tmp_path)
    write(project.folder, {"a": "one\n", "sub/b": "two\n", ".gitignore": "node_modules\n*.log\n"})
    monkeypatch.chdir(project.folder)
    in_sandbox(monkeypatch, "")
    return project


@pytest.fixture(params=["bubblewrap", ""], ids=["bubblewrap", "no sandbox"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    in_sandbox(monkeypatch, request.param)
    return str(request.param)


def copies(temporary: Path) -> list[Path]:
    return list(temporary.glob("dirge-copy-*"))


# --- read-only forks


async def test_read_only_fork_runs_only_read_only_commands(
    project: ScriptedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_sandbox(monkeypatch, "bubblewrap")
    project.configure('[permission]\nmode = "yolo"\n', alias="fake")
    committed(project.folder)
    commands = [
        "cat a | wc -l",
        "git log --format=%s",
        "echo x > a",
        "python3 -c \"open('a', 'w')\"",
        "rm -r sub",
        "git commit --allow-empty -m x",
        "sed -i s/one/two/ a",
    ]

    async with project.open(allow=("execute:python3 *", "execute:rm *", "edit:**")) as conversation:
        conversation.settings.add_grant("execute:sed *")
        before = describe_tree(project.folder)
        fork = await conversation.fork(LOOK)
        results = await run_commands(project, fork, commands)
        await fork.close()

    assert [result.is_error for result in results] == [False] * 2 + [True] * 5
    assert [text(result).strip() for result in results[:2]] == ["1", "first"]
    assert all("only read-only commands" in text(result) for result in results[2:])
    assert project.user.asked == [] and describe_tree(project.folder) == before


async def test_fork_command_that_would_need_approval_is_denied(
    project: ScriptedProject,
) -> None:
    rules = '[[permission.rule]]\nop = "execute"\nmatch = "git log*"\neffect = "ask"\n'
    project.configure(
        rules + '[[permission.rule]]\nop = "read"\nmatch = "sub/**"\neffect = "deny"\n'
    )
    project.user.answer = ALLOWING

    async with project.open() as conversation:
        fork = await conversation.fork(LOOK)
        results = await run_commands(
            project, fork, ["git log", "cat /etc/hostname", "cat sub/b", "cat a"]
        )
        await fork.close()

    assert [result.is_error for result in results] == [True, True, True, False]
    assert project.user.asked == []


async def test_read_only_fork_denies_file_changing_tools(project: ScriptedProject) -> None:
    project.model.will_call("write", path="a", content="x").will_call("read", path="a").will_say(
        "ok"
    )

    async with project.open() as conversation:
        conversation.settings.set_mode("yolo")
        fork = await conversation.fork(LOOK)
        await fork.send("x")
        await fork.close()

    assert (project.folder / "a").read_text() == "one\n"


async def test_file_read_by_a_fork_is_still_unread_for_its_parent(project: ScriptedProject) -> None:
    project.model.will_call("read", path="a").will_say("ok")
    project.model.will_call("edit", path="a", edits=[{"old": "one", "new": "two"}]).will_say("ok")

    async with project.open() as conversation:
        conversation.settings.set_mode("yolo")
        fork = await conversation.fork(LOOK)
        await fork.send("x")
        assert fork.environment.isolation
        await fork.close()
        await conversation.send("y")

    assert (project.folder / "a").read_text() == "one\n"


async def test_fork_reports_its_isolation_and_sandbox(
    project: ScriptedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def isolation_of_forks(*specs: ForkOptions) -> list[tuple[str, str]]:
        async with project.open() as conversation:
            forks = [await conversation.fork(spec) for spec in specs]
            return [(fork.environment.isolation, fork.environment.sandbox) for fork in forks]

    in_sandbox(monkeypatch, "bubblewrap")
    looking = ("read-only: bubblewrap", "bubblewrap")
    working = ("a copy, without a network: bubblewrap", "bubblewrap")
    assert await isolation_of_forks(LOOK, WORK) == [looking, working]
    project.configure('[plan]\nsandbox = "off"\n')
    words = '`[plan] sandbox` is "off"'
    assert await isolation_of_forks(LOOK) == [(f"{words}: only read-only commands", "")]
    # A fork is never less isolated than its parent.
    project.configure('[plan]\nsandbox = "off"\n[sandbox]\nmode = "preferred"\n')
    assert await isolation_of_forks(LOOK) == [looking]
    in_sandbox(monkeypatch, "")
    assert await isolation_of_forks(LOOK, WORK) == [
        ("no sandbox works here: only read-only commands", ""),
        ("a copy; no sandbox works here: commands ask as usual", ""),
    ]


# --- forks in a copy


async def test_unchanged_workspace_copy_has_the_same_hash_as_the_project(
    project: ScriptedProject, temporary: Path
) -> None:
    committed(project.folder)
    write(project.folder, {"new": "x", "a": "changed", "x.log": "ignored"})
    (project.folder / "link").symlink_to("sub/b")
    (project.folder / "sub/b").chmod(0o755)

    async with project.open() as conversation:
        fork = await conversation.fork(WORK)
        folder, copy = (
            await conversation.environment.read_tree(),
            await fork.environment.read_tree(),
        )

        assert copy == folder
        assert sorted(folder.files) == [".gitignore", "a", "link", "new", "sub/b"]
        assert sorted(os.listdir(fork.cwd)) == [".git", ".gitignore", "a", "link", "new", "sub"]

        (fork.cwd / "made").write_text("by a build")
        assert await fork.environment.read_tree() == folder
        (fork.cwd / "sub/b").write_text("TWO\n")
        assert (await fork.environment.read_tree()).sha256 != folder.sha256
        assert await conversation.environment.read_tree() == folder
        assert len(copies(temporary)) == 1
        await fork.close()
        assert copies(temporary) == []


@pytest.mark.security
async def test_workspace_copy_with_changed_files_has_another_hash(
    project: ScriptedProject,
) -> None:
    """Without this, a review could change a file, run the tests, and restore the file."""
    committed(project.folder)
    write(project.folder, {"node_modules/x": "1"})

    async with project.open() as conversation:
        fork = await conversation.fork(WORK)
        folder, before = (
            await conversation.environment.read_tree(),
            await fork.environment.read_tree(),
        )
        await run_unjudged(fork, "cp -p a x; echo better > a; cp -p x a")
        during, after = await fork.environment.read_tree(), await fork.environment.read_tree()
        await run_unjudged(fork, "rm node_modules; mkdir node_modules")
        replaced = [await fork.environment.read_tree(), await fork.environment.read_tree()]
        await fork.close()

    assert before == after == folder
    assert during.sha256 != folder.sha256
    assert all(tree.sha256 != folder.sha256 for tree in replaced)


@pytest.mark.security
async def test_workspace_copy_without_sandbox_cannot_change_the_project_in_any_mode(
    project: ScriptedProject,
) -> None:
    folder = project.folder
    write(folder, {"node_modules/x": "1\n"})
    denied = [
        f"echo x > {folder}/a",
        f"rm -r {folder}/sub",
        f"cp a {folder}/new",
        f"tee {folder}/a",
    ]
    denied += ["echo x > node_modules/x", "rm node_modules/x"]
    allowed = ["echo x > a", "rm -r sub", f"cat {folder}/a"]
    project.model.will_call("write", path=str(folder / "a"), content="x").will_say("ok")

    async with project.open(allow=("edit:**", "execute:*")) as conversation:
        conversation.settings.set_mode("yolo")
        before = describe_tree(folder)
        fork = await conversation.fork(WORK)
        await fork.send("x")
        results = await run_commands(project, fork, [*denied, *allowed])
        await fork.close()

    assert [result.is_error for result in results] == [True] * len(denied) + [False] * len(allowed)
    assert all("the project itself" in text(result) for result in results[: len(denied)])
    assert describe_tree(folder) == before


@pytest.mark.security
async def test_fork_in_sandbox_mode_cannot_see_git_alternates(
    project: ScriptedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_sandbox(monkeypatch, "bubblewrap")
    committed(project.folder)
    other = project.folder.parent / "other"
    git(project.folder.parent, "clone", "-q", "--bare", str(project.folder), str(other))
    (project.folder / ".git/objects/info/alternates").write_text(f"{other}/objects\n")
    seen: list[bool] = []

    for mode in ("off", "preferred"):
        project.configure(f'[sandbox]\nmode = "{mode}"\n')
        async with project.open() as conversation:
            fork = await conversation.fork(LOOK)
            output = await run_unjudged(fork, f"ls -d {other}/objects/*")
            seen.append(f"{other}/objects/pack" in output.split())
            await fork.close()

    assert seen == [True, False]


@pytest.mark.security
async def test_sandboxed_copy_runs_builds_unasked_without_other_access(
    project: ScriptedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_sandbox(monkeypatch, "bubblewrap")
    write(project.folder, {"Makefile": "test:\n\techo ran > made && cat made\n"})
    committed(project.folder)
    write(project.folder, {"node_modules/x/i.js": "1\n"})
    reach = "import socket; socket.create_connection(('127.0.0.1', {}), 2); print('reached')"

    async with project.open(allow=("network:*",)) as conversation:
        before = describe_tree(project.folder)
        fork = await conversation.fork(WORK)
        commands = ["make -s test", "cat node_modules/x/i.js", "git status --short"]
        made, read, status = await run_commands(project, fork, commands)
        output = await run_unjudged(
            fork, "echo 2 > node_modules/x/i.js; touch node_modules/y; echo end"
        )
        conversation.settings.set_mode("yolo")
        with socket.create_server(("127.0.0.1", 0)) as server:
            code = reach.format(server.getsockname()[1])
            [reached] = await run_commands(project, fork, [f'python3 -c "{code}"'])
        await fork.close()

    assert text(made).strip() == "ran" and project.user.asked == []
    # Linked folders are not listed as build results.
    assert text(read).strip() == "1" and text(status).strip() == "?? made"
    assert output.count("Read-only file system") == 2 and output.endswith("end\n")
    assert "ConnectionRefusedError" in text(reached)
    assert describe_tree(project.folder) == before


async def test_copy_without_sandbox_asks_before_builds(
    project: ScriptedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_sandbox(monkeypatch, "")
    write(project.folder, {"Makefile": "test:\n\techo ran > made\n"})
    project.user.answer = ALLOWING

    async with project.open() as conversation:
        fork = await conversation.fork(WORK)
        await run_commands(project, fork, ["make -s test"])
        assert (fork.cwd / "made").exists()
        await fork.close()

    assert [request.tool_name for request in project.user.asked] == ["bash"]
    assert not (project.folder / "made").exists()


async def test_git_commit_in_a_workspace_copy_does_not_reach_the_project(
    project: ScriptedProject, kind: str
) -> None:
    committed(project.folder)
    write(project.folder, {"a": "changed\n", "staged": "x\n"})
    git(project.folder, "add", "staged")
    project.user.answer = ALLOWING
    identity = "git -c user.name=a -c user.email=a@b"

    async with project.open() as conversation:
        before = describe_tree(project.folder, undated="" if kind else ".git/objects")
        fork = await conversation.fork(WORK)
        commands = ["git status --short", "git log --format=%s", "git diff --stat"]
        results = await run_commands(
            project, fork, [*commands, f"{identity} commit -qam second", "git log"]
        )
        await fork.close()

    said = [text(result).strip() for result in results]
    assert said[0].split("\n") == ["M a", "A  staged"] and said[1] == "first"
    assert "a | 2 +-" in said[2] and "second" in said[4]
    # Without a sandbox, git updates the times of objects that it would write again.
    spared = "" if kind else ".git/objects"
    assert describe_tree(project.folder, undated=spared) == before


@pytest.mark.parametrize("inner", ["sub", "node_modules/x"])
async def test_workspace_copy_starts_in_the_same_subfolder(
    project: ScriptedProject, monkeypatch: pytest.MonkeyPatch, inner: str
) -> None:
    committed(project.folder)
    write(project.folder, {"node_modules/x/own": "1"})
    monkeypatch.chdir(project.folder / inner)

    async with project.open() as conversation:
        fork = await conversation.fork(WORK)
        listed = os.listdir(fork.cwd)
        assert fork.cwd.relative_to(fork.cwd.parents[inner.count("/")]).as_posix() == inner
        assert await fork.environment.read_tree() == await conversation.environment.read_tree()
        await fork.close()

    assert listed in (["b"], ["own"])


async def test_workspace_copy_of_a_linked_work_tree_has_its_history(
    project: ScriptedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_sandbox(monkeypatch, "bubblewrap")
    committed(project.folder)
    tree = project.folder.parent / "tree"
    git(project.folder, "worktree", "add", "-q", "-b", "other", str(tree))
    git(tree, "commit", "--allow-empty", "-qm", "there")
    monkeypatch.chdir(tree)

    async with project.open() as conversation:
        fork = await conversation.fork(WORK)
        log, branch = await run_commands(project, fork, ["git log --format=%s", "git status -sb"])
        await fork.close()

    assert text(log).split() == ["there", "first"] and text(branch).strip() == "## other"


async def test_files_that_cannot_be_copied_are_reported(project: ScriptedProject) -> None:
    events: list[LoopEvent] = []
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        async with project.open() as conversation:
            conversation.subscribe(events.append)
            fork = await conversation.fork(WORK)
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
async def test_permission_rules_of_the_project_apply_in_the_copy(project: ScriptedProject) -> None:
    project.configure(RULES.format(project=project.folder, home=project.folder.parent))
    write(project.folder, {"private/x": "secret\n", "locked/y": "y\n", ".env": "KEY=secret\n"})
    tries = [
        ("read", {"path": "private/x"}),
        ("bash", {"command": "cat private/x"}),
        ("bash", {"command": "grep -r secret ."}),
        ("bash", {"command": "git log"}),
        ("write", {"path": "locked/y", "content": "x"}),
        ("read", {"path": "sub/b"}),
        ("read", {"path": ".env"}),
        ("read", {"path": str(project.folder / "private/x")}),
    ]
    project.model.will_call_all(*tries, ("read", {"path": "a"}))
    project.model.will_call("read", path=str(project.folder / "a")).will_say("ok")

    async with project.open() as conversation:
        conversation.settings.set_mode("accept")
        fork = await conversation.fork(WORK)
        await fork.send("x")
        results = [text(m) for m in fork.messages if m.role == "toolResult"]
        await fork.close()

    assert ["denied" in result for result in results] == [True] * len(tries) + [False] * 2
    assert not any("secret\n" in result for result in results)
    # Ask rules, and files that may contain secrets, ask in the copy as well.
    assert [request.claims[0].resource.rpartition("/")[2] for request in project.user.asked] == [
        "b",
        ".env",
    ]


async def test_grant_made_in_a_copy_applies_only_to_later_copies(
    project: ScriptedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_sandbox(monkeypatch, "")
    project.user.answer = IN_SESSION
    write(project.folder, {"check.sh": "echo $((1 + 1))\n"})
    command = "sh check.sh"

    async with project.open() as conversation:
        for _ in range(2):
            fork = await conversation.fork(WORK)
            [result] = await run_commands(project, fork, [command])
            assert text(result).strip() == "2"
            await fork.close()

        assert len(project.user.asked) == 1
        assert conversation.settings.grants == ()


async def test_fork_permissions_never_exceed_current_permissions_of_its_parent(
    project: ScriptedProject,
) -> None:
    write(project.folder, {"Makefile": "test:\n\techo ran\n"})

    async with project.open() as conversation:
        conversation.settings.set_mode("yolo")
        conversation.settings.add_grant("execute:true")
        fork = await conversation.fork(WORK)
        first = await run_commands(project, fork, ["make -s test"])
        conversation.settings.set_mode("plan")
        second = await run_commands(project, fork, ["make -s test"])
        conversation.settings.set_mode("standard")
        third = await run_commands(project, fork, ["true"])
        conversation.settings.remove_grant(0)
        fourth = await run_commands(project, fork, ["python3 -c pass"])
        await fork.close()

    assert [one.is_error for [one] in (first, second, third, fourth)] == [False, True, False, True]


# --- closing forks


async def test_workspace_copy_with_odd_modes_and_links_is_removed(
    project: ScriptedProject, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_sandbox(monkeypatch, "")
    async with project.open() as conversation:
        fork = await conversation.fork(WORK)
        await run_unjudged(fork, "mkdir -p x/y && touch x/y/z && chmod 0 x/y x sub; ln -s / root")
        await fork.close()

    assert copies(temporary) == [] and (project.folder / "sub/b").exists()


async def test_closing_a_conversation_closes_its_forks(
    project: ScriptedProject, temporary: Path
) -> None:
    forks: list[Conversation] = []
    async with project.open() as conversation:
        forks += [await conversation.fork(WORK), await conversation.fork(LOOK)]
        assert len(copies(temporary)) == 1

    assert copies(temporary) == []
    for fork in forks:
        await fork.close()


async def test_fork_that_cannot_be_created_leaves_no_files_open(
    project: ScriptedProject, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_sandbox(monkeypatch, "bubblewrap")
    project.configure('[sandbox]\nmode = "required"\n')
    descriptors = Path("/proc/self/fd")
    async with project.open() as conversation:
        await conversation.environment.read_tree()
        before = len(list(descriptors.iterdir()))
        in_sandbox(monkeypatch, "")
        for spec in (LOOK, WORK):
            with pytest.raises(ConfigError, match="No sandbox works here"):
                await conversation.fork(spec)

        assert copies(temporary) == []
        assert len(list(descriptors.iterdir())) == before


async def test_cancelled_workspace_copy_is_removed(
    project: ScriptedProject, temporary: Path
) -> None:
    write(project.folder, {f"many/{number}": "x" for number in range(300)})

    async with project.open() as conversation:
        making = asyncio.ensure_future(conversation.fork(WORK))
        async with asyncio.timeout(10):
            while not copies(temporary):  # noqa: ASYNC110 - a thread sets no event of ours
                await asyncio.sleep(0)
        making.cancel()
        with pytest.raises(asyncio.CancelledError):
            await making

        assert copies(temporary) == []


async def test_sandbox_found_after_cancelled_fork_is_closed(
    project: ScriptedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked, go_on, closed = threading.Event(), threading.Event(), threading.Event()

    def find(_room: SandboxProfile) -> Sandbox:
        looked.set()
        go_on.wait(10)
        return Sandbox(kind="bubblewrap", launcher=lambda words, _spec: words, close=closed.set)

    async with project.open() as conversation:
        monkeypatch.setattr(probe, "find_sandbox", find)
        making = asyncio.ensure_future(conversation.fork(LOOK))
        await asyncio.to_thread(looked.wait, 10)
        making.cancel()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await making

        assert closed.is_set()


async def test_background_processes_end_with_their_fork(
    project: ScriptedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_sandbox(monkeypatch, "")
    mark = project.folder / "mark"
    async with project.open() as conversation:
        fork = await conversation.fork(WORK)
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
