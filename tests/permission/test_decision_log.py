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


def record_command(log: DecisionLog, project: Project, command: str, call_id: str = "c") -> None:
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


def test_decision_log_keeps_only_latest_decisions_with_their_numbers(project: Project) -> None:
    log = DecisionLog()
    for number in range(KEPT + 5):
        record_command(log, project, f"rm {number}")

    assert (len(log), log.get(5), log.get(6) is None) == (KEPT, None, False)
    assert format_log(log).splitlines()[-3].split()[0] == str(KEPT + 5)


def test_formatted_decision_shows_every_policy_vote(project: Project) -> None:
    log = DecisionLog()
    record_command(log, project, "rm x && ls")
    past = log.get(1)

    assert past is not None
    assert "deny-rule  deny  the rule `execute:rm *`" in format_past_decision(past)
    assert "execute ls\n  → allow [builtin]" in format_past_decision(past)


def test_approved_decision_shows_answer_instead_of_reason_for_asking(project: Project) -> None:
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


def test_restored_decision_log_continues_numbering(project: Project) -> None:
    stored: list[Any] = []
    log, again = DecisionLog(), DecisionLog()
    log.on_record = stored.append
    record_command(log, project, "rm x", "one")
    record_command(log, project, "rm y", "two")

    again.restore([*json.loads(json.dumps(stored)), {"number": "x"}, None, {}])

    assert list(again) == list(log)
    record_command(again, project, "rm z")
    assert [past.number for past in again] == [1, 2, 3]
    assert again.of_call("two") == log.get(2)


def test_decision_log_redacts_secrets_before_truncating(project: Project) -> None:
    log = DecisionLog(redact=lambda text: text.replace("hunter2" * 400, "[secret]"))
    record_command(log, project, f"rm --password={'hunter2' * 400}")

    [past] = log
    assert "hunter2" not in json.dumps(past.as_record())
    assert "[secret]" in past.claims[0]


def test_call_digest_differs_for_other_tool_claims_or_arguments(project: Project) -> None:
    first, second = [project.execute("rm x")], [project.execute("rm y")]
    calls = [("bash", first, {"a": 1, "b": 2}), ("bash", second, {"a": 1, "b": 2}),
             ("bash", first, {"a": 1, "b": 3}), ("run", first, {"a": 1, "b": 2})]  # fmt: skip

    assert len({call_digest(*call) for call in calls}) == len(calls)
    assert call_digest("bash", first, {"b": 2, "a": 1}) == call_digest(*calls[0])


def test_decision_with_many_claims_keeps_the_deciding_ones(project: Project) -> None:
    log = DecisionLog()
    record_command(log, project, "; ".join([*(f"ls d{n}" for n in range(60)), "rm x"]))

    [past] = log
    assert (past.claims[0], past.claims[-1]) == ("execute:rm x", "… and 91 more")
    assert past.text.endswith("… and 91 more")
    assert len(json.dumps(past.as_record())) < 20_000
