"""The preview of a rule, compared with real decisions about earlier calls."""

import json
from dataclasses import replace
from typing import Any

import pytest

from dirge_py.permission.decision import DecisionLog
from dirge_py.types.questions import PermissionAnswer, PermissionRequest, Reach
from tests.permission.conftest import Project, ask, deny
from tests.support.authorizer_driver import NO, YES, AuthorizerDriver

FOR_NOW = PermissionAnswer(effect="allow", remember="session")
FOR_ALL = replace(FOR_NOW, rules=("execute:git push *",))

COMMANDS = [
    "git push origin main",
    "git fetch",
    "git push --tags && make",
    "cd src && git push here",
    "git push $(cat x)",
    "make",
    "git push 'a b'",
    "git push > x",
    "git commit -m x",
    "git -C src push",
]


async def question(driver: AuthorizerDriver, command: str) -> PermissionRequest:
    await driver.decide(driver.bash(command))
    return driver.user.questions[-1]


def reaches(request: PermissionRequest) -> list[Reach | None]:
    return [offer.reach for offer in request.offers]


async def test_rule_preview_matches_decisions_after_rule_is_stored(
    own_project: Project,
) -> None:
    for kept in (False, True):
        driver = AuthorizerDriver(
            own_project, keep_rules=(lambda rules: "settings") if kept else None
        )
        for command in (*COMMANDS, "touch a"):
            await driver.decide(driver.bash(command))
        shown = 0
        for request in driver.user.questions:
            now = await question(driver, request.claims[0].resource)
            for offer in now.offers:
                reach = offer.reach
                gates = [own_project.gate(), own_project.gate()][: 1 + kept]
                for rule in offer.rules:
                    gates[0].add_grant(rule)
                    if kept:
                        gates[1].add_rule(rule, "settings")
                for gate in gates:
                    also, still = (
                        [gate.decide([own_project.execute(one)]).effect for one in of]
                        for of in ((reach.also, reach.still) if reach else ((), ()))
                    )
                    assert set(also) <= {"allow"}
                    assert set(still) <= {"ask"}
                    shown += len(also)
        assert shown


async def test_wider_rule_preview_names_covered_calls_and_one_not_covered(
    own_project: Project,
) -> None:
    driver = AuthorizerDriver(own_project)
    for command in ("git push a", "make", "git fetch", "git push b", "git push c"):
        await driver.decide(driver.bash(command))

    request = await question(driver, "git push d")

    assert reaches(request) == [
        Reach(words="this exact command only", still=("git push c",)),
        Reach(
            words="`git push` with any arguments",
            also=("git push c", "git push b"),
            still=("git fetch",),
        ),
    ]


@pytest.mark.parametrize(
    ("name", "arguments", "exact", "wide"),
    [
        (
            "bash",
            {"command": "touch a; make"},
            "these 2 exact commands only and any change to this file",
            (
                "`touch` with any arguments, any change in this folder, except to protected "
                "names, exactly `make`"
            ),
        ),
        (
            "edit",
            {"path": "src/a.py", "old_text": "a", "new_text": "b"},
            "any change to this file",
            "any change in src, except to protected names",
        ),
        (
            "bash",
            {"command": "git push; make"},
            "these 2 exact commands only",
            "`git push` with any arguments, exactly `make`",
        ),
    ],
)
async def test_rule_preview_without_earlier_calls_is_general(
    own_project: Project, name: str, arguments: Any, exact: str, wide: str
) -> None:
    driver = AuthorizerDriver(own_project, mode="restrictive")
    await driver.run(driver.call("read", path="src/a.py"))
    await driver.decide(driver.call(name, **arguments))

    [request] = driver.user.questions

    assert reaches(request) == [Reach(words=exact), Reach(words=wide)]


async def test_rule_preview_counts_earlier_prompts_of_same_command(own_project: Project) -> None:
    driver = AuthorizerDriver(own_project, answer=YES)
    for _ in range(2):
        await driver.decide(driver.bash("make"))

    request = await question(driver, "make")

    assert reaches(request) == [Reach(words="this exact command only, asked about 2 times before")]
    assert (await question(driver, "git push $(x)")).offers == ()


async def test_rule_preview_leaves_out_calls_decided_by_other_rules(own_project: Project) -> None:
    driver = AuthorizerDriver(own_project, deny("execute:git push secret"))
    for command in ("git push a", "git push b"):
        await driver.decide(driver.bash(command))
    driver.gate.add_rule("execute:git push a", "settings")

    reach = (await question(driver, "git push d")).offers[1].reach

    assert reach is not None
    assert reach.also == ("git push b",)


async def test_preview_of_rule_overruled_by_project_has_no_examples(
    own_project: Project,
) -> None:
    driver = AuthorizerDriver(own_project, keep_rules=lambda rules: "settings")
    driver.gate._policy = replace(driver.gate._policy, project_rules=(ask("execute:git push *"),))
    await driver.decide(driver.bash("git push a"))

    reach = (await question(driver, "git push b")).offers[1].reach

    assert reach is not None
    assert (reach.also, reach.still) == ((), ())


async def test_prompt_has_hint_after_three_similar_calls_allowed_once(own_project: Project) -> None:
    driver = AuthorizerDriver(own_project)
    hints: list[int] = []

    async def push(where: str, answer: PermissionAnswer) -> None:
        driver.user.answer = lambda request: answer
        hints.append((await question(driver, f"git push {where}")).alike)

    for where, answer in (("a", YES), ("b", FOR_NOW), ("c", YES), ("d", NO), ("e", YES)):
        await push(where, answer)
    driver.user.answer = lambda request: YES
    assert (await question(driver, "git fetch")).alike == 0
    assert hints == [0, 0, 0, 3, 0]

    await push("f", FOR_ALL)
    while driver.gate.grants:
        driver.gate.remove_grant(0)
    await push("g", YES)
    assert hints[-1] == 0


async def test_rule_preview_after_resume_uses_stored_calls_without_secrets(
    own_project: Project,
) -> None:
    driver, again = AuthorizerDriver(own_project), AuthorizerDriver(own_project)
    stored: list[Any] = []
    driver.gate.history.redact = lambda text: text.replace("hunter2", "[secret]")
    driver.gate.history.on_record = stored.append
    driver.user.answer = lambda request: YES
    for command in ("git push a", "git push b", "git push https://x:hunter2@y"):
        await driver.decide(driver.bash(command))
    assert "hunter2" not in json.dumps(stored)

    broken = {**stored[0], "tried": [["execute", 3]], "family": "x", "number": 9}
    again.gate.history.restore([*json.loads(json.dumps(stored)), broken])
    request = await question(again, "git push c")

    reach = request.offers[1].reach
    assert reach is not None
    assert reach.also == ("git push b", "git push a")
    assert request.alike == 3
    assert isinstance(again.gate.history, DecisionLog)
