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
from dirge_py.types.errors import ConfigError, UsageError
from dirge_py.types.events import PermissionAnswered, PermissionAsked, SystemNotice
from dirge_py.types.hooks import CallDecision, Defer, EditArgs
from dirge_py.types.questions import PermissionAnswer, PermissionRequest
from dirge_py.types.tools import ToolCall
from tests.permission.conftest import Project, allow, ask, deny
from tests.support.authorizer_driver import NO, YES, AuthorizerDriver


@pytest.fixture
def project(own_project: Project) -> Project:
    return own_project


def answer_by_command(**effects: PermissionAnswer) -> Any:
    def answer(request: PermissionRequest) -> PermissionAnswer:
        return effects.get(request.claims[0].resource.split()[0], NO)

    return answer


def test_search_path_excludes_workspace_and_relative_folders() -> None:
    path = "/w/bin:relative:/opt/tools:/w"

    assert search_path(path, ["/w"]) == "/opt/tools"


def test_search_path_falls_back_to_system_folders_when_workspace_is_root() -> None:
    assert search_path("/usr/bin:/bin", ["/"]) == ":".join(USUAL_PATH)


async def test_call_denied_repeatedly_is_no_longer_asked_about(project: Project) -> None:
    driver = AuthorizerDriver(project, loop_guard=2)

    texts = [await driver.run(driver.bash("make")) for _ in range(4)]

    assert len(driver.user.asked) == 2
    assert "was denied 2 times" in texts[3]
    assert [e.policy for e in driver.events if isinstance(e, PermissionAnswered)] == [
        "answer", "answer", "loop-guard", "loop-guard",
    ]  # fmt: skip


async def test_c33_approval_resets_denial_count(project: Project) -> None:
    driver = AuthorizerDriver(project, loop_guard=3)
    for answer in (NO, NO, YES, NO, NO):
        driver.user.answer = lambda request, answer=answer: answer
        await driver.decide(driver.bash("make"))

    await driver.decide(driver.bash("make"))

    assert len(driver.user.asked) == 6


async def test_loop_guard_counts_each_call_and_run_separately(project: Project) -> None:
    driver = AuthorizerDriver(project, loop_guard=1)
    await driver.decide(driver.bash("make"))
    await driver.decide(driver.bash("make x"))
    again = driver.bash("make")
    await driver.decide(again, driver.info([again], run_id="next"))

    assert len(driver.user.asked) == 3


async def test_loop_guard_of_zero_is_off(project: Project) -> None:
    driver = AuthorizerDriver(project, loop_guard=0)
    for _ in range(6):
        await driver.decide(driver.bash("make"))

    assert len(driver.user.asked) == 6


async def test_c29_batch_calls_are_asked_together_and_answered_separately(
    project: Project,
) -> None:
    driver = AuthorizerDriver(project)
    driver.user.answer = answer_by_command(touch=YES, make=NO, npm=YES)
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


async def test_call_with_changed_arguments_is_asked_again(
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


async def test_repeated_commands_and_edits_of_same_file_are_not_asked_together(
    project: Project,
) -> None:
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


async def test_denial_in_batch_beats_grant_from_another_answer_in_batch(project: Project) -> None:
    driver = AuthorizerDriver(project)
    wider = ("execute:git push *",)
    wide = PermissionAnswer(effect="allow", remember="session", rules=wider)
    driver.user.answer = lambda request: wide if request.call_id == "call1" else NO
    calls = [driver.bash("git push origin a"), driver.bash("git push origin b")]
    info = driver.info(calls)

    assert [await driver.allows(call, info) for call in calls] == [True, False]
    assert await driver.allows(driver.bash("git push origin b"))


async def test_a62_approved_edit_fails_when_its_file_changed_since_preview(
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


async def test_edit_changed_by_user_in_prompt_is_written_as_changed(project: Project) -> None:
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
        ("cd src && git push", True, ["execute:git push *"]),
        ("cd /tmp && git push", True, []),
    ],
)
async def test_grant_stores_exactly_the_rules_shown(
    project: Project, command: str, is_wide: bool, granted: list[str]
) -> None:
    driver = AuthorizerDriver(project)

    def answer(request: PermissionRequest) -> PermissionAnswer:
        rules = request.offers[-1].rules if is_wide and request.offers else ()
        return PermissionAnswer(effect="allow", remember="session", rules=rules)

    driver.user.answer = answer

    assert await driver.allows(driver.bash(command))

    [request] = driver.user.questions
    assert driver.granted == [str(rule) for rule in driver.gate.grants] == granted
    shown = [one.rules for one in request.offers][-1 if is_wide else 0 :][:1]
    assert granted == [rule for rules in shown for rule in rules]


async def test_always_answer_saves_rule_in_user_settings(project: Project, tmp_path: Path) -> None:
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
    ["make $(id)", "make > log", "python -c 1", "cp a .git/x", "cd /tmp && make", "cat .env"],
)
async def test_command_without_grantable_rule_cannot_be_allowed_always(
    project: Project, command: str
) -> None:
    kept: list[str] = []
    driver = AuthorizerDriver(
        project,
        keep_rules=lambda rules: str(kept.extend(rules)),
        answer=PermissionAnswer(effect="allow", remember="always"),
    )

    assert await driver.allows(driver.bash(command))

    [request] = driver.user.questions
    assert (request.can_keep, request.offers, kept) == (False, (), [])
    assert request.no_wider


async def test_unwritable_settings_turn_always_answer_into_grant_with_notice(
    project: Project,
) -> None:
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
async def test_c35_judge_can_deny_or_warn_but_never_allow(
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


async def test_c35_failing_judge_leaves_approval_prompt_unchanged(project: Project) -> None:
    async def judge(prompt: str) -> JudgeVerdict:
        raise TimeoutError

    driver = AuthorizerDriver(project, judge=judge)

    await driver.decide(driver.bash("make"))

    assert [one.warning for one in driver.user.questions] == [""]


async def test_judge_is_not_asked_when_rules_decide(project: Project) -> None:
    seen: list[str] = []

    async def judge(prompt: str) -> JudgeVerdict:
        seen.append(prompt)
        return JudgeVerdict("allow")

    driver = AuthorizerDriver(project, deny("execute:rm *"), judge=judge)

    assert await driver.allows(driver.bash("ls"))
    assert not await driver.allows(driver.bash("rm x"))
    assert seen == []


async def test_judge_denial_in_batch_still_asks_about_other_calls(project: Project) -> None:
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


async def test_sandboxed_command_gets_only_allowed_permits(project: Project) -> None:
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


async def test_approval_reason_of_git_command_names_hooks_that_would_run(project: Project) -> None:
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


async def test_comment_of_denial_is_sent_to_model(project: Project) -> None:
    driver = AuthorizerDriver(
        project, answer=PermissionAnswer(effect="deny", comment="use `make fast`")
    )

    assert "use `make fast`" in await driver.run(driver.bash("make"))


def info_with_decision(driver: AuthorizerDriver, call: ToolCall, **more: Any) -> Any:
    return driver.info(
        [call], decisions={call.id: CallDecision(tool_call_id=call.id, allow=True, **more)}
    )


async def test_stored_decision_applies_only_to_unchanged_deferred_call(project: Project) -> None:
    driver = AuthorizerDriver(project, answer=PermissionAnswer(effect="defer"))
    call = driver.bash("make")
    assert isinstance(await driver.decide(call), Defer)
    other = ToolCall(id=call.id, name="bash", arguments={"command": "make evil"}, tool=call.tool)

    assert await driver.allows(call, info_with_decision(driver, call))
    # A plugin changed the call, so the user would have to approve it, and nobody answers here.
    assert not await driver.allows(other, info_with_decision(driver, call))
    assert driver.user.questions[-1].claims[0].resource == "make evil"


async def test_stored_decision_applies_only_to_unchanged_file_content(project: Project) -> None:
    driver = AuthorizerDriver(project, mode="restrictive", answer=PermissionAnswer(effect="defer"))
    call = driver.call("write", path="new", content="a")
    assert isinstance(await driver.decide(call), Defer)
    other = ToolCall(
        id=call.id, name="write", arguments={"path": "new", "content": "b"}, tool=call.tool
    )

    assert not await driver.allows(other, info_with_decision(driver, call))
    assert await driver.allows(call, info_with_decision(driver, call))


async def test_batch_answer_does_not_cover_arguments_changed_later(
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


async def test_decision_with_changed_arguments_allows_those_arguments(project: Project) -> None:
    driver = AuthorizerDriver(project, answer=PermissionAnswer(effect="defer"))
    await driver.decide(driver.bash("make"))
    other = ToolCall(
        id="call1", name="bash", arguments={"command": "make it"}, tool=driver.tool("bash")
    )

    assert await driver.allows(other, info_with_decision(driver, other, arguments=other.arguments))


async def test_disabled_tool_is_denied_in_every_mode(project: Project) -> None:
    for mode in ("standard", "yolo"):
        driver = AuthorizerDriver(project, allow("edit:**"), mode=mode)  # type: ignore[arg-type]
        driver.gate.denied_tools = {"Write": "prompt plan"}

        text = await driver.run(driver.call("write", path="new", content=""))

        assert "prompt plan" in text
        assert await driver.allows(driver.bash("ls"))
        [denied] = [e for e in driver.events if isinstance(e, PermissionAnswered)]
        assert denied.policy == "deny-rule"


async def test_call_can_be_decided_again_after_cancelled_prompt(project: Project) -> None:
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


async def test_grant_covers_command_of_ask_rule(project: Project) -> None:
    driver = AuthorizerDriver(
        project, ask("execute:ls *"), answer=PermissionAnswer(effect="allow", remember="session")
    )

    for _ in range(2):
        assert await driver.allows(driver.bash("ls src"))

    assert len(driver.user.asked) == 1


async def test_edit_that_can_only_fail_is_not_asked_about(project: Project) -> None:
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


async def test_denial_text_names_user_or_reason_of_policy(
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


def instead(command: str) -> PermissionAnswer:
    return PermissionAnswer(effect="allow", command=command)


async def test_changed_command_runs_in_place_of_the_models(project: Project) -> None:
    driver = AuthorizerDriver(project, answer=instead("touch mine"))

    answer = await driver.decide(driver.bash("touch theirs"))

    assert isinstance(answer, EditArgs)
    assert answer.args == {"command": "touch mine"}
    assert answer.note.endswith("This ran instead: touch mine")
    assert [one.command for one in driver.user.questions] == ["touch theirs"]
    assert [past.effect for past in driver.gate.history] == ["allow"]


@pytest.mark.parametrize("command", ["rm x", "rm -rf /", "echo x; rm x", "sh -c 'rm x'"])
async def test_changed_command_that_a_rule_denies_does_not_run(
    project: Project, command: str
) -> None:
    driver = AuthorizerDriver(project, deny("execute:rm *"), answer=instead(command))

    text = await driver.run(driver.bash("touch theirs"))

    assert text.startswith("Permission denied")


async def test_changed_command_holds_even_if_a_rule_allows_the_models(project: Project) -> None:
    driver = AuthorizerDriver(project)
    first = PermissionAnswer(effect="allow", remember="session", rules=("execute:touch *",))
    driver.user.answer = lambda request: first if request.call_id == "call1" else instead("touch c")
    calls = [driver.bash("touch a"), driver.bash("touch b")]
    info = driver.info(calls)

    assert await driver.allows(calls[0], info)
    answer = await driver.decide(calls[1], info)

    assert isinstance(answer, EditArgs)
    assert answer.args == {"command": "touch c"}


async def test_rules_that_user_wrote_must_cover_the_call(project: Project) -> None:
    driver = AuthorizerDriver(project)
    await driver.decide(driver.bash("make test"))
    [request] = driver.user.questions
    assert request.try_rules is not None

    offer = request.try_rules(["execute:make t* *"])

    assert offer.rules == ("execute:make t* *",)
    assert offer.reach is not None
    for rules in (["execute:make other"], ["edit:**"], ["make"], [], ["execute:"], ["execute:'"]):
        with pytest.raises(UsageError):
            request.try_rules(rules)
