"""The prompt history: one file, several processes, and damage."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dirge_py.session import drafts
from dirge_py.session.drafts import MAX_PROMPTS, PromptHistory

_ADDS = """
import sys
from pathlib import Path
from dirge_py.session.drafts import PromptHistory
history = PromptHistory(Path(sys.argv[1]))
for n in range(int(sys.argv[3])):
    history.add(f"{sys.argv[2]} {n} " + "x" * 2000)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "typed" / "project" / "prompts.jsonl"


def test_prompt_history_loads_oldest_first_from_private_file(path: Path):
    PromptHistory(path).add("one\ntwo")
    PromptHistory(path).add("   ")
    PromptHistory(path).add("drei ✓")
    assert PromptHistory(path).load() == ["one\ntwo", "drei ✓"]
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_only_newest_prompts_are_loaded(path: Path):
    history = PromptHistory(path)
    history.add("first")
    line = path.read_bytes()
    path.write_bytes(line * MAX_PROMPTS)
    history.add("last")
    loaded = history.load()
    assert (len(loaded), loaded[-1]) == (MAX_PROMPTS, "last")


def test_secrets_are_redacted_in_prompt_history(path: Path):
    PromptHistory(path, lambda text: text.replace("hunter2", "[redacted]")).add("log in: hunter2")
    assert "hunter2" not in path.read_text()


def test_two_processes_adding_prompts_at_once_lose_no_prompt(path: Path):
    count = 40
    started = [
        subprocess.Popen([sys.executable, "-c", _ADDS, str(path), name, str(count)])
        for name in ("a", "b")
    ]
    assert [process.wait(30) for process in started] == [0, 0]
    loaded = [prompt.rpartition(" ")[0] for prompt in PromptHistory(path).load()]
    for name in ("a", "b"):
        assert [p for p in loaded if p.startswith(name)] == [f"{name} {n}" for n in range(count)]


def test_large_history_file_is_rotated_and_still_read(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(drafts, "MAX_HISTORY_BYTES", 1000)
    history = PromptHistory(path)
    for n in range(30):
        history.add(f"prompt {n:03} {'x' * 80}")
    loaded = history.load()
    assert loaded[-1].startswith("prompt 029")
    assert len(loaded) >= 9
    assert sum(file.stat().st_size for file in path.parent.iterdir()) <= 2000


def test_prompt_after_torn_line_is_loaded(path: Path):
    history = PromptHistory(path)
    history.add("one")
    path.write_bytes(path.read_bytes() + b'{"prompt": "to')
    history.add("two")
    assert history.load() == ["one", "two"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(st.binary(max_size=30), max_size=5))
def test_damaged_lines_do_not_hide_other_prompts(path: Path, junk: list[bytes]):
    history = PromptHistory(path)
    path.unlink(missing_ok=True)
    history.add("one")
    path.write_bytes(path.read_bytes() + b"".join(b"\n" + piece for piece in junk))
    history.add("two")
    loaded = history.load()
    assert (loaded[0], loaded[-1]) == ("one", "two")


def test_unwritable_history_file_raises_no_error(tmp_path: Path):
    (tmp_path / "file").write_text("")
    history = PromptHistory(tmp_path / "file" / "prompts.jsonl")
    history.add("one")
    assert history.load() == []


def test_symlinked_history_file_is_not_written_through(path: Path, tmp_path: Path):
    (tmp_path / "victim").write_text("")
    path.parent.mkdir(parents=True)
    path.symlink_to(tmp_path / "victim")
    PromptHistory(path).add("one")
    assert (tmp_path / "victim").read_text() == ""


@given(st.text(alphabet=st.characters(), max_size=20))
def test_any_typed_text_can_be_stored_in_prompt_history(
    tmp_path_factory: pytest.TempPathFactory, text: str
):
    history = PromptHistory(tmp_path_factory.mktemp("h") / "prompts.jsonl")
    history.add(text)
    kept = text.encode("utf-8", "replace").decode()
    assert history.load() == ([kept] if text.strip() else [])
