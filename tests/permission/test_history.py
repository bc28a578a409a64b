import json
from typing import Any

from dirge_py.permission.decision import (
    KEPT,
    DecisionLog,
    call_digest,
    format_log,
    format_past_decision,
)

from .conftest import Project, deny


def note(log: DecisionLog, project: Project, command: str, call_id: str = "c") -> None:
    claims = [project.execute(command)]
    decision = project.gate(deny("execute:rm *")).decide(claims)
    log.record(
        tool="bash",
        call_id=call_id,
        digest=call_digest("bash", claims),
        decision=decision,
        effect="deny",
        policy=decision.policy,
        reason=decision.reason,
    )


def test_only_the_latest_are_kept_under_their_numbers(project: Project) -> None:
    log = DecisionLog()
    for number in range(KEPT + 5):
        note(log, project, f"rm {number}")

    assert (len(log), log.get(5), log.get(6) is None) == (KEPT, None, False)
    assert format_log(log).splitlines()[-3].split()[0] == str(KEPT + 5)


def test_a_decision_is_told_with_every_vote_that_was_cast(project: Project) -> None:
    log = DecisionLog()
    note(log, project, "rm x && ls")
    past = log.get(1)

    assert past is not None
    assert "deny-rule  deny  the rule `execute:rm *`" in format_past_decision(past)
    assert "execute ls\n  → allow [builtin]" in format_past_decision(past)


def test_why_it_was_asked_is_not_told_as_why_it_was_allowed(project: Project) -> None:
    log, claims = DecisionLog(), [project.execute("make")]
    asked = project.gate().decide(claims)
    past = log.record(
        tool="bash",
        call_id="c",
        decision=asked,
        effect="allow",
        policy="answer",
        reason=asked.reason,
    )
    assert past.text.splitlines()[0] == "allow: that was the answer [answer]"


def test_what_was_stored_comes_back_and_numbers_go_on(project: Project) -> None:
    stored: list[Any] = []
    log, again = DecisionLog(), DecisionLog()
    log.on_record = stored.append
    note(log, project, "rm x", "one")
    note(log, project, "rm y", "two")

    again.restore([*json.loads(json.dumps(stored)), {"number": "x"}, None, {}])

    assert list(again) == list(log)
    note(again, project, "rm z")
    assert [past.number for past in again] == [1, 2, 3]
    assert again.of_call("two") == log.get(2)


def test_secrets_are_taken_out_before_anything_is_cut(project: Project) -> None:
    log = DecisionLog(redact=lambda text: text.replace("hunter2" * 400, "[secret]"))
    note(log, project, f"rm --password={'hunter2' * 400}")

    [past] = log
    assert "hunter2" not in json.dumps(past.as_record())
    assert "[secret]" in past.claims[0]


def test_other_claims_or_arguments_have_another_digest(project: Project) -> None:
    first, second = [project.execute("rm x")], [project.execute("rm y")]
    calls = [("bash", first, {"a": 1, "b": 2}), ("bash", second, {"a": 1, "b": 2}),
             ("bash", first, {"a": 1, "b": 3}), ("run", first, {"a": 1, "b": 2})]  # fmt: skip

    assert len({call_digest(*call) for call in calls}) == len(calls)
    assert call_digest("bash", first, {"b": 2, "a": 1}) == call_digest(*calls[0])


def test_of_a_call_that_does_very_much_the_parts_that_decided_are_kept(project: Project) -> None:
    log = DecisionLog()
    note(log, project, "; ".join([*(f"ls d{n}" for n in range(60)), "rm x"]))

    [past] = log
    assert (past.claims[0], past.claims[-1]) == ("execute:rm x", "… and 91 more")
    assert past.text.endswith("… and 91 more")
    assert len(json.dumps(past.as_record())) < 20_000
