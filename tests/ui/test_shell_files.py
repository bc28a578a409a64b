"""The file list behind `@`: up to date, fast, likely files first."""

import os
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirge_py.ui.prompt import completion
from dirge_py.ui.prompt.file_index import (
    MOST_WATCHED,
    FileMatcher,
    ListedFile,
    list_files,
    may_watch,
)
from tests.support.app_driver import AppDriver, running_app
from tests.support.project import ScriptedProject


def made(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x\n")


def found(*paths: str, modified: float = 0) -> Sequence[ListedFile]:
    return [ListedFile(p, p.lower(), modified, p.startswith(".") or "/." in p) for p in paths]


def best(query: str, files: Sequence[ListedFile], **more: object) -> list[str]:
    matching = FileMatcher(query, files, **more)  # type: ignore[arg-type]
    matching.work()
    return matching.best()


def test_files_match_by_letters_and_file_name_first() -> None:
    files = found("src/parser.py", "lib/other.py", "docs/pa-rser.md", "zzz")
    assert best("parser", files) == ["src/parser.py", "docs/pa-rser.md"]


def test_recently_touched_or_modified_files_rank_first() -> None:
    files = [*found("a.py", "b.py", "c.py"), *found("d.py", modified=time.time())]

    assert best(".py", files) == best("py", files) == ["d.py", "a.py", "b.py", "c.py"]
    assert best("py", files, touched={"c.py"})[0] == "c.py"
    assert best("a", found("a.py", "x/banana"), touched={"x/banana"}) == ["x/banana", "a.py"]


def test_hidden_files_are_shown_only_for_query_with_dot() -> None:
    files = found(".github/ci.yml", "ci.yml", "a/.env")

    assert best("ci", files) == ["ci.yml"]
    assert best(".g", files) == [".github/ci.yml"]
    assert best("a/.", files) == ["a/.env"]


_PATHS = st.lists(st.text("ab./", min_size=1, max_size=8), unique=True, max_size=20)


@given(_PATHS, st.text("ab./", max_size=3), st.text("ab./", max_size=2))
def test_narrowed_search_finds_same_files_as_full_search(
    paths: list[str], query: str, more: str
) -> None:
    files = found(*paths)
    short = FileMatcher(query, files)
    short.work()

    assert best(query + more, files, before=short) == best(query + more, files)


def test_all_kinds_of_ignore_files_are_respected(tmp_path: Path) -> None:
    made(tmp_path, "a.log", "b.tmp", "c.key", "kept.txt")
    (tmp_path / ".gitignore").write_text("*.log\n")
    (tmp_path / ".ignore").write_text("*.tmp\n")
    (tmp_path / ".agentignore").write_text("*.key\n")

    assert [f.path for f in list_files(tmp_path)[0] if not f.path.startswith(".")] == ["kept.txt"]


def test_invalid_line_of_ignore_file_is_skipped(tmp_path: Path) -> None:
    made(tmp_path, "a.log", "kept.txt")
    (tmp_path / ".gitignore").write_text("!\n*.log\n")

    listed = [f.path for f in list_files(tmp_path)[0]]
    assert listed == [".gitignore", "kept.txt"]


def test_home_folder_and_huge_tree_are_not_watched(tmp_path: Path) -> None:
    assert may_watch(tmp_path, 10)
    assert not may_watch(tmp_path, MOST_WATCHED + 1)
    assert not may_watch(Path.home(), 1) and not may_watch(Path("/"), 1)


def labels(driver: AppDriver) -> list[str]:
    return [choice.label for choice in driver.app.proposals.choices]


async def test_open_file_list_follows_changes_on_disk(project: ScriptedProject) -> None:
    made(project.folder, "one.txt")
    async with running_app(project) as driver:
        await driver.type("@")
        await driver.until(lambda: labels(driver) == ["one.txt"])
        await driver.until(lambda: driver.app.proposer._index.is_watching)
        made(project.folder, "two.txt")
        await driver.until(lambda: labels(driver) == ["one.txt", "two.txt"])
        made(project.folder, "sub/three.txt")
        await driver.until(lambda: "sub/three.txt" in labels(driver))
        os.unlink(project.folder / "one.txt")
        await driver.until(lambda: "one.txt" not in labels(driver))
        (project.folder / ".gitignore").write_text("sub/\n")
        await driver.until(lambda: labels(driver) == ["two.txt"])


async def test_tab_enters_folder_and_enter_selects_it(project: ScriptedProject) -> None:
    made(project.folder, "src/deep/a.py", "src/deep/b.py")
    async with running_app(project) as driver:
        await driver.type("@sr")
        await driver.until(lambda: labels(driver)[:1] == ["src/"])
        await driver.pilot.press("tab")
        await driver.until(
            lambda: driver.app.composer.text == "@src/" and labels(driver)[:1] == ["src/deep/"]
        )
        await driver.pilot.press("tab")
        await driver.until(lambda: labels(driver) == ["src/deep/a.py", "src/deep/b.py"])
        await driver.pilot.press("tab", "tab")
        assert driver.app.composer.text == "@src/deep/b.py "

        driver.app.composer.put("@sr")
        await driver.until(lambda: labels(driver)[:1] == ["src/"])
        await driver.pilot.press("enter")
        assert driver.app.composer.text == "@src/ "


async def test_file_read_by_model_ranks_first(project: ScriptedProject) -> None:
    made(project.folder, "a.txt", "b.txt")
    for name in ("a.txt", "b.txt"):
        os.utime(project.folder / name, (1, 1))
    project.model.will_call("read", path="b.txt").will_say("read it")
    async with running_app(project) as driver:
        await driver.send("read b")
        await driver.until(lambda: "read it" in driver.text)
        await driver.idle()
        await driver.type("@")
        await driver.until(lambda: labels(driver) == ["b.txt", "a.txt"])


async def test_keys_are_handled_while_large_list_is_searched(project: ScriptedProject) -> None:
    async with running_app(project) as driver:
        await driver.type("@")
        # Wait for the real file list, which would replace this one.
        await driver.until(lambda: driver.app.proposer._index.is_watching)
        driver.app.proposer._index.files = found(
            *(f"dir{n % 97}/file{n}.py" for n in range(10_000))
        )
        await driver.type("f")
        await driver.until(lambda: driver.app.proposals.is_open)
        await driver.type("ile999")
        await driver.pilot.press("enter")

        assert driver.app.composer.text.startswith("@dir") and "file999" in driver.app.composer.text


async def test_each_change_of_the_query_is_matched_once(
    project: ScriptedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(project.folder, "alpha.py", "alps.py")
    queries: list[str] = []

    class CountingMatcher(FileMatcher):
        def __init__(self, query: str, *args: object, **more: object) -> None:
            queries.append(query)
            super().__init__(query, *args, **more)  # type: ignore[arg-type]

    async with running_app(project) as driver:
        await driver.type("@")
        await driver.until(lambda: driver.app.proposer._index.is_watching)
        assert labels(driver) == ["alps.py", "alpha.py"]
        monkeypatch.setattr(completion, "FileMatcher", CountingMatcher)
        await driver.type("alp")
        await driver.pilot.press("left", "right", "backspace")
        await driver.until(lambda: driver.app.composer.text == "@al" and len(labels(driver)) == 2)
    assert queries == ["a", "al", "alp", "al", "alp", "al"]
