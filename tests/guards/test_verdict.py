"""Case 107: lenient parsing of a judge's verdict."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.guards.judge import SEVERITIES, ReviewFinding, RunVerdict, parse_goal, parse_verdict
from tests.security.sizes import size


def kind(answer):
    return parse_verdict(answer).kind


def severities(answer):
    return [each.severity for each in parse_verdict(answer).findings]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("COMPLETE", "complete"),
        ("INCOMPLETE\n- tests", "incomplete"),
        ("\n\n  **Incomplete**: the tests\n", "incomplete"),
        ("```\nINCOMPLETE\n- a\n```", "incomplete"),
        ("INCOMPLETE or ABSTAIN", "incomplete"),
        ("ABSTAIN, else INCOMPLETE", "incomplete"),
        ("ABSTAIN", "abstain"),
        ("INSUFFICIENT evidence", "abstain"),
        ("insufficiently known", "abstain"),
        ("COMPLETE\nINCOMPLETE", "complete"),
        ("", "complete"),
        ("  \n \n", "complete"),
        ("???", "complete"),
        ("I am not sure about this one.", "complete"),
    ],
)
def test_case_107_first_line_decides_the_verdict_and_unclear_is_complete(answer, expected):
    assert kind(answer) == expected


def test_case_107_missing_items_follow_the_verdict():
    assert parse_verdict("INCOMPLETE: no tests\n- no docs\n\nFINDINGS\n[low] x").missing == (
        "no tests\n- no docs"
    )
    assert parse_verdict("Verdict: INCOMPLETE").missing == ""
    assert parse_verdict("COMPLETE\n- but no tests").missing == ""


def test_case_107_findings_are_sorted_by_severity():
    answer = """COMPLETE
FINDINGS
[low] a.py:1: a name
---
[CRITICAL] b.py:2: loses data
the file is cut before it is read
---
**High**: c.py:3: off by one
---
- Severity: medium: d.py:4: slow
"""
    assert parse_verdict(answer) == RunVerdict(
        kind="complete",
        findings=(
            ReviewFinding(
                severity="critical", text="b.py:2: loses data\nthe file is cut before it is read"
            ),
            ReviewFinding(severity="high", text="c.py:3: off by one"),
            ReviewFinding(severity="medium", text="d.py:4: slow"),
            ReviewFinding(severity="low", text="a.py:1: a name"),
        ),
    )


@pytest.mark.parametrize("heading", ["FINDINGS", "## Findings", "**Findings:**", "finding"])
def test_case_107_findings_heading_can_be_formatted(heading):
    assert severities(f"COMPLETE\n{heading}\n[high] a") == ["high"]


def test_case_107_lines_before_the_findings_heading_are_not_findings():
    assert severities("COMPLETE\n[high] a\nThe findings are below.\n[low] b") == []


@pytest.mark.parametrize(
    "line",
    [
        "high-level overview of the change",
        "High quality work, nothing to add.",
        "critical/high = must fix, medium/low = optional",
        "[critical|high|medium|low] what it means",
        "[HIGH] = must fix",
        "high, medium: optional",
        "No findings.",
        "none",
        "[high]",
        "highly unlikely: a crash",
        "",
    ],
)
def test_case_107_legends_and_prose_are_not_findings(line):
    assert severities(f"COMPLETE\nFINDINGS\n{line}") == []


@pytest.mark.parametrize(
    "line",
    [
        "[high] /src/a.py:1: broken",
        "[high] low memory ends it",
        "1. [High] - broken",
        "(high) broken",
        "`high`: broken",
        "high - broken",
        "High\nbroken",
        "An introduction.\n[high] broken",
        "critical/high = must fix\n[high] broken",
    ],
)
def test_case_107_line_with_a_severity_label_is_a_finding(line):
    assert severities(f"COMPLETE\nFINDINGS\n{line}\n---\n---\n") == ["high"]


@pytest.mark.parametrize(
    ("answer", "remaining"),
    [
        ("MET", None),
        ("UNMET\n- the docs\n- the tests", "- the docs\n- the tests"),
        ("**UNMET**: the docs", "the docs"),
        ("Goal: unmet", "no detail"),
        ("NOT MET. No tests.", "No tests."),
        ("unmet", "no detail"),
        ("", None),
        ("MET\nUNMET", None),
        ("It is hard to say whether it is UNMET.", None),
        ("unmetered", None),
    ],
)
def test_case_108_only_a_clear_unmet_verdict_is_unmet(answer, remaining):
    assert parse_goal(answer) == remaining


PIECES = [
    "INCOMPLETE", "ABSTAIN", "INSUFFICIENT", "COMPLETE", "MET", "UNMET", "FINDINGS", "findings:",
    "---", "***", "high", "low", "[high] ", "severity: ", "critical", "medium:", "\n", "\n\n", " ",
    "#", "**", "|", "=", "é", "\0", "```", "\r\n", "\u2028",
]  # fmt: skip


@settings(max_examples=size(66, 200))
@given(st.one_of(st.lists(st.sampled_from(PIECES)).map("".join), st.text()))
def test_case_107_any_text_parses_to_a_valid_verdict(answer):
    verdict = parse_verdict(answer)
    assert all(each.text.strip() for each in verdict.findings)
    ranks = [SEVERITIES.index(each.severity) for each in verdict.findings]
    assert ranks == sorted(ranks)
    assert verdict.kind == "incomplete" or not verdict.missing
    remaining = parse_goal(answer)
    assert remaining is None or remaining.strip()


@settings(max_examples=size(33, 100))
@given(
    st.lists(st.tuples(st.sampled_from(SEVERITIES), st.from_regex(r"[a-z]{1,9}", fullmatch=True)))
)
def test_case_107_written_findings_are_parsed_back(findings):
    blocks = "\n---\n".join(f"[{severity}] {text}" for severity, text in findings)
    read = parse_verdict(f"COMPLETE\nFINDINGS\n{blocks}").findings
    assert [(each.severity, each.text) for each in read] == sorted(
        findings, key=lambda each: SEVERITIES.index(each[0])
    )
