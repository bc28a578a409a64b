"""Templates with placeholders."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirge_py.plan.phases import fill_template


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        ("do {{REQUEST}} by {{FINDINGS}}", "do add caching, then {{FINDINGS}} by <found>"),
        ("{{FINDINGS}}{{FINDINGS}}", "<found><found>"),
        ("{{OTHER}} {{FINDINGS}}", "{{OTHER}} <found>"),
        ("{{FINDINGS} and {{FINDINGS", "{{FINDINGS} and {{FINDINGS"),
        ("{{ FINDINGS }} {{findings}}", "{{ FINDINGS }} {{findings}}"),
        ("{{}} {FINDINGS}", "{{}} {FINDINGS}"),
        ("{{{FINDINGS}}}", "{<found>}"),
        ("{{OPEN {{FINDINGS}}", "{{OPEN <found>"),
        ("", ""),
    ],
)
def test_fill_template_replaces_known_placeholders_only(template: str, filled: str) -> None:
    values = {"REQUEST": "add caching, then {{FINDINGS}}", "FINDINGS": "<found>"}
    assert fill_template(template, values) == filled


PIECES = st.lists(st.sampled_from(["{{A}}", "{{B}}", "{{", "}}", "A", "B", "{", "\ud800"]))


@given(PIECES.map("".join), PIECES.map("".join), PIECES.map("".join))
def test_placeholders_inside_values_are_not_replaced(template: str, one: str, two: str) -> None:
    # Markers without placeholders give the same text once they are replaced by the values.
    marked = fill_template(template, {"A": "\x01", "B": "\x02"})
    assert fill_template(template, {"A": one, "B": two}) == "".join(
        {"\x01": one, "\x02": two}.get(char, char) for char in marked
    )
