"""The reviewer's verdict: anything but a clear DONE is not done."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirge_py.plan.verdict import ChecklistItem, ReviewVerdict, parse_verdict

CHECKLIST = [{"requirement": "it adds", "status": "verified", "evidence": "pytest -q"}]
ITEM = ChecklistItem(requirement="it adds", status="verified", evidence=("pytest -q",))


def block(value: object, tag: str = "json") -> str:
    return f"```{tag}\n{json.dumps(value)}\n```"


def done(**changes: Any) -> dict[str, Any]:
    return {"verdict": "DONE", "checklist": CHECKLIST, "missing": ""} | changes


def fix(missing: Any = "two cases") -> dict[str, Any]:
    return {"verdict": "NEEDS_FIX", "checklist": "", "missing": missing}


def is_done(text: str) -> bool:
    verdict = parse_verdict(text)
    return isinstance(verdict, ReviewVerdict) and verdict.is_done


def test_verdict_block_after_prose_is_parsed() -> None:
    assert parse_verdict("All of it works.\n\n" + block(done()) + "\n \n") == ReviewVerdict(
        is_done=True, checklist=(ITEM,)
    )
    assert parse_verdict(block(fix())) == ReviewVerdict(
        is_done=False, is_itemised=False, missing="two cases"
    )


@pytest.mark.parametrize(
    ("missing", "expected"),
    [
        ("  one \n", "one"),
        (["one", " ", "two\n"], "- one\n- two"),
        ([], ""),
        ([{"file": "a.py"}], '- {"file": "a.py"}'),
        (None, ""),
        ("None.", ""),
        (7, "7"),
    ],
)
def test_missing_work_of_verdict_is_converted_to_text(missing: Any, expected: str) -> None:
    verdict = parse_verdict(block(fix(missing)))
    assert isinstance(verdict, ReviewVerdict)
    assert (verdict.is_done, verdict.missing) == (False, expected)


@pytest.mark.parametrize("missing", ["one", ["one"], {}, 0, False, [0], {"a": 1}])
def test_done_with_something_missing_is_not_done(missing: Any) -> None:
    verdict = parse_verdict(block(done(missing=missing)))
    assert isinstance(verdict, ReviewVerdict)
    assert not verdict.is_done
    assert verdict.missing


FORMS = {
    "nothing": "",
    "prose": "Everything is verified. Verdict: DONE",
    "bare JSON": json.dumps(done()),
    "untagged": block(done(), ""),
    "upper-case tag": block(done(), "JSON"),
    "another tag": block(done(), "json5"),
    "tag with extra words": block(done(), "json verdict"),
    "tildes": block(done()).replace("```", "~~~"),
    "one line": f"```json {json.dumps(done())} ```",
    "block inside a line": "Verdict: " + block(done()),
    "indented as code": "    " + block(done()).replace("\n", "\n    "),
    "empty block": "```json\n",
    "unclosed": block(done()).removesuffix("```"),
    "last block unclosed": block(done()) + "\n```json\n" + json.dumps(done()),
    "closing fence too short": "`" + block(done()),
    "text after the block": block(done()) + "\nAnd that is that.",
    "another block after it": block(done()) + "\n```sh\nmake\n```",
    "an example within a larger fence": f"````\n{block(done())}\n````",
    "not valid": "```json\n{'verdict': 'DONE'}\n```",
    "truncated": "```json\n" + json.dumps(done())[:-1] + "\n```",
    "two JSON values": f"```json\n{json.dumps(done())}{json.dumps(done())}\n```",
    "raw line break in a string": '```json\n{"verdict":"DONE","checklist":"a\nb"}\n```',
    "member twice": '```json\n{"verdict":"NEEDS_FIX","verdict":"DONE","checklist":"a"}\n```',
    "not an object": block(["DONE"]),
    "a string": block("DONE"),
    "no verdict": block({"checklist": "a", "missing": ""}),
    "verdict in lower case": block(done(verdict="done")),
    "unknown verdict": block(done(verdict="PASS")),
    "verdict with spaces": block(done(verdict="DONE ")),
    "not a string": block(done(verdict=True)),
    "a list": block(done(verdict=["DONE"])),
    "an object": block(done(verdict={})),
    "empty checklist": block(done(checklist=" \n-\n")),
    "no checklist": block({"verdict": "DONE", "missing": ""}),
    "checklist of another kind": block(done(checklist={"it adds": "pytest"})),
    "item without requirement": block(done(checklist=[{"status": "verified"}])),
    "item of another kind": block(done(checklist=[*CHECKLIST, 7])),
    "item with another status": block(done(checklist=[{"requirement": "a", "status": "ok"}])),
    "prose for an empty list": block(done(missing="None")),
    "earlier block that differs": block(fix()) + "\n" + block(done()),
    "earlier block that is not valid": '```json\n{"verdict": NEEDS_FIX}\n```\n' + block(done()),
    "NUL inside": block(done()).replace("it adds", "it\0adds"),
    "NUL after it": block(done()) + "\0",
    "endless nesting": "```json\n" + "[" * 100_000 + "\n```",
    "a huge number": '```json\n{"verdict": ' + "9" * 10_000 + "}\n```",
    "huge text": "DONE " * 100_000,
    "many opening fences": '```json\n{"a": "' * 20_000,
}


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS.keys())
def test_text_without_complete_verdict_block_at_end_is_rejected(text: str) -> None:
    problem = parse_verdict(text)
    assert isinstance(problem, str)
    assert problem and not problem.endswith(".")


def test_last_verdict_block_counts_and_done_requires_all_blocks_to_agree() -> None:
    verdict = parse_verdict(block(done()) + "\n" + block(fix()))
    assert isinstance(verdict, ReviewVerdict)
    assert (verdict.is_done, verdict.missing) == (False, "two cases")
    assert is_done(block(done()) + "\nAgain:\n" + block(done()))
    assert is_done(block({"name": "a package"}) + "\n" + block(done()))


def test_backticks_in_strings_do_not_end_verdict_block() -> None:
    words = "fence ```json\n{}\n``` and ```"
    verdict = parse_verdict(block(fix(words)))
    assert isinstance(verdict, ReviewVerdict)
    assert verdict.missing == words
    assert is_done("````json\n" + json.dumps(done()) + "\n````")


def test_verdict_with_crlf_or_lone_surrogates_is_parsed() -> None:
    assert is_done(block(done()).replace("\n", "\r\n"))
    verdict = parse_verdict('```json\n{"verdict": "NEEDS_FIX", "missing": "\ud800"}\n```')
    assert verdict == ReviewVerdict(is_done=False, is_itemised=False, missing="\ud800")


def test_deeply_nested_verdict_raises_no_error() -> None:
    for depth in range(100, 1_100, 7):
        nested = "[" * depth + "]" * depth
        assert not is_done('```json\n{"verdict": "DONE", "missing": ' + nested + "}\n```")


def test_plain_text_checklist_has_one_item_per_line() -> None:
    verdict = parse_verdict(block(done(checklist="- one\n\n2. two\n- [ ] three\n✅ four")))
    assert verdict == ReviewVerdict(
        is_done=True,
        is_itemised=False,
        checklist=(
            ChecklistItem(requirement="one", status="verified"),
            ChecklistItem(requirement="two", status="verified"),
            ChecklistItem(requirement="three", status="not_verified"),
            ChecklistItem(requirement="four", status="verified"),
        ),
    )
    same = parse_verdict(block(done(checklist=["one", "two", "[ ] three", "✅ four"])))
    assert same == verdict


def test_unmarked_checklist_lines_of_needs_fix_are_not_verified() -> None:
    verdict = parse_verdict(block(fix() | {"checklist": "one\n[x] two"}))
    assert isinstance(verdict, ReviewVerdict)
    assert [item.status for item in verdict.checklist] == ["not_verified", "verified"]


def test_checklist_item_without_evidence_is_not_verified() -> None:
    verdict = parse_verdict(block(done(checklist=[*CHECKLIST, "and subtracts"])))
    assert isinstance(verdict, ReviewVerdict)
    assert [item.status for item in verdict.checklist] == ["verified", "not_verified"]


def test_malformed_checklist_items_of_needs_fix_are_not_verified() -> None:
    entries = [{"requirement": "a", "status": "ok", "evidence": ["x", 1]}, {"status": "verified"}]
    verdict = parse_verdict(block(fix() | {"checklist": entries}))
    assert isinstance(verdict, ReviewVerdict)
    assert verdict.checklist == (
        ChecklistItem(requirement="a", status="not_verified", evidence=("x",)),
    )


PIECES = st.sampled_from(
    ["```json\n", "```", "\n", "DONE", "}", '"', block(done()), block(fix()), block(done())[:40]]
)


@given(st.lists(PIECES | st.text(max_size=20), max_size=12).map("".join))
def test_text_is_done_only_if_it_ends_with_done_block(text: str) -> None:
    if is_done(text):
        body = text.rstrip().rpartition("```json\n")[2]
        assert text.rstrip().endswith("```")
        assert json.loads(body.rstrip("`"))["verdict"] == "DONE"


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5))
def test_done_with_any_missing_value_is_done_only_if_value_is_empty(missing: Any) -> None:
    if is_done(block(done(missing=missing))):
        assert missing is None or not "".join(missing).strip()
