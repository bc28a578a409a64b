"""Questions, answers, and the grants that they store."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dirge_py.config.edit import save_rules
from dirge_py.permission.questions import JudgeVerdict, model_judge
from dirge_py.processes.programs import USUAL_PATH, search_path
from dirge_py.processes.sandbox.profile import LaunchSpec
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import ConfigError
from dirge_py.types.events import PermissionAnswered, PermissionAsked, SystemNotice
from dirge_py.types.hooks import CallDecision, Defer
from dirge_py.types.questions import PermissionAnswer, PermissionRequest
from dirge_py.types.tools import ToolCall
from tests.permission.conftest import Project, allow, ask, deny
from tests.support.authorizer_driver import NO, YES, AuthorizerDriver


@pytest.fixture
def project(own_project: Project) -> Project:
    return own_project


def by_command(**effects: PermissionAnswer) -> Any:
    def answer(request: PermissionRequest) -> PermissionAnswer:
        return effects.get(request.claims[0].resource.split()[0], NO)

    return answer


def test_programs_are_looked_for_outside_the_workspace_only() -> None:
    path = "/w/bin:relative:/opt/tools:/w"

    assert search_path(path, ["/w"]) == "/opt/tools"


def test_a_workspace_that_holds_every_program_leaves_the_systems_own() -> None:
    assert search_path("/usr/bin:/bin", ["/"]) == ":".join(USUAL_PATH)


async def test_a_call_denied_again_and_again_is_no_longer_asked_about(project: Project) -> None:
    driver = AuthorizerDriver(project, loop_guard=2)

    texts = [await driver.run(driver.bash("make")) for _ in range(4)]

    assert len(driver.user.asked) == 2
    assert "was denied 2 times" in texts[3]
    assert [e.policy for e in driver.events if isinstance(e, PermissionAnswered)] == [
        "answer", "answer", "loop-guard", "loop-guard",
    ]  # fmt: skip


async def test_c33_an_approval_resets_the_count(project: Project) -> None:
    driver = AuthorizerDriver(project, loop_guard=3)
    for answer in (NO, NO, YES, NO, NO):
        driver.user.answer = lambda request, answer=answer: answer
        await driver.decide(driver.bash("make"))

    await driver.decide(driver.bash("make"))

    assert len(driver.user.asked) == 6


async def test_another_call_or_run_is_asked_about_all_the_same(project: Project) -> None:
    driver = AuthorizerDriver(project, loop_guard=1)
    await driver.decide(driver.bash("make"))
    await driver.decide(driver.bash("make x"))
    again = driver.bash("make")
    await driver.decide(again, driver.info([again], run_id="next"))

    assert len(driver.user.asked) == 3


async def test_a_loop_guard_of_nothing_never_speaks(project: Project) -> None:
    driver = AuthorizerDriver(project, loop_guard=0)
    for _ in range(6):
        await driver.decide(driver.bash("make"))

    assert len(driver.user.asked) == 6


async def test_c29_calls_of_a_batch_are_asked_about_together_and_answered_one_by_one(
    project: Project,
) -> None:
    driver = AuthorizerDriver(project)
    driver.user.answer = by_command(touch=YES, make=NO, npm=YES)
    calls = [
        driver.bash("touch x"),
        driver.bash("ls"),
        driver.bash("make"),
        driver.bash("npm test"),
    ]
    info = driver.info(calls)

    allowed = [await driver.allows(call, info) for call in calls]

    assert [[one.call_id for one in batch] for batch in driver.user.asked] == [
        ["call1", "call3", "call4"]
    ]
    assert allowed == [True, True, False, True]
    kinds = (PermissionAsked, PermissionAnswered)
    assert [(type(e), e.tool_call_id) for e in driver.events if isinstance(e, kinds)] == [
        (kind, f"call{number}") for number in (1, 3, 4) for kind in kinds
    ]


async def test_a_call_that_was_changed_after_it_was_asked_about_is_asked_again(
    project: Project,
) -> None:
    driver = AuthorizerDriver(project, answer=YES)
    calls = [driver.bash("make"), driver.bash("npm test")]
    info = driver.info(calls)
    await driver.decide(calls[0], info)
    edited = ToolCall(
        id=calls[1].id, name="bash", arguments={"command": "npm exec x"}, tool=calls[1].tool
    )

    await driver.decide(edited, info)

    assert [one.claims[0].resource for one in driver.user.questions] == [
        "make", "npm test", "npm exec x",
    ]  # fmt: skip


async def test_repetitions_and_edits_of_one_file_wait_for_their_turn(project: Project) -> None:
    driver = AuthorizerDriver(project, mode="restrictive", answer=YES)
    write = [driver.call("write", path="new", content=text) for text in ("1\n", "2\n")]
    calls = [
        driver.bash("make"),
        driver.bash("make"),
        *write,
        driver.call("write", path="b2", content=""),
    ]
    info = driver.info(calls)

    for call in calls:
        await driver.run(call, info)

    assert [one.call_id for one in driver.user.asked[0]] == [
        "call3", "call1", "call5",
    ]  # fmt: skip
    assert len(driver.user.questions) == 5


async def test_a_no_stands_against_a_rule_that_came_with_another_answer(project: Project) -> None:
    driver = AuthorizerDriver(project)
    wide = PermissionAnswer(effect="allow", remember="session", is_wide=True)
    driver.user.answer = lambda request: wide if request.call_id == "call1" else NO
    calls = [driver.bash("git push origin a"), driver.bash("git push origin b")]
    info = driver.info(calls)

    assert [await driver.allows(call, info) for call in calls] == [True, False]
    assert await driver.allows(driver.bash("git push origin b"))


async def test_a62_an_edit_is_refused_when_its_file_changed_behind_the_question(
    project: Project,
) -> None:
    driver = AuthorizerDriver(project, mode="restrictive", answer=YES)
    await driver.run(driver.call("read", path="notes.txt"))
    call = driver.call("edit", path="notes.txt", old_text="notes.txt", new_text="changed")
    assert await driver.allows(call)
    [request] = driver.user.questions
    assert request.preview is not None
    assert "+changed" in request.preview.text
    (project.root / "notes.txt").write_text("notes.txt and more\n")
    assert call.tool is not None

    done = await call.tool.execute(call.id, call.arguments, AbortSignal(), lambda update: None)

    assert done.is_error
    assert (project.root / "notes.txt").read_text() == "notes.txt and more\n"


async def test_what_a_person_made_of_an_edit_is_what_is_written(project: Project) -> None:
    driver = AuthorizerDriver(project, mode="restrictive")

    def answer(request: PermissionRequest) -> PermissionAnswer:
        assert request.preview is not None
        [change] = request.preview.changes
        return PermissionAnswer(effect="allow", changes=(replace(change, after="mine\n"),))

    driver.user.answer = answer

    text = await driver.run(driver.call("write", path="new.txt", content="theirs\n"))

    assert (project.root / "new.txt").read_text() == "mine\n"
    assert "user changed" in text


@pytest.mark.parametrize(
    ("command", "is_wide", "granted"),
    [
        ("git push origin main", False, ["execute:git push origin main"]),
        ("git push origin main", True, ["execute:git push *"]),
        ("npm run build", True, ["execute:npm run build *"]),
        ("make", True, ["execute:make"]),
        ("make && git push", True, ["execute:make", "execute:git push *"]),
        ("python -c 1", False, []),
        ("git push $(id)", True, []),
        ("cd src && git push", True, []),
    ],
)
async def test_a_grant_stores_what_was_shown(
    project: Project, command: str, is_wide: bool, granted: list[str]
) -> None:
    driver = AuthorizerDriver(project)
    driver.user.answer = lambda request: PermissionAnswer(
        effect="allow", remember="session", is_wide=is_wide
    )

    assert await driver.allows(driver.bash(command))

    [request] = driver.user.questions
    assert driver.granted == [str(rule) for rule in driver.gate.grants] == granted
    shown = request.wider if is_wide and request.wider else request.grant
    assert granted == list(shown)


async def test_always_is_kept_in_the_persons_own_settings(project: Project, tmp_path: Path) -> None:
    file = tmp_path / "config/config.toml"
    file.parent.mkdir()
    file.write_text('# mine\n[permission]\nmode = "standard" # kept\n')
    driver = AuthorizerDriver(
        project,
        keep_rules=lambda rules: str(save_rules(rules, file=file)),
        answer=PermissionAnswer(effect="allow", remember="always"),
    )

    assert await driver.allows(driver.bash("make test"))
    assert await driver.allows(driver.bash("make test"))

    [request] = driver.user.questions
    assert request.can_keep
    assert file.read_text() == (
        '# mine\n[permission]\nmode = "standard" # kept\n\n[[permission.rule]]\n'
        'op = "execute"\nmatch = "make test"\neffect = "allow"\n'
    )
    assert file.with_name("config.toml.bak").exists()
    assert (driver.granted, driver.gate.grants) == ([], ())


@pytest.mark.parametrize(
    "command",
    ["make $(id)", "make > log", "python -c 1", "cp a .git/x", "cd src && make", "cat /etc/hosts"],
)
async def test_what_must_not_be_allowed_for_ever_cannot_be(project: Project, command: str) -> None:
    kept: list[str] = []
    driver = AuthorizerDriver(
        project,
        keep_rules=lambda rules: str(kept.extend(rules)),
        answer=PermissionAnswer(effect="allow", remember="always"),
    )

    assert await driver.allows(driver.bash(command))

    [request] = driver.user.questions
    assert (request.can_keep, request.grant, request.wider, kept) == (False, (), (), [])


async def test_settings_that_cannot_be_written_leave_a_grant_and_a_notice(project: Project) -> None:
    def broken(rules: object) -> str:
        raise ConfigError("the file is broken.")

    driver = AuthorizerDriver(
        project, keep_rules=broken, answer=PermissionAnswer(effect="allow", remember="always")
    )

    assert await driver.allows(driver.bash("make"))

    assert driver.granted == ["execute:make"]
    assert any(isinstance(e, SystemNotice) and "broken" in e.content for e in driver.events)


@pytest.mark.parametrize(
    ("answer", "effect", "asked", "warning"),
    [
        ("ALLOW", "deny", 1, ""),
        ("DENY: it deletes work", "deny", 0, ""),
        ("DENY: it deletes work", "warn", 1, "it deletes work"),
        ("maybe", "deny", 1, "cannot be read"),
        ("ALLOW\nDENY: x", "deny", 1, "both"),
        ("", "warn", 1, "cannot be read"),
    ],
)
async def test_c35_a_judge_can_only_tighten(
    project: Project, answer: str, effect: Any, asked: int, warning: str
) -> None:
    async def model(system: str, prompt: str) -> str:
        assert "make" in prompt
        return answer

    driver = AuthorizerDriver(project, judge=model_judge(model), judge_effect=effect, answer=YES)

    is_allowed = await driver.allows(driver.bash("make"))

    assert is_allowed is bool(asked)
    assert len(driver.user.questions) == asked
    assert all(warning in one.warning for one in driver.user.questions)
    assert bool(warning) is any(one.warning for one in driver.user.questions)


async def test_c35_a_judge_that_fails_changes_nothing(project: Project) -> None:
    async def judge(prompt: str) -> JudgeVerdict:
        raise TimeoutError

    driver = AuthorizerDriver(project, judge=judge)

    await driver.decide(driver.bash("make"))

    assert [one.warning for one in driver.user.questions] == [""]


async def test_a_judge_is_not_asked_about_what_the_rules_decide(project: Project) -> None:
    seen: list[str] = []

    async def judge(prompt: str) -> JudgeVerdict:
        seen.append(prompt)
        return JudgeVerdict("allow")

    driver = AuthorizerDriver(project, deny("execute:rm *"), judge=judge)

    assert await driver.allows(driver.bash("ls"))
    assert not await driver.allows(driver.bash("rm x"))
    assert seen == []


async def test_a_judges_no_in_a_batch_leaves_the_other_questions_open(project: Project) -> None:
    async def judge(prompt: str) -> JudgeVerdict:
        return JudgeVerdict("deny", "no") if "npm" in prompt else JudgeVerdict("allow")

    driver = AuthorizerDriver(project, judge=judge, answer=YES)
    calls = [driver.bash("make"), driver.bash("npm test"), driver.bash("touch z")]
    info = driver.info(calls)

    assert [await driver.allows(call, info) for call in calls] == [True, False, True]
    assert [[one.call_id for one in batch] for batch in driver.user.asked] == [["call1", "call3"]]


async def permits_of(driver: AuthorizerDriver, command: str) -> frozenset[str]:
    given: list[LaunchSpec] = []

    def launcher(arguments: list[str], spec: LaunchSpec) -> list[str]:
        given.append(spec)
        return ["/bin/true"]

    driver.runner._launcher = launcher
    await driver.run(driver.bash(command))
    return frozenset(given[0].permits) if given else frozenset()


async def test_a_sandboxed_command_gets_what_was_allowed_and_no_more(project: Project) -> None:
    driver = AuthorizerDriver(project, answer=YES)
    online = AuthorizerDriver(project, allow("network:*"))
    online.user.answer = lambda request: YES
    guarded = AuthorizerDriver(project, deny("network:evil.example"), mode="yolo")

    assert await permits_of(driver, "git commit -m x") == {"git"}
    assert await permits_of(driver, 'git commit -m "$(cat notes.txt)"') == {"git"}
    assert await permits_of(driver, "git status") == frozenset()
    assert await permits_of(driver, "make") == frozenset()
    assert await permits_of(online, "make") == {"network"}
    assert await permits_of(AuthorizerDriver(project, mode="yolo"), "make") == frozenset()
    assert await permits_of(AuthorizerDriver(project, allow("network:*"), mode="yolo"), "make") == {
        "network"
    }
    assert await permits_of(guarded, "make") == frozenset()


async def test_a_question_about_git_names_the_hooks_that_would_run(project: Project) -> None:
    for name in ("pre-commit", "pre-push", "commit-msg.sample"):
        hook = project.root / ".git/hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text("#!/bin/sh\n")
        hook.chmod(0o755)

    assert "hooks pre-commit" in project.run("git commit -m x").reason
    assert "pre-push" not in project.run("git commit -m x").reason
    assert "hooks pre-push" in project.run('git push "$REMOTE"').reason
    assert "hooks" not in project.run("make").reason
    project.git("config", "--local", "core.hooksPath", "src")
    (project.root / "src/pre-commit").write_text("#!/bin/sh\n")
    (project.root / "src/pre-commit").chmod(0o755)
    assert f"pre-commit of {project.root}/src" in project.run("git commit -m x").reason


async def test_a_comment_with_a_denial_reaches_the_model(project: Project) -> None:
    driver = AuthorizerDriver(
        project, answer=PermissionAnswer(effect="deny", comment="use `make fast`")
    )

    assert "use `make fast`" in await driver.run(driver.bash("make"))


def waiting(driver: AuthorizerDriver, call: ToolCall, **more: Any) -> Any:
    return driver.info(
        [call], decisions={call.id: CallDecision(tool_call_id=call.id, allow=True, **more)}
    )


async def test_a_decision_holds_only_for_the_call_that_waited(project: Project) -> None:
    driver = AuthorizerDriver(project, answer=PermissionAnswer(effect="defer"))
    call = driver.bash("make")
    assert isinstance(await driver.decide(call), Defer)
    other = ToolCall(id=call.id, name="bash", arguments={"command": "make evil"}, tool=call.tool)

    assert await driver.allows(call, waiting(driver, call))
    # A plugin made something else of it: a person would have to see that, and none is there.
    assert not await driver.allows(other, waiting(driver, call))
    assert driver.user.questions[-1].claims[0].resource == "make evil"


async def test_a_decision_holds_only_for_what_was_to_be_written(project: Project) -> None:
    driver = AuthorizerDriver(project, mode="restrictive", answer=PermissionAnswer(effect="defer"))
    call = driver.call("write", path="new", content="a")
    assert isinstance(await driver.decide(call), Defer)
    other = ToolCall(
        id=call.id, name="write", arguments={"path": "new", "content": "b"}, tool=call.tool
    )

    assert not await driver.allows(other, waiting(driver, call))
    assert await driver.allows(call, waiting(driver, call))


async def test_an_answer_given_beforehand_is_for_the_arguments_as_they_were(
    project: Project,
) -> None:
    driver = AuthorizerDriver(project, answer=YES)
    calls = [driver.bash("make"), driver.call("bash", command="make it", timeout=5)]
    info = driver.info(calls)
    assert await driver.allows(calls[0], info)

    arguments: Any = calls[1].arguments
    arguments["timeout"] = 3000

    assert await driver.allows(calls[1], info)
    assert [len(batch) for batch in driver.user.asked] == [2, 1]


async def test_arguments_that_came_with_a_decision_are_decided(project: Project) -> None:
    driver = AuthorizerDriver(project, answer=PermissionAnswer(effect="defer"))
    await driver.decide(driver.bash("make"))
    other = ToolCall(
        id="call1", name="bash", arguments={"command": "make it"}, tool=driver.tool("bash")
    )

    assert await driver.allows(other, waiting(driver, other, arguments=other.arguments))


async def test_a_tool_that_is_switched_off_is_denied_in_every_mode(project: Project) -> None:
    for mode in ("standard", "yolo"):
        driver = AuthorizerDriver(project, allow("edit:**"), mode=mode)  # type: ignore[arg-type]
        driver.gate.denied_tools = {"Write": "prompt plan"}

        text = await driver.run(driver.call("write", path="new", content=""))

        assert "prompt plan" in text
        assert await driver.allows(driver.bash("ls"))
        [denied] = [e for e in driver.events if isinstance(e, PermissionAnswered)]
        assert denied.policy == "deny-rule"


async def test_a_question_that_is_cancelled_leaves_nothing_behind(project: Project) -> None:
    driver = AuthorizerDriver(project)
    begun = asyncio.Event()

    class Slow:
        async def permission(self, requests: Any) -> Any:
            begun.set()
            await asyncio.Event().wait()

    driver.authorizer._asker = Slow()
    task = asyncio.create_task(driver.decide(driver.bash("make")))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    driver.authorizer._asker = driver.user
    assert not await driver.allows(driver.bash("make"))
    assert len(driver.gate.history) == 1


async def test_an_ask_rule_is_no_reason_to_ask_twice(project: Project) -> None:
    driver = AuthorizerDriver(
        project, ask("execute:ls *"), answer=PermissionAnswer(effect="allow", remember="session")
    )

    for _ in range(2):
        assert await driver.allows(driver.bash("ls src"))

    assert len(driver.user.asked) == 1


async def test_a_change_that_can_only_fail_is_not_asked_about(project: Project) -> None:
    driver = AuthorizerDriver(project, mode="restrictive")
    edit = driver.call("edit", path="nowhere.py", old_text="a", new_text="b")
    wanted = driver.call("write", path="b.txt", content="x")
    info = driver.info([wanted, edit])

    first = await driver.decide(wanted, info)
    text = await driver.run(edit, info)

    assert first is not None  # The user denies it.
    assert [request.tool_name for request in driver.user.questions] == ["write"]
    assert "nowhere.py" in text
    assert "Permission denied" not in text


async def test_a_persons_no_is_told_as_theirs_and_a_policys_as_its_reason(
    project: Project,
) -> None:
    driver = AuthorizerDriver(project)
    by_policy = await driver.run(driver.bash("make"))

    class Asked(type(driver.user)):  # type: ignore[misc]
        async def question(self, questions: object) -> None:
            return None

    driver.authorizer._asker = Asked(driver.user.answer)
    by_person = await driver.run(driver.bash("make x"))

    assert "`make` can change things" in by_policy
    assert by_person.startswith("Permission denied: the user said no")
