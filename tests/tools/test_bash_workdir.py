"""The working folder of a command, and other agents' names for arguments."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dirge_py.processes.environment import EnvironmentPolicy
from dirge_py.processes.runner import Runner, Shells
from dirge_py.session.recovery import title_of_call
from dirge_py.tools.base import ToolContext, ToolServices
from dirge_py.tools.bash import TOOL, BashArgs
from dirge_py.tools.toolbox import Toolbox
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import FileError
from dirge_py.types.messages import ToolCallBlock
from dirge_py.types.tools import Claim, ShellCommand, ToolCall
from tests.permission.conftest import Project, allow, deny
from tests.support.authorizer_driver import NO, YES, AuthorizerDriver


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    made = Project(tmp_path.resolve())
    yield made
    made.workspace.close()


@pytest.fixture
def driver(project: Project) -> AuthorizerDriver:
    return AuthorizerDriver(project)


def context(driver: AuthorizerDriver, cwd: str | None = None) -> ToolContext:
    return ToolContext(
        cwd=cwd or str(driver.project.root),
        services=driver.services,
        call_id="c",
        signal=None,  # type: ignore[arg-type]
        on_update=lambda update: None,
    )


def claims(driver: AuthorizerDriver, workdir: str, command: str = "make") -> list[Claim]:
    return list(TOOL.claims(BashArgs(command=command, workdir=workdir), context(driver)))


async def test_command_starts_in_workdir(driver):
    driver.user.answer = lambda request: YES
    assert await driver.run(driver.call("bash", command="pwd", workdir="src")) == str(
        driver.project.root / "src"
    )


async def test_result_names_workdir_only_if_it_differs(tools):
    (tools.folder / "src").mkdir()
    there = await tools.call("bash", command="pwd", workdir="src")
    here = await tools.call("bash", command="pwd", workdir=".")

    assert (there.text, there.details["workdir"]) == (str(tools.folder / "src"),) * 2
    assert (here.text, here.details.get("workdir")) == (str(tools.folder), None)


async def test_background_command_starts_in_workdir(project):
    runner = Runner(EnvironmentPolicy())
    shells = Shells(runner)
    services = ToolServices(files=project.workspace, processes=runner, shells=shells)
    toolbox = Toolbox([TOOL], services, str(project.root))
    call = {"command": "pwd", "workdir": "src", "background": True}
    try:
        result = await toolbox.loop_tools[0].execute("c", call, AbortSignal(), lambda update: None)
    finally:
        await runner.shutdown()
    assert result.text.startswith(f"{project.root}/src\n")
    assert (result.details["shell_id"], result.details["workdir"]) == ("sh1", f"{project.root}/src")


def test_workdir_is_claimed_and_previewed_as_cd(driver):
    root = str(driver.project.root)
    assert claims(driver, "src") == [
        Claim("execute", ShellCommand("cd src && make", root)),
        Claim("read", f"{root}/src"),
    ]
    preview = TOOL.preview(BashArgs(command="make", workdir="my src"), context(driver))
    assert preview.text == "cd 'my src' && make"


@pytest.mark.parametrize(
    ("workdir", "text"),
    [
        ("-x", "cd ./-x && make"),
        ("~x", "cd './~x' && make"),
        ("a/../src/.", "cd src && make"),
        ("/etc", "cd /etc && make"),
        ("..", None),
        (".", "make"),
        ("", None),
    ],
)
def test_unusual_workdir_is_quoted_in_claim(driver, workdir, text):
    if workdir == "":
        with pytest.raises(ValueError, match="empty"):
            BashArgs(command="make", workdir="")
        return
    expected = text or f"cd {driver.project.home} && make"
    assert claims(driver, workdir)[0].resource.text == expected


def test_workdir_equal_to_working_directory_adds_no_claim(driver):
    root = str(driver.project.root)
    assert claims(driver, root) == claims(driver, f"{root}/src/..") == claims(driver, ".")
    assert claims(driver, ".") == [Claim("execute", ShellCommand("make", root))]


@pytest.mark.parametrize(
    ("workdir", "command", "is_asked"),
    [
        ("src", "ls", False),
        ("src", "cat ../README.md", False),
        ("src", "cat a.py | wc -l", False),
        ("src", "make", True),
        ("..", "ls", True),
        ("/etc", "ls", True),
        ("link", "ls", True),
        ("src/../..", "ls", True),
        ("~", "ls", True),
        ("src", "cat ../.env", True),
    ],
)
async def test_workdir_is_judged_like_cd(driver, workdir, command, is_asked):
    (driver.project.root / "link").symlink_to(driver.project.home)
    await driver.decide(driver.call("bash", command=command, workdir=workdir))
    assert bool(driver.user.asked) == is_asked


async def test_allowed_program_in_outside_workdir_asks(project):
    driver = AuthorizerDriver(project, allow("execute:make *"))
    await driver.decide(driver.call("bash", command="make", workdir=".."))
    await driver.decide(driver.call("bash", command="make", workdir="src"))
    assert [one.claims[0].resource for one in driver.user.questions] == [f"cd {project.home}"]


async def test_command_in_workdir_denied_for_reading_is_denied(project):
    driver = AuthorizerDriver(project, deny("read:src/**"), mode="yolo")
    assert not await driver.allows(driver.call("bash", command="make", workdir="src"))


async def test_destructive_command_in_root_workdir_is_denied(driver):
    text = await driver.run(driver.call("bash", command="rm -rf ./*", workdir="/"))
    assert "destroy" in text
    assert not driver.user.asked


async def test_grant_applies_to_other_workdir_except_for_scripts_named_from_it(driver):
    for rule in ("execute:make", "execute:./run.sh"):
        driver.gate.add_grant(rule)
    assert await driver.allows(driver.call("bash", command="make", workdir="src"))
    assert await driver.allows(driver.bash("./run.sh"))
    assert not await driver.allows(driver.call("bash", command="./run.sh", workdir="src"))
    assert not await driver.allows(driver.call("bash", command="make", workdir="/etc"))
    assert len(driver.user.questions) == 2


async def test_plan_mode_judges_workdir(project):
    driver = AuthorizerDriver(project, mode="plan")
    assert await driver.allows(driver.call("bash", command="ls", workdir="src"))
    assert not await driver.allows(driver.call("bash", command="ls", workdir="/etc"))


@pytest.mark.parametrize(
    ("workdir", "words"),
    [("nowhere", "There is no folder nowhere"), ("README.md", "README.md is not a folder")],
)
async def test_missing_workdir_is_error_and_command_does_not_run(driver, workdir, words):
    driver.user.answer = lambda request: YES
    text = await driver.run(driver.call("bash", command="touch made", workdir=workdir))
    assert words in text
    assert not (driver.project.root / "made").exists()


async def test_workdir_symlink_changed_after_approval_is_not_followed(driver):
    link = driver.project.root / "link"
    link.symlink_to("src")
    call = driver.call("bash", command="touch made", workdir="link")

    asked = []

    def turn(request: Any) -> Any:
        asked.append(request)
        if len(asked) > 1:
            return NO
        link.unlink()
        link.symlink_to(driver.project.home)
        return YES

    driver.user.answer = turn
    assert "denied" in await driver.run(call)
    assert len(asked) == 2
    assert not (driver.project.home / "made").exists()


async def test_workdir_dotdot_is_resolved_like_cd(tools):
    (tools.folder / "deep/er").mkdir(parents=True)
    (tools.folder / "link").symlink_to("deep/er")
    result = await tools.call("bash", command="pwd", workdir="link/..")
    assert result.text == str(tools.folder)


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        ({"cwd": "src"}, {"workdir": "src"}),
        ({"directory": "src"}, {"workdir": "src"}),
        ({"dir_path": "src"}, {"workdir": "src"}),
        ({"working_directory": "src"}, {"workdir": "src"}),
        ({"cwd": "src", "workdir": "src"}, {"workdir": "src"}),
        ({"run_in_background": True}, {"background": True}),
        ({"is_background": False}, {"background": False}),
        ({"timeout_ms": 5000}, {"timeout": 5.0}),
        ({"timeout_ms": "120000"}, {"timeout": 120.0}),
        ({"timeout": 120000}, {"timeout": 120.0}),
        ({"timeout": "600000"}, {"timeout": 600.0}),
        ({"timeout": 3600}, {"timeout": 3600}),
        ({"timeout": 7200}, {"timeout": 7200}),
        ({"timeout": 86400}, {"timeout": 86400}),
        ({"timeout": 10001}, {"timeout": 10001}),
        ({"timeout": True}, {"timeout": True}),
        ({"timeout": 5, "timeout_ms": 9000}, {"timeout": 5, "timeout_ms": 9000}),
        ({"cwd": "a", "directory": "b"}, {"cwd": "a", "directory": "b"}),
        ({"cwd": 1, "workdir": True}, {"cwd": 1, "workdir": True}),
    ],
)
def test_argument_names_of_other_agents_are_accepted(arguments, meant):
    assert TOOL.prepare({"command": "ls", **arguments}) == {"command": "ls", **meant}


async def test_timeout_in_milliseconds_is_applied(tools):
    result = await tools.call("bash", command="sleep 60", timeout_ms=100)
    assert result.details["outcome"] == "timeout"
    assert "after 0.1 s" in result.text


def test_call_title_names_command_and_workdir():
    block = ToolCallBlock(id="1", name="bash", arguments={"workdir": "pkg", "command": "make"})
    assert title_of_call(block) == "bash: (pkg) make"


def test_workdir_in_original_project_is_outside_of_its_copy(driver):
    """A copy of the project has its own working directory; the original is outside."""
    copy = driver.project.home / "copy"
    copy.mkdir()
    claimed = TOOL.claims(
        BashArgs(command="make", workdir=str(driver.project.root)), context(driver, str(copy))
    )
    assert claimed[0].resource == ShellCommand(f"cd {driver.project.root} && make", os.fspath(copy))


def test_plan_evidence_keeps_workdir_of_command(driver):
    from dirge_py.plan.evidence import _command_of

    call = ToolCall(
        id="1",
        name="bash",
        arguments={"command": "make", "workdir": "src"},
        tool=driver.tool("bash"),
    )
    assert _command_of(call) == "cd src && make"


async def test_missing_workdir_is_file_error_of_tool(driver):
    with pytest.raises(FileError, match="There is no folder"):
        await TOOL.run(BashArgs(command="ls", workdir="nowhere"), context(driver))
