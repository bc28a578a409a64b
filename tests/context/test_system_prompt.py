import datetime
import os
from contextlib import nullcontext

import pytest

from dirge_py.context.instructions import Instructions
from dirge_py.context.prompts import PromptBook
from dirge_py.context.system_prompt import (
    SystemPrompt,
    describe_environment,
    edit_sections,
    git_state,
    standard_sections,
    tool_guidance,
)
from dirge_py.context.tokens import estimate_text
from dirge_py.types.extensions import Section
from tests.support.histories import build_prompt

SECTIONS = [Section(name="b", priority=2, text="B\n"), Section(name="a", priority=1, text="A")]


def replace_all(sections):
    return [Section(name="all", priority=0, text="X")]


def sections(**changes):
    return standard_sections(**{"tool_names": ["read", "bash"], "environment": "ENV", **changes})


def test_system_prompt_sections_are_ordered_by_priority():
    assert build_prompt(SECTIONS) == "A\n\nB"


def test_stable_part_of_system_prompt_comes_first_and_its_length_is_known():
    prompt = build_prompt(sections(environment="MONDAY", project_files="FILES"))
    later = build_prompt(sections(environment="TUESDAY", project_files="FILES"))
    stable = prompt[: prompt.stable_chars]

    assert prompt[prompt.stable_chars :].startswith("MONDAY")
    assert later.startswith(stable)
    assert later.stable_chars == prompt.stable_chars > 0


def test_system_prompt_without_changing_sections_is_entirely_stable():
    prompt = build_prompt(SECTIONS, [replace_all])

    assert (prompt, prompt.stable_chars) == ("X", 1)


def test_prompt_edits_apply_in_order():
    edits = [
        lambda sections: [Section(name="first", priority=0, text="F"), *sections],
        lambda sections: [*sections, Section(name="last", priority=100, text="L")],
    ]

    assert build_prompt(SECTIONS, edits) == "F\n\nA\n\nB\n\nL"
    assert build_prompt(SECTIONS, [*edits, replace_all]) == "X"


def test_same_input_gives_identical_system_prompt(tmp_path):
    def prompt():
        environment = describe_environment(tmp_path, today=datetime.date(2026, 3, 1))
        return build_prompt(sections(environment=environment))

    assert prompt() == prompt()


def test_prompt_replacement_replaces_only_identity_and_working_sections():
    sent = edit_sections(sections(replacement="You are a parrot."))

    assert [section.name for section in sent] == ["custom", "tools", "environment"]


def test_prompt_addition_comes_last():
    prompt = build_prompt(sections(addition="Speak French.", project_files="FILES"))

    assert prompt.endswith("ENV\n\nFILES\n\nSpeak French.")


def test_tool_guidance_covers_only_available_tools():
    assert "`edit`" not in tool_guidance(["read"])
    assert "`edit`" in tool_guidance(["read", "edit"])
    assert tool_guidance([]) == ""


def test_system_prompt_parts_count_tokens_of_every_section(tmp_path):
    instructions = Instructions(tmp_path, config_dir=tmp_path, guard=nullcontext, is_on=False)
    prompt = SystemPrompt(tmp_path, prompts=PromptBook([]), instructions=instructions)
    described = dict(prompt.parts(["read", "bash"]))

    assert list(described) == ["identity", "working", "tools", "environment"]
    assert all(tokens > 0 for tokens in described.values())


def test_standard_system_prompt_has_at_most_1150_tokens():
    every_tool = ["read", "grep", "glob", "list_dir", "edit", "write", "bash"]
    prompt = build_prompt(standard_sections(tool_names=every_tool, environment=""))

    assert estimate_text(prompt) <= 1150


@pytest.fixture
def repository(tmp_path):
    (tmp_path / ".git").mkdir()
    return tmp_path


def test_git_state_reads_branch_from_head_file(repository):
    (repository / ".git" / "HEAD").write_text("ref: refs/heads/feature/x\n")
    (repository / "src").mkdir()

    assert git_state(repository) == "branch feature/x"
    assert git_state(repository / "src") == "branch feature/x"


def test_git_state_names_commit_of_detached_head(repository):
    (repository / ".git" / "HEAD").write_text("0123456789abcdef" + "0" * 24 + "\n")

    assert git_state(repository) == "detached at 0123456789ab"


def test_git_state_reads_branch_of_linked_worktree(tmp_path):
    folder = tmp_path / "main" / ".git" / "worktrees" / "w"
    folder.mkdir(parents=True)
    (folder / "HEAD").write_text("ref: refs/heads/side\n")
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / ".git").write_text("gitdir: ../main/.git/worktrees/w\n")

    assert git_state(tmp_path / "w") == "branch side"


@pytest.mark.parametrize(
    "head",
    [b"", b"\xff\xfe", b"ref: refs/heads/x\ny\n", b"ref: refs/heads/a\xe2\x80\xaeb\n", b"x" * 9000],
)
def test_git_state_does_not_repeat_malformed_head(repository, head):
    (repository / ".git" / "HEAD").write_bytes(head)

    assert git_state(repository) == "a repository"


def test_pipe_in_place_of_git_head_file_does_not_block(repository):
    os.mkfifo(repository / ".git" / "HEAD")

    assert git_state(repository) == "a repository"


def test_environment_description_holds_folder_date_and_git_state(tmp_path):
    text = describe_environment(tmp_path, today=datetime.date(2026, 3, 1))

    assert f"Working directory: {tmp_path}\n" in text
    assert "Date: 2026-03-01\n" in text
    assert text.endswith("Git: not a repository")


def test_describing_environment_never_runs_git(repository, tmp_path, monkeypatch):
    programs, canary = tmp_path / "bin", tmp_path / "canary"
    programs.mkdir()
    (programs / "git").write_text(f"#!/bin/sh\ntouch {canary}\n")
    (programs / "git").chmod(0o700)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")

    describe_environment(repository, today=datetime.date(2026, 3, 1))

    assert not canary.exists()
