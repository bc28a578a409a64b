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
def test_values_go_into_their_places_and_everything_else_stays(template: str, filled: str) -> None:
    values = {"REQUEST": "add caching, then {{FINDINGS}}", "FINDINGS": "<found>"}
    assert fill_template(template, values) == filled


PIECES = st.lists(st.sampled_from(["{{A}}", "{{B}}", "{{", "}}", "A", "B", "{", "\ud800"]))


@given(PIECES.map("".join), PIECES.map("".join), PIECES.map("".join))
def test_what_a_value_holds_is_never_looked_at_again(template: str, one: str, two: str) -> None:
    # Values that hold no places give the same text, with these in the places of those.
    marked = fill_template(template, {"A": "\x01", "B": "\x02"})
    assert fill_template(template, {"A": one, "B": two}) == "".join(
        {"\x01": one, "\x02": two}.get(char, char) for char in marked
    )
