"""Building a conversation, and cleaning up if that fails."""

import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from dirge_py.config.load import load
from dirge_py.context.system_prompt import change_sections
from dirge_py.frontend.print.print_mode import PolicyAsker
from dirge_py.sdk.build import build
from dirge_py.sdk.options import BuildOptions, SessionChoice
from dirge_py.testing import ScriptedModel
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import DirgeError, NoProvider, UsageError
from dirge_py.types.extensions import Extension, Section, SectionChange
from dirge_py.types.llm import LlmContext, StreamEvent, StreamOptions

ENTRY = '[providers.fake]\ntype = "openai"\nmodel = "gpt-4o"\napi_key_env = "FAKE_KEY"\n'
NAMED = SessionChoice(kind="named", id="mine")


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    for name in ("config", "project", "tmp"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "config" / "config.toml").write_text(ENTRY)
    return {
        "HOME": str(tmp_path),
        "DIRGE_CONFIG_DIR": str(tmp_path / "config"),
        "DIRGE_STATE_DIR": str(tmp_path / "state"),
        "FAKE_KEY": "sk-x",
    }


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize(
    ("broken", "error"),
    [
        (BuildOptions(session=NAMED, allow=("nonsense",)), UsageError),
        (BuildOptions(session=NAMED, add_dirs=("nowhere",)), DirgeError),
        (BuildOptions(session=SessionChoice(kind="resume", id="none")), DirgeError),
    ],
)
async def test_failed_build_leaves_no_open_files(
    environment: dict[str, str], broken: BuildOptions, error: type[Exception]
) -> None:
    config, before = load(environment=environment), descriptors()

    with pytest.raises(error):
        build(config, PolicyAsker(), broken)

    assert descriptors() == before
    conversation = build(config, PolicyAsker(), BuildOptions(session=NAMED))
    await conversation.close()
    assert descriptors() == before


@pytest.mark.parametrize(
    ("settings", "flags"),
    [
        ("", BuildOptions(prompt="none")),
        ('[web]\nprivate_hosts = ["a b"]\n', BuildOptions()),
        ('[tools]\ndisabled = ["none"]\n', BuildOptions()),
        ("", BuildOptions(allow=("nonsense",))),
    ],
)
async def test_failed_build_leaves_stored_sessions_unchanged(
    environment: dict[str, str], tmp_path: Path, settings: str, flags: BuildOptions
) -> None:
    def sessions() -> list[tuple[str, bytes]]:
        files = sorted((tmp_path / "state" / "sessions").rglob("*.jsonl"))
        return [(file.name, file.read_bytes()) for file in files]

    model = ScriptedModel().will_say("ok")
    options = BuildOptions(session=NAMED)
    conversation = build(
        load(environment=environment), PolicyAsker(), options, stream_fn=model.stream_fn
    )
    await conversation.send("x")
    await conversation.close()
    before = sessions()
    (tmp_path / "config" / "config.toml").write_text(ENTRY + settings)

    for choice in (replace(NAMED, fork=True), replace(NAMED, kind="resume", fork=True), NAMED):
        broken = replace(flags, session=choice)
        with pytest.raises(DirgeError):
            build(load(environment=environment), PolicyAsker(), broken, stream_fn=model.stream_fn)

    assert len(before) == 1
    assert sessions() == before


async def test_closed_conversation_leaves_no_open_or_temporary_files(
    environment: dict[str, str], tmp_path: Path
) -> None:
    before = descriptors()
    model = ScriptedModel().will_call("bash", command="ls").will_say("ok")

    conversation = build(
        load(environment=environment),
        PolicyAsker(),
        BuildOptions(session=SessionChoice(kind="none"), log=True),
        stream_fn=model.stream_fn,
    )
    await conversation.send("x")
    await conversation.close()

    assert descriptors() == before
    assert list((tmp_path / "tmp").iterdir()) == []


async def test_extensions_close_before_temporary_folders_are_removed(
    environment: dict[str, str], tmp_path: Path
) -> None:
    class Reader(Extension):
        name = "reader"
        found: Sequence[str] = ()

        async def close(self) -> None:
            self.found = os.listdir(tmp_path / "tmp")

    reader = Reader()
    conversation = build(
        load(environment=environment),
        PolicyAsker(),
        BuildOptions(session=SessionChoice(kind="none")),
        stream_fn=ScriptedModel().stream_fn,
    )
    conversation.extensions.all = (*conversation.extensions.all, reader)

    await conversation.close()

    assert len(reader.found) == 1
    assert os.listdir(tmp_path / "tmp") == []


def test_missing_api_key_raises_no_provider(environment: dict[str, str]) -> None:
    with pytest.raises(NoProvider, match="FAKE_KEY"):
        build(load(environment={**environment, "FAKE_KEY": ""}), PolicyAsker())


async def test_prompt_edits_change_the_system_prompt(environment: dict[str, str]) -> None:
    model = ScriptedModel().will_say("hi")
    edits = (
        lambda sections: [Section(name="house", priority=0, text="Be brief."), *sections],
        lambda sections: [*sections, Section(name="end", priority=100, text="That is all.")],
    )
    options = BuildOptions(session=SessionChoice(kind="none"), prompt_edits=edits)
    conversation = build(
        load(environment=environment), PolicyAsker(), options, stream_fn=model.stream_fn
    )

    await conversation.send("hello")
    await conversation.close()

    prompt = model.seen[0].system_prompt
    assert (prompt.startswith("Be brief."), prompt.endswith("That is all.")) == (True, True)


async def test_section_changes_replace_insert_and_remove_prompt_sections(
    environment: dict[str, str],
) -> None:
    model = ScriptedModel().will_say("hi")
    change = change_sections(
        [
            SectionChange(section="identity", how="replace", text="You are a clerk."),
            SectionChange(section="environment", how="before", text="Mind the house rules."),
            SectionChange(section="working", how="remove"),
        ]
    )
    options = BuildOptions(session=SessionChoice(kind="none"), prompt_edits=[change])
    conversation = build(
        load(environment=environment), PolicyAsker(), options, stream_fn=model.stream_fn
    )

    await conversation.send("hello")
    report = conversation.context_report()
    await conversation.close()

    prompt = model.seen[0].system_prompt
    assert prompt.startswith("You are a clerk.\n\n# Tools")
    assert "Mind the house rules.\n\n# Environment" in prompt
    assert report is not None


async def test_chunk_timeout_of_the_chosen_prompt_is_passed_to_the_provider(
    environment: dict[str, str], tmp_path: Path
) -> None:
    prompts = tmp_path / "config" / "prompts"
    prompts.mkdir()
    (prompts / "patient.md").write_text("---\nchunk_s: 900\n---\nTake your time.\n")
    model, heard = ScriptedModel().will_say("hi").will_say("hi"), []

    def stream(
        context: LlmContext, options: StreamOptions, signal: AbortSignal
    ) -> AsyncIterator[StreamEvent]:
        heard.append(options.chunk_timeout_s)
        return model.stream_fn(context, options, signal)

    options = BuildOptions(session=SessionChoice(kind="none"), prompt="patient")
    conversation = build(load(environment=environment), PolicyAsker(), options, stream_fn=stream)
    await conversation.send("hello")
    assert conversation.settings.prompts is not None
    conversation.settings.prompts.choose(None)
    await conversation.send("hello")
    await conversation.close()

    assert heard == [900.0, None]
