import json
import os
import random
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.session.history import SessionSpending
from dirge_py.session.index import session_index
from dirge_py.session.index.session_index import SearchQuery, SessionIndex
from dirge_py.session.index.sources import SessionTotals
from dirge_py.session.journal import read_journal
from dirge_py.session.store import Store
from dirge_py.types.errors import UsageError
from dirge_py.types.messages import Usage
from tests.security.sizes import count, size
from tests.session.conftest import Clock
from tests.support.stored_sessions import exchange, record, tool_use

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(__file__))))


def snippets(found):
    return [(one.session_id, one.kind, one.snippet) for one in found]


def answers(index):
    return index.sessions(everywhere=True), index.search(["alpha"], everywhere=True)


@pytest.fixture
def filled(store, index):
    record(store, "one", exchange("fix the alpha parser", "It was the beta."))
    record(store, "two", [*exchange("say hello", "Hello."), *tool_use("c1", "make alpha", "done")])
    return index


def test_index_lists_session_with_tokens_and_cost(store, index):
    record(store, "s", [*exchange("fix it", "Done."), *exchange("and that", "Done.")])

    (one,) = index.sessions()

    assert (one.id, one.title, one.model, one.messages) == ("s", "fix it", "work/m", 4)
    assert one.usage == Usage(input=200, output=40, cache_read=80)
    assert one.cost_usd == pytest.approx(0.02)


def test_one_unknown_price_makes_listed_cost_unknown(store, index):
    record(store, "s", exchange("a", "b"))
    record(store, "s", exchange("c", "d"), cost=None)

    (one,) = index.sessions()

    assert one.cost_usd is None


def test_index_lists_last_used_session_first(store, filled):
    record(store, "one", exchange("again", "Yes."))

    assert [one.id for one in filled.sessions()] == ["one", "two"]


def test_index_list_matches_list_from_journals(store, filled):
    listed = [replace(one, usage=None, cost_usd=None) for one in filled.sessions()]

    assert [(o.id, o.title, o.started, o.updated, o.messages, o.cwd, o.model) for o in listed] == [
        (o.id, o.title, o.started, o.updated, o.messages, o.cwd, o.model) for o in store.list()
    ]


def test_search_finds_words_in_prompts_answers_calls_and_titles(filled):
    assert snippets(filled.search(["alpha"])) == [
        ("two", "call", "bash make alpha"),
        ("one", "prompt", "fix the alpha parser"),
        ("one", "title", "fix the alpha parser"),
    ]
    assert snippets(filled.search(["BETA"])) == [("one", "answer", "It was the beta.")]


def test_search_matches_are_marked_at_their_positions(filled):
    (one,) = filled.search(["beta"])

    assert [one.snippet[start:end] for start, end in one.matches] == ["beta"]


def test_search_match_ignores_accents():
    match = SearchQuery(["cafe"]).match(
        "the café", project="p", session_id="s", seq=1, at="", kind="prompt"
    )

    assert [match.snippet[start:end] for start, end in match.matches] == ["café"]


def test_search_requires_all_words_in_one_text(filled):
    assert filled.search(["alpha", "beta"]) == []
    assert len(filled.search(["alpha", "pars"])) == 2


def test_search_treats_quotes_and_operators_as_plain_words(filled):
    for hostile in ('"', '"alpha', "alpha*", "NOT alpha", "alpha OR", "text:alpha", "(alpha"):
        if hostile == '"':
            with pytest.raises(UsageError, match="search has no words"):
                filled.search([hostile])
        else:
            filled.search([hostile])
    assert filled.search(["NOT alpha"]) == []


def test_index_reads_only_new_records_of_growing_session(store, filled, monkeypatch):
    filled.sessions()
    wholly_read = []
    monkeypatch.setattr(session_index, "read_whole", lambda *args: wholly_read.append(args))
    record(store, "one", exchange("what about gamma", "Nothing."))

    found = filled.search(["gamma"])

    assert [one.kind for one in found] == ["prompt"]
    assert filled.sessions()[0].messages == 4
    assert wholly_read == []


def test_index_counts_segments_with_their_session(store, filled):
    first = store.folder / "one.jsonl"
    lines = first.read_bytes().splitlines(keepends=True)
    filled.sessions()
    first.write_bytes(b"".join(lines[:-3]))
    (store.folder / "one").mkdir(exist_ok=True)
    (store.folder / "one/0002.jsonl").write_bytes(b"".join(lines[-3:]))

    again = {one.id: one for one in filled.sessions()}

    assert again["one"].messages == 2
    assert again["one"].cost_usd == pytest.approx(0.01)
    assert [one.session_id for one in filled.search(["beta"])] == ["one"]


def test_search_finds_beginning_of_long_tool_result(store, index, monkeypatch):
    output = "omega at the top\n" + "more of it\n" * 5000 + "sigma at the end"
    record(store, "s", tool_use("c1", "make", "short"))
    index.sessions()
    record(store, "s", tool_use("c2", "make", output))

    assert [one.kind for one in index.search(["omega"])] == ["result"]
    assert index.search(["sigma"]) == []
    assert list((store.folder / "s/blobs").iterdir())
    monkeypatch.setitem(sys.modules, "sqlite3", None)
    assert [one.kind for one in index.search(["omega"])] == ["result"]


def test_search_does_not_find_text_of_deleted_session(store, filled):
    filled.sessions()
    (store.folder / "one.jsonl").unlink()

    assert [one.id for one in filled.sessions()] == ["two"]
    assert filled.search(["beta"]) == []


def test_index_rereads_rewritten_journal(store, filled):
    filled.sessions()
    path = store.folder / "one.jsonl"
    path.unlink()
    record(store, "one", exchange("quite another thing", "Yes."))

    assert {one.title for one in filled.sessions()} == {"quite another thing", "say hello"}
    assert filled.search(["beta"]) == []


def test_index_adds_partly_written_line_once_it_is_complete(store, filled):
    path = store.folder / "one.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:-30])
    assert filled.search(["beta"])
    with path.open("ab") as file:
        file.write(whole[-30:])

    listed = {one.id: one for one in filled.sessions()}

    assert listed["one"].cost_usd == pytest.approx(0.01)


def test_sessions_of_other_projects_are_listed_only_with_everywhere(store, filled, tmp_path, clock):
    (tmp_path / "elsewhere").mkdir()
    other = Store(tmp_path / "state", tmp_path / "elsewhere", clock=clock)
    record(other, "theirs", exchange("the alpha of others", "No."))

    assert {one.id for one in filled.sessions()} == {"one", "two"}
    assert {one.id for one in filled.sessions(everywhere=True)} == {"one", "two", "theirs"}
    assert {one.session_id for one in filled.search(["others"], everywhere=True)} == {"theirs"}
    assert filled.search(["others"]) == []


def test_index_without_sessions_is_empty_and_creates_no_file(index, tmp_path):
    assert answers(index) == ([], [])
    assert not (tmp_path / "state").exists()


def test_index_files_are_private_to_owner(filled, tmp_path):
    filled.sessions()

    for path in (tmp_path / "state").glob("index*"):
        assert path.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "state/index.sqlite").exists()


def test_damaged_index_file_never_changes_results(filled, tmp_path):
    path = tmp_path / "state/index.sqlite"
    expected = answers(filled)
    tries = size(12, 500)
    chance = random.Random(7)
    wrong = 0
    for _ in range(tries):
        stored = bytearray(path.read_bytes())
        for _ in range(chance.randint(1, 20)):
            stored[chance.randrange(len(stored))] = chance.randrange(256)
        path.write_bytes(stored[: chance.choice([len(stored), chance.randrange(len(stored))])])
        wrong += answers(filled) != expected
    count("damaged index", tries, wrong, of="wrong answers")
    assert wrong == 0


def test_index_of_another_version_is_rebuilt(filled, tmp_path, monkeypatch):
    expected = answers(filled)
    monkeypatch.setattr(session_index, "_VERSION", 99)

    assert answers(filled) == expected


def test_garbage_stale_log_or_folder_in_place_of_index_does_not_change_results(filled, tmp_path):
    expected = answers(filled)
    path = tmp_path / "state/index.sqlite"
    path.write_bytes(b"no database")
    assert answers(filled) == expected
    (tmp_path / "state/index.sqlite-wal").write_bytes(os.urandom(5000))
    assert answers(filled) == expected
    path.unlink()
    path.mkdir()
    assert [one.id for one in filled.sessions()] == [one.id for one in expected[0]]
    assert filled.search(["alpha"]) == expected[1]


@pytest.mark.parametrize("is_built_with", [True, False])
def test_journals_are_searched_without_sqlite_or_its_full_text_search(
    filled, tmp_path, monkeypatch, is_built_with
):
    sessions, found = answers(filled)
    if is_built_with:
        session_index.remove_database(tmp_path / "state/index.sqlite")
        tables = session_index._TABLES.replace("fts5", "absent")
        monkeypatch.setattr(session_index, "_TABLES", tables)
    else:
        monkeypatch.setitem(sys.modules, "sqlite3", None)

    assert answers(filled) == ([replace(o, usage=None, cost_usd=None) for o in sessions], found)


def test_journals_are_searched_while_index_lock_is_held(filled, tmp_path, monkeypatch):
    sessions, found = answers(filled)
    monkeypatch.setattr("dirge_py.session.index.session_index._LOCK_TIMEOUT_S", 0.0)
    holder = subprocess.Popen(
        ["flock", str(tmp_path / "state/index.lock"), "sh", "-c", "echo held; cat"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert holder.stdout.readline() == b"held\n"
        assert answers(filled) == ([replace(o, usage=None, cost_usd=None) for o in sessions], found)
    finally:
        holder.communicate()


ASK = """
import sys
from pathlib import Path
from dirge_py.session.index.session_index import SessionIndex
index = SessionIndex(Path(sys.argv[1]), sys.argv[2])
for _ in range(10):
    sessions = [(one.id, one.cost_usd is None) for one in index.sessions()]
    print(sessions, len(index.search(["alpha"])))
"""


def test_two_processes_using_index_at_once_get_same_results(store, filled, tmp_path):
    started = [
        subprocess.Popen(
            [sys.executable, "-c", ASK, str(tmp_path / "state"), store.folder.name],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for _ in range(2)
    ]

    outputs = [child.communicate(timeout=60)[0].splitlines() for child in started]

    assert set(outputs[0] + outputs[1]) == {"[('two', False), ('one', False)] 3"}
    assert len(outputs[0] + outputs[1]) == 20


def test_rebuilding_index_returns_number_of_sessions(filled):
    assert filled.rebuild() == 2
    assert len(filled.sessions()) == 2


MESSAGES = st.lists(
    st.one_of(
        st.builds(exchange, st.text(max_size=20), st.text(max_size=20)),
        st.builds(tool_use, st.just("c"), st.text(max_size=20), st.text(max_size=20)),
    ),
    max_size=4,
).map(lambda parts: [message for part in parts for message in part])


@settings(max_examples=size(12, 400), deadline=None)
@given(st.lists(st.tuples(MESSAGES, st.one_of(st.none(), st.just(0.5))), min_size=1, max_size=3))
def test_index_updated_run_by_run_matches_complete_journal(tmp_path_factory, runs):
    root = tmp_path_factory.mktemp("state")
    store = Store(root, root, clock=Clock())
    index = SessionIndex(root, store.folder.name)
    for messages, cost in runs:
        record(store, "s", messages, cost=cost)
        index.sessions()
    listed = index.sessions()
    if not listed:
        assert not (store.folder / "s.jsonl").exists()
        return

    loaded = store.read("s")
    (one,) = listed
    description = loaded.description
    assert (one.title, one.cwd) == (description.title, description.cwd)
    assert one.model == loaded.choices.model
    assert (one.usage, one.cost_usd) == (loaded.usage, loaded.cost_usd)
    assert (
        one.updated.isoformat(timespec="milliseconds").replace("+00:00", "Z") == description.updated
    )
    assert one.messages == sum(r.type == "message" for r in store.events_since("s", 0))


@given(
    st.builds(
        SessionTotals,
        title=st.text(),
        messages=st.integers(0),
        spending=st.builds(
            SessionSpending,
            usage=st.builds(Usage, input=st.integers(0)),
            unpriced=st.builds(Usage, output=st.integers(0)),
            cost_usd=st.none() | st.floats(0, 1e6),
            turns=st.integers(0),
        ),
    )
)
def test_session_totals_survive_json_encoding(tally):
    assert SessionTotals.from_json(json.loads(tally.as_json())) == tally


def test_rebuilding_index_changes_no_journal(store, filled):
    before = {path: path.read_bytes() for path in store.folder.rglob("*.jsonl")}
    filled.rebuild()

    assert {path: path.read_bytes() for path in store.folder.rglob("*.jsonl")} == before
    assert read_journal(store.folder / "one.jsonl").damage == []
