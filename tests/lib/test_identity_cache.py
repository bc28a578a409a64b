from dirge_py.lib import identity_cache
from dirge_py.lib.identity_cache import IdentityCache


def test_value_is_computed_once_per_object_not_per_equal_value():
    made = []
    length = IdentityCache(lambda of: made.append(of) or len(of))
    one, other = {"a": 1}, {"a": 1}

    assert [length(one), length(one), length(other)] == [1, 1, 1]
    assert len(made) == 2


def test_full_cache_drops_the_oldest_entry(monkeypatch):
    monkeypatch.setattr(identity_cache, "_MOST", 2)
    made = []
    note = IdentityCache(lambda of: made.append(of[0]))
    lists = [[0], [1], [2]]

    for each in (*lists, lists[2], lists[0]):
        note(each)

    assert made == [0, 1, 2, 0]
