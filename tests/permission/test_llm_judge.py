import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirge_py.permission.questions import judge_prompt, parse_verdict
from dirge_py.types.questions import AskedClaim, PermissionRequest
from dirge_py.types.tools import Operation, Preview


def asked(op: Operation, *resources: str, shown: str = "") -> PermissionRequest:
    claims = tuple(
        AskedClaim(op=op, resource=one, effect="ask", policy="default", reason="")
        for one in resources
    )
    preview = Preview(kind="text", text=shown)
    return PermissionRequest(
        call_id="1", tool_name="bash", claims=claims, preview=preview, cwd="/w"
    )


@pytest.mark.parametrize(
    ("answer", "kind", "reason"),
    [
        ("ALLOW", "allow", ""),
        ("  **ALLOW**\n", "allow", ""),
        ("ALLOW: an ordinary build", "allow", ""),
        ("DENY: it deletes\n work\n\nAnd more.", "deny", "it deletes work"),
        ("DENY", "deny", "the judge gave no reason"),
        ("ALLOW\nDENY: no", "unclear", "the judge said both ALLOW and DENY"),
        ("ALLOWED", "unclear", "the judge's answer cannot be read: 'ALLOWED'"),
        (
            "I would ALLOW this",
            "unclear",
            "the judge's answer cannot be read: 'I would ALLOW this'",
        ),
        ("", "unclear", "the judge's answer cannot be read: ''"),
    ],
)
def test_judge_verdict_is_allow_only_for_unambiguous_allow(
    answer: str, kind: str, reason: str
) -> None:
    verdict = parse_verdict(answer)

    assert (verdict.kind, verdict.reason) == (kind, reason)


@given(st.text() | st.text("ALOWDENY: \n*").map(lambda text: f"ALLOW{text}"))
def test_judge_answer_that_contains_deny_never_allows(answer: str) -> None:
    verdict = parse_verdict(answer)

    assert verdict.kind != "allow" or (
        "ALLOW" in answer[:200].lstrip() and "DENY" not in answer.split()
    )
    assert "\n" not in verdict.reason


@given(st.text())
def test_judge_prompt_quotes_hostile_call_as_json(hostile: str) -> None:
    request = asked("execute", hostile, shown=hostile)

    line, _, data = judge_prompt(request, hostile).partition("\n")

    assert line == "----"
    assert json.loads(data)["would do"] == [f"execute:{hostile}"]


def test_judge_prompt_says_how_much_was_left_out() -> None:
    long = judge_prompt(asked("execute", "x" * 40_000), "")

    assert f"{len('execute:') + 8000} characters left out" in long
    assert "left out" not in judge_prompt(asked("execute", "make"), "a command that can do more")
    assert "6 more left out" in judge_prompt(asked("edit", *map(str, range(70))), "")
