from hypothesis import given
from hypothesis import strategies as st

from dirge_py.providers.ollama import OllamaParser
from dirge_py.types.llm import ToolCallDelta

IDS = st.sampled_from(["", "a", "b", "call_new", "call_new1"])


def free_ids(taken, given_ids):
    """The ids of calls that a service sends with `given_ids`."""
    parser = OllamaParser(frozenset(taken), "new")
    calls = [
        {"id": each, "function": {"name": "read", "arguments": {"n": n}}}
        for n, each in enumerate(given_ids)
    ]
    events = parser.event("", {"message": {"tool_calls": calls}})
    return [event.id for event in events if isinstance(event, ToolCallDelta)]


@given(st.sets(IDS), st.lists(IDS, max_size=8))
def test_tool_call_ids_are_unique(taken, given_ids):
    free = free_ids(taken, given_ids)

    assert len(set(free)) == len(free) == len(given_ids)
    assert not taken.intersection(free)
    assert "" not in free


def test_tool_call_id_from_service_is_kept_if_unused():
    free = free_ids({"old"}, ["a", "old", "a", ""])

    assert free == ["a", "call_new", "call_new1", "call_new2"]
