from hypothesis import given
from hypothesis import strategies as st

from dirge_py.providers.stream_parser import CallIdAllocator

IDS = st.sampled_from(["", "a", "b", "new", "new1"])


@given(st.sets(IDS), st.lists(IDS, max_size=8))
def test_no_id_is_given_to_two_calls(taken, given_ids):
    ids = CallIdAllocator(taken, "new")
    free = [ids.free(each) for each in given_ids]

    assert len(set(free)) == len(free)
    assert not taken.intersection(free)
    assert "" not in free


def test_an_id_of_the_service_s_own_is_kept_the_first_time():
    ids = CallIdAllocator({"old"}, "new")

    assert [ids.free(each) for each in ("a", "old", "a", "")] == ["a", "new", "new1", "new2"]
