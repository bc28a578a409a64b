import pytest

from dirge_py.lib.nearest import nearest


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
