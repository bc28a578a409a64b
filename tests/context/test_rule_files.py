"""Rule files and the further instruction files of other agents."""

from contextlib import nullcontext
from pathlib import Path

import pytest

from dirge_py.context.instructions import Instructions, find_project_files, rule_paths


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    (folder / ".git").mkdir(parents=True)
    (folder / ".claude" / "rules" / "web").mkdir(parents=True)
    rules = folder / ".claude" / "rules"
    (rules / "always.md").write_text("Be brief.")
    (rules / "web" / "ts.md").write_text('---\npaths:\n  - "src/**/*.{ts,tsx}"\n---\nNo any.\n')
    return folder


def open_instructions(repository: Path, **options: bool) -> Instructions:
    def guard(root: Path):
        return nullcontext(lambda real: False)

    return Instructions(repository, config_dir=repository / "none", guard=guard, **options)


def test_rule_without_paths_is_sent_at_the_start_and_one_with_paths_when_touched(repository: Path):
    instructions = open_instructions(repository)
    at_start = instructions.files
    assert at_start.paths == (".claude/rules/always.md",)

    def touching(name: str) -> list[str]:
        found = instructions.in_folders([], at_start, [str(repository / name)])
        return [file.text for file in found.files]

    assert touching("src/deep/a.tsx") == ["No any."]
    assert touching("src/a.ts") == ["No any."]
    assert touching("src/a.py") == []
    assert touching("lib/a.ts") == []


def test_declined_project_sends_only_agents_and_claude_files(repository: Path):
    for name in ("AGENTS.md", "CLAUDE.md", "CLAUDE.local.md", "GEMINI.md"):
        (repository / name).write_text(f"from {name}")
    sent = open_instructions(repository).files.paths
    assert sent[:4] == ("AGENTS.md", "CLAUDE.md", "CLAUDE.local.md", "GEMINI.md")

    declined = open_instructions(repository, is_declined=True)
    assert declined.files.paths == ("AGENTS.md", "CLAUDE.md")
    touched = declined.in_folders([], declined.files, [str(repository / "src" / "a.ts")])
    assert touched.files == ()


def test_rules_linked_to_huge_folder_are_read_up_to_a_limit_with_notice(repository: Path):
    huge = repository / "huge"
    for name in ("many/0", "more"):
        (huge / name).mkdir(parents=True)
    (huge / "near.md").write_text("Near.")
    for number in range(2_000):
        (huge / "many" / f"{number}.txt").touch()
    (huge / "more" / "far.md").write_text("Far.")
    (repository / ".claude" / "rules").rename(repository / "before")
    (repository / ".claude" / "rules").symlink_to(huge)

    found = open_instructions(repository).files

    assert found.paths == (".claude/rules/near.md",)
    [notice] = found.notices
    assert notice.startswith(".claude/rules is too large: dirge looks at 2,000 of its files")
    (repository / ".claude" / "rules").unlink()
    (repository / "before").rename(repository / ".claude" / "rules")
    for number in range(101):
        (repository / ".claude" / "rules" / f"{number:03}.md").write_text(f"Rule {number}.")
    found = open_instructions(repository).files
    assert (len(found.files), found.paths[-1]) == (100, ".claude/rules/099.md")
    assert "at most 100 rules" in found.notices[0]


def test_own_claude_file_comes_after_own_agents_file(repository: Path, tmp_path: Path):
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "CLAUDE.md").write_text("mine")
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "AGENTS.md").write_text("first")

    found = find_project_files(repository, config_dir=tmp_path / "config", home=tmp_path)

    assert [file.text for file in found.files] == ["first", "mine", "Be brief."]


@pytest.mark.parametrize(
    ("head", "paths"),
    [
        ("---\npaths: src/*.py\n---\nx", ["src/*.py"]),
        ("---\npaths: [a/*.{c,h}, 'b.c']\n---\n", ["a/*.{c,h}", "b.c"]),
        ("---\ndescription: x\npaths:\n- a\n- b\nother: c\n---\n", ["a", "b"]),
        ("---\ndescription: x\n---\n", []),
        ("paths: a", []),
        ("---\npaths: never closed", []),
    ],
)
def test_paths_are_read_from_the_head_of_a_rule_file(head: str, paths: list[str]):
    assert list(rule_paths(head)) == paths
