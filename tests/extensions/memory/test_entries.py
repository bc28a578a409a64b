"""Entries of a memory file, compared with a list of strings."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from dirge_py.extensions.memory.store import (
    add_entry,
    as_entry,
    matching_entries,
    nearest_entries,
    remove_entries,
    replace_entries,
    split_entries,
)

TEXTS = st.text(alphabet="ab- *#\n\tZ", max_size=40)
WORDS = st.sampled_from(["tabs", "spaces", "make", "pytest", "ä"])
FACTS = st.lists(WORDS, min_size=1, max_size=4).map(" ".join)


@dataclass
class Change:
    action: str
    content: str
    match: str


CHANGES = st.lists(
    st.builds(
        Change, st.sampled_from(["add", "replace", "remove"]), FACTS, WORDS.map(lambda w: w[0])
    )
)


@given(TEXTS)
def test_joined_memory_entries_are_the_original_text(text: str) -> None:
    assert "".join(split_entries(text)) == text


@given(TEXTS, TEXTS)
def test_adding_an_entry_keeps_all_existing_lines(text: str, content: str) -> None:
    if as_entry(content):
        assert add_entry(text, content).startswith(text)


@given(CHANGES)
def test_memory_changes_match_the_same_changes_on_a_list(changes: list[Change]) -> None:
    text, model = "", list[str]()
    for change in changes:
        if change.action == "add":
            text = add_entry(text, change.content)
            model += [] if change.content in model else [change.content]
        elif change.action == "remove":
            text = remove_entries(text, change.match)
            model = [fact for fact in model if change.match not in fact]
        else:
            held = [at for at, fact in enumerate(model) if change.match in fact]
            assert matching_entries(text, change.match) == held
            if held:
                text = replace_entries(text, change.match, change.content)
                model[held[0]] = change.content
                model = [fact for at, fact in enumerate(model) if at not in held[1:]]
    assert text == "".join(f"- {fact}\n" for fact in model)


def test_list_item_includes_its_indented_lines() -> None:
    text = "# Notes\n- build\n  with make\n- test\n\nfree words\n"

    assert remove_entries(text, "make") == "# Notes\n- test\n\nfree words\n"
    assert replace_entries(text, "build", "one\ntwo") == (
        "# Notes\n- one\n  two\n- test\n\nfree words\n"
    )


def test_list_items_and_headings_are_kept_as_written() -> None:
    assert as_entry("  - a\n\n- b ") == "- a\n- b"
    assert as_entry("## Build\nmake") == "## Build\nmake"


def test_entry_is_added_on_a_new_line_if_the_last_line_has_no_line_end() -> None:
    assert add_entry("- a", "b") == "- a\n- b\n"


def test_nearest_entries_are_sorted_by_similarity() -> None:
    text = "- the tests need docker\n- write in English\n- tests run with make test\n"

    assert nearest_entries(text, "tests run by make")[0] == "- tests run with make test"
    assert nearest_entries(text, "zzz") == []
