from dirge_py.lib import identity_cache
from dirge_py.lib.identity_cache import IdentityCache


def test_it_is_made_once_for_an_object_and_anew_for_an_equal_one():
    made = []
    length = IdentityCache(lambda of: made.append(of) or len(of))
    one, other = {"a": 1}, {"a": 1}

    assert [length(one), length(one), length(other)] == [1, 1, 1]
    assert len(made) == 2


def test_the_oldest_is_let_go(monkeypatch):
    monkeypatch.setattr(identity_cache, "_MOST", 2)
    made = []
    note = IdentityCache(lambda of: made.append(of[0]))
    lists = [[0], [1], [2]]

    for each in (*lists, lists[2], lists[0]):
        note(each)

    assert made == [0, 1, 2, 0]
