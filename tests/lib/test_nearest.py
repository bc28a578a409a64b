import pytest

from dirge_py.lib.nearest import is_one_edit, nearest


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("raed", ["read", "write"], "read"),
        ("Bash", ["bash"], "bash"),
        ("bash", ["bash"], None),
        ("search_filesystem", ["read", "find_files"], None),
        ("cat", ["bat", "car"], None),
        ("writ", ["write", "read"], "write"),
        ("zzzzzz", ["write", "read"], None),
        ("x", [], None),
    ],
)
def test_only_likely_typos_get_a_suggestion(name, known, meant):
    assert nearest(name, known) == meant


@pytest.mark.parametrize(
    ("typed", "is_near"),
    [
        ("confg", True),
        ("configs", True),
        ("cxnfig", True),
        ("cofnig", True),
        ("onfig", True),
        ("config", False),
        ("cnfg", False),
        ("figcon", False),
        ("", False),
    ],
)
def test_one_edit_is_one_letter_missing_added_wrong_or_swapped(typed: str, is_near: bool) -> None:
    assert is_one_edit(typed, "config") is is_near
