import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.lib.redaction import Redactor
from dirge_py.session.import_export.claude import read_claude
from dirge_py.session.import_export.codex import read_codex
from dirge_py.session.import_export.import_session import import_session, read_external
from dirge_py.session.index.session_index import SessionIndex
from dirge_py.session.recorder import Recorder
from dirge_py.session.store import Store
from dirge_py.types.errors import SessionError
from dirge_py.types.messages import (
    AssistantMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from tests.security.sizes import size
from tests.session.import_export import samples
from tests.session.import_export.samples import CLAUDE, CODEX, claude_line, claude_said, lines


def import_values(store, tmp_path, values, *, name="session.jsonl", program="auto"):
    path = tmp_path / name
    path.write_text(values if isinstance(values, str) else lines(values))
    found = read_external(path, program)
    session_id, is_known = import_session(found, store, redact=Redactor().redact)
    return SimpleNamespace(session_id=session_id, is_known=is_known, left_out=+found.left_out)


def summarize_messages(messages):
    """Each message in short form."""
    received = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            kinds = [
                f"{block.name}({json.dumps(block.arguments)})"
                if isinstance(block, ToolCallBlock)
                else f"{type(block).__name__}:{block.text}"
                for block in message.content
            ]
            received.append(("assistant", kinds))
        elif isinstance(message, ToolResultMessage):
            received.append((f"result of {message.tool_call_id}", message.text, message.is_error))
        elif isinstance(message, UserMessage):
            received.append((message.origin, message.text))
    return received


def test_claude_code_session_is_imported(store, tmp_path):
    imported = import_values(store, tmp_path, CLAUDE, name=f"{samples.CLAUDE_ID}.jsonl")

    loaded = store.read(imported.session_id)
    assert summarize_messages(loaded.messages) == [
        ("harness", "<local-command-caveat>…</local-command-caveat>"),
        ("user", "fix the login"),
        (
            "assistant",
            [
                "ThinkingBlock:Hm.",
                "TextBlock:I look.",
                'Bash({"command": "ls"})',
                'Bash({"command": "cat x"})',
            ],
        ),
        ("result of t1", "login.py", False),
        ("result of t2", "no such file", True),
        ("assistant", ["TextBlock:Fixed, with [redacted]."]),
    ]
    assert (loaded.description.title, loaded.description.cwd) == ("Login repair", "/home/me/shop")
    assert loaded.description.created == "2026-05-26T07:27:01.079Z"
    assert loaded.description.updated == "2026-05-26T07:27:10.079Z"
    assert loaded.usage == Usage(
        input=2 * 1104, output=9 + 5, cache_read=2 * 1000, cache_write=2 * 100
    )
    assert imported.left_out == {
        "lines of type 'moon-phase'": 1,
        "messages of abandoned branches": 1,
        "messages of sub-agents": 1,
    }


def test_imported_thinking_has_no_provider_signature(store, tmp_path):
    imported = import_values(store, tmp_path, CLAUDE)

    answer = store.read(imported.session_id).messages[2]

    assert answer.content[0] == ThinkingBlock(text="Hm.")
    assert "EqQB" not in (store.folder / f"{imported.session_id}.jsonl").read_text()


def test_codex_session_is_imported(store, tmp_path):
    imported = import_values(store, tmp_path, CODEX)

    loaded = store.read(imported.session_id)
    assert summarize_messages(loaded.messages) == [
        ("user", "list the files"),
        ("assistant", ["ThinkingBlock:**Listing**", 'shell({"command": ["bash", "-lc", "ls"]})']),
        ("result of call_1", "a.txt\n", False),
        ("assistant", ['apply_patch({"input": "*** Begin Patch"})']),
        ("result of call_2", "failed", True),
        ("assistant", ["TextBlock:There is a.txt."]),
    ]
    assert (loaded.description.title, loaded.description.cwd) == ("list the files", "/home/me/shop")
    assert loaded.usage == Usage(input=250, output=14, cache_read=80, reasoning=6)
    assert loaded.cost_usd is None
    assert imported.left_out == {
        "instructions of the program": 2,
        "items of type 'ghost_snapshot'": 1,
    }


def test_codex_items_without_envelope_are_imported(store, tmp_path):
    meta = {"id": samples.CODEX_ID, "timestamp": "2026-10-29T00:59:01Z", "instructions": None}
    items = [line["payload"] for line in CODEX if line["type"] == "response_item"]

    imported = import_values(store, tmp_path, [meta, {"record_type": "state"}, *items])

    assert len(store.read(imported.session_id).messages) == 6


def test_imported_session_header_names_program_and_original_id(store, tmp_path):
    imported = import_values(store, tmp_path, CODEX)

    header = store.events_since(imported.session_id, 0)[0]

    assert header.type == "session"
    assert header.data["imported_from"] == {"program": "codex", "session_id": samples.CODEX_ID}


def test_importing_same_session_twice_creates_one_session(store, tmp_path):
    first = import_values(store, tmp_path, CODEX)
    before = (store.folder / f"{first.session_id}.jsonl").read_bytes()

    again = import_values(store, tmp_path, CODEX, name="copy.jsonl")

    assert (again.session_id, again.is_known) == (first.session_id, True)
    assert (store.folder / f"{first.session_id}.jsonl").read_bytes() == before
    assert len(store.list()) == 1


def test_imported_session_loads_without_repairs_or_notices(store, tmp_path):
    imported = import_values(store, tmp_path, CODEX)

    recorder = Recorder(store.open(imported.session_id))
    loaded = recorder.load()
    recorder.close()

    assert (loaded.healed, loaded.open_calls, loaded.interruption) == ((), (), None)
    assert loaded.notices == ()


def test_imported_session_is_listed_with_model_and_can_be_searched(store, tmp_path):
    imported = import_values(store, tmp_path, CLAUDE)
    index = SessionIndex(tmp_path / "state", store.folder.name)

    (listed,) = index.sessions()

    assert (listed.id, listed.model, listed.title) == (
        imported.session_id,
        "claude-opus-4-6",
        "Login repair",
    )
    assert [one.kind for one in index.search(["fix", "login"])] == ["prompt"]


def test_imported_call_without_result_gets_error_result(store, tmp_path):
    call = claude_said("m", samples.claude_call("t1", "rm -r build"))
    values = [
        claude_line("user", "u1", None, {"role": "user", "content": "clean up"}),
        claude_line("assistant", "a2", "u1", call),
    ]

    loaded = store.read(import_values(store, tmp_path, values).session_id)

    assert loaded.messages[-1].is_error
    assert "Its outcome is unknown" in loaded.messages[-1].text
    assert (loaded.healed, loaded.interruption) == ((), None)


def test_imported_compaction_summary_replaces_earlier_messages(store, tmp_path):
    values = [
        claude_line("user", "u1", None, {"role": "user", "content": "the old prompt"}),
        {"type": "system", "subtype": "compact_boundary", "uuid": "c2", "parentUuid": None}
        | {"logicalParentUuid": "u1"},
        claude_line(
            "user",
            "u3",
            "c2",
            {"role": "user", "content": "In short: nothing."},
            isCompactSummary=True,
        ),
        claude_line("user", "u4", "u3", {"role": "user", "content": "go on"}),
    ]

    imported = import_values(store, tmp_path, values)

    assert summarize_messages(store.read(imported.session_id).messages) == [
        ("harness", "In short: nothing."),
        ("user", "go on"),
    ]
    assert SessionIndex(tmp_path / "state", store.folder.name).search(["old"])


def test_rolled_back_codex_turns_are_not_imported(store, tmp_path):
    back = samples.codex_line(9, "event_msg", {"type": "thread_rolled_back", "num_turns": 1})
    again = samples.codex_line(9, "response_item", samples.codex_message("user", "anew"))

    imported = import_values(store, tmp_path, [*CODEX, back, again])

    assert summarize_messages(store.read(imported.session_id).messages) == [("user", "anew")]


@pytest.mark.parametrize("text", ["", "no json\n", "[1]\n{}\n", '{"type":"user"}\n', "\0\xff\n"])
def test_importing_file_without_session_fails(store, tmp_path, text):
    for program in ("auto", "claude", "codex"):
        with pytest.raises(SessionError, match="contains no session"):
            import_values(store, tmp_path, text, program=program)
    assert store.list() == []


def test_importing_endless_file_fails_without_reading_all_of_it():
    with pytest.raises(SessionError, match="too large"):
        read_external(Path("/dev/zero"), most_bytes=1000)


def test_importing_missing_file_fails(tmp_path):
    with pytest.raises(SessionError, match=r"cannot be read: No such file"):
        read_external(tmp_path / "absent.jsonl")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@st.composite
def mangled(draw, sample):
    """A sample with lines lost, doubled and moved, and members replaced."""
    values = [json.loads(json.dumps(value)) for value in sample]
    chosen = draw(st.lists(st.sampled_from(range(len(values))), min_size=1, max_size=20))
    kept = [json.loads(json.dumps(values[number])) for number in chosen]
    for _ in range(draw(st.integers(0, 4))):
        here = draw(st.sampled_from(kept))
        while True:
            name = draw(st.sampled_from(sorted(here))) if here else "type"
            inner = here.get(name)
            if isinstance(inner, dict) and draw(st.booleans()):
                here = inner
                continue
            here[name] = draw(JSON)
            break
    return lines(kept)


def balanced(messages):
    waiting = []
    for message in messages:
        if isinstance(message, ToolResultMessage):
            assert message.tool_call_id == waiting.pop(0)
        else:
            assert waiting == []
            waiting = [call.id for call in getattr(message, "calls", ())]
    assert waiting == []


@settings(max_examples=size(30, 3000), deadline=None)
@given(
    st.one_of(
        mangled(CLAUDE).map(lambda t: (read_claude, t)),
        mangled(CODEX).map(lambda t: (read_codex, t)),
    )
)
def test_imported_calls_and_results_are_balanced_for_any_file(tmp_path_factory, sample):
    read, text = sample
    found = read(text, "s.jsonl")

    messages = list(found.messages())

    balanced([each.message for each in messages])
    assert [each.at for each in messages] == sorted(each.at for each in messages)
    if messages:
        root = tmp_path_factory.mktemp("state")
        made = Store(root, root)
        loaded = made.read(import_session(found, made, redact=str)[0])
        assert (loaded.healed, loaded.open_calls, loaded.interruption) == ((), (), None)
        balanced(loaded.messages)


def test_imported_string_content_is_text_block_and_image_becomes_remark(store, tmp_path):
    values = [
        claude_line("user", "u1", None, {"role": "user", "content": [{"type": "image"}]}),
        claude_line("assistant", "a2", "u1", {**claude_said("m"), "content": "Plain."}),
    ]

    messages = store.read(import_values(store, tmp_path, values).session_id).messages

    assert messages[0].text == "(an image that was not imported)"
    assert messages[1].content == (TextBlock("Plain."),)
