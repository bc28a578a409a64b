"""Prompt files: front matter, denied tools, selection."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirge_py.context.prompts import (
    NamedPrompt,
    PromptBook,
    PromptFile,
    is_prompt_name,
    parse_prompt,
    prompt_files,
    prompt_section,
    prompts_in_bytes,
)
from dirge_py.types.errors import ConfigError, UsageError

TOOLS = ("bash", "edit", "write")
PLAN = b"""\
---
description: Think first,
  do nothing.
deny_tools: [edit, Bash]
---

Write a plan.
"""


def parsed(content: bytes) -> NamedPrompt:
    file = PromptFile(name="x", source="x.md", read=lambda: content)
    return parse_prompt(file, known_tools=TOOLS)


def book(**prompts: bytes) -> PromptBook:
    files = prompts_in_bytes({f"p/{name}.md": text for name, text in prompts.items()})
    return PromptBook(files, known_tools=TOOLS)


def test_prompt_file_is_parsed_into_front_matter_and_text() -> None:
    assert parsed(PLAN) == NamedPrompt(
        name="x",
        text="Write a plan.",
        deny_tools=("edit", "bash"),
        source="x.md",
        description="Think first, do nothing.",
    )


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"Only text.\n", "Only text."),
        (b"\xef\xbb\xbf---\r\ndescription: x\r\n---\r\nText\r\n", "Text"),
        (b"---\n---\nText", "Text"),
        (b"---\nno end of the head\n", "---\nno end of the head"),
        (b"a\n---\nb: c\n---\n", "a\n---\nb: c\n---"),
        (b"", ""),
    ],
)
def test_front_matter_must_be_at_start_and_closed(content: bytes, text: str) -> None:
    assert parsed(content).text == text


@pytest.mark.parametrize(
    ("head", "words"),
    [
        ("deny_tool: [edit]", "no setting `deny_tool`"),
        ("deny_tools: {edit: 1}", "not a list of tools"),
        ("deny_tools: [3]", "not a list of tools"),
        ("deny_tools: [eidt]", "`deny_tools` names 'eidt'"),
        ("deny_tools: [bsh]", "`deny_tools` names 'bsh'"),
        ("chunk_s: soon", "must be a number above 0"),
        ("chunk_s: true", "must be a number above 0"),
        ("chunk_s: 0", "must be a number above 0"),
        ("chunk_s: .inf", "must be a number above 0"),
        ("a: b: c", "x.md:2: mapping values are not allowed here"),
        ("- edit", "not a list of settings"),
        ("a: &x [1]\nb: *x", "YAML aliases"),
        ("!!python/object/apply:os.system [touch marker]", "could not determine a constructor"),
    ],
)
def test_invalid_front_matter_raises_error(head: str, words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parsed(f"---\n{head}\n---\ntext".encode())
    assert words in raised.value.message


def test_prompt_can_set_chunk_timeout() -> None:
    assert parsed(b"---\nchunk_s: 1.5\n---\ntext").chunk_s == 1.5
    assert parsed(b"text").chunk_s is None


def test_prompt_can_deny_unknown_plugin_or_mcp_tool() -> None:
    assert parsed(b"---\ndeny_tools: [deploy, web.Search]\n---\n").deny_tools == (
        "deploy",
        "web.search",
    )


@given(st.binary(max_size=40).map(lambda head: b"---\n" + head + b"\n---\ntext"))
def test_any_front_matter_is_parsed_or_raises_config_error(content: bytes) -> None:
    try:
        prompt = parsed(content)
    except ConfigError:
        return
    assert set(prompt.deny_tools) == {tool.strip().lower() for tool in prompt.deny_tools}


def test_prompt_files_of_folder_are_listed_without_reading_them(tmp_path: Path) -> None:
    for name in ("b.md", "a.md", "none.md", ".hidden.md", "two words.md", "c.txt"):
        (tmp_path / name).write_bytes(b"\xff")
    assert [file.name for file in prompt_files(tmp_path)] == ["a", "b"]
    assert prompt_files(tmp_path / "absent") == []
    with pytest.raises(ConfigError, match="not UTF-8"):
        PromptBook(prompt_files(tmp_path)).find("a")


def test_first_prompt_of_a_name_is_used_and_notice_names_the_other() -> None:
    files = [*prompts_in_bytes({"user/x.md": b"Mine."}), *prompts_in_bytes({"repo/x.md": b"Its."})]
    both = PromptBook(files)
    assert both.find("x").text == "Mine."
    assert both.notices == ["prompt `x` of repo/x.md is not used: user/x.md is."]


def test_unknown_prompt_error_suggests_similar_names() -> None:
    with pytest.raises(UsageError) as raised:
        book(review=b"x", plan=b"y").choose("reveiw")
    assert (raised.value.message, raised.value.hint) == (
        "there is no prompt 'reveiw'.",
        "Did you mean review?",
    )


def test_choosing_prompt_notifies_listeners_and_none_clears_it() -> None:
    chosen, prompts = [], book(plan=PLAN)
    prompts.on_change.append(chosen.append)

    prompts.choose("plan")
    assert prompts.denied_tools == {"edit": "prompt plan", "bash": "prompt plan"}
    assert "Write a plan." in prompt_section(prompts.current)
    assert "edit, bash" in prompt_section(prompts.current)

    prompts.choose(None)
    assert (prompts.denied_tools, prompt_section(prompts.current)) == ({}, "")
    assert [prompt.name if prompt else None for prompt in chosen] == ["plan", None]


def test_prompt_description_shows_purpose_denied_tools_or_error() -> None:
    prompts = book(plan=PLAN, bad=b"---\nx: 1\n---\n")
    assert prompts.describe("plan") == "Think first, do nothing.; denies edit, bash"
    assert prompts.describe("bad").startswith("cannot be used: p/bad.md: no setting `x`")


@pytest.mark.parametrize("name", ["none", "", "a b", "../x", "-x", "x" * 65])
def test_invalid_prompt_names_are_rejected(name: str) -> None:
    assert not is_prompt_name(name)
