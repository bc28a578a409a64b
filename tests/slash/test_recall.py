"""`/recall`, by words and by meaning, with a fake service of embeddings."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dirge_py.types.errors import ConfigError, ProviderError, UsageError
from tests.support.fake_service import FakeService, RawReply, ReceivedRequest
from tests.support.product import ComputedReply, Service
from tests.support.project import ScriptedProject
from tests.support.typed_commands import run_command

AXES = ("parser", "colour", "deploy")


def embed(request: ReceivedRequest) -> Any:
    """A vector for each text: which of `AXES` it speaks of."""
    data = [
        {"index": n, "embedding": [0.1 + 5.0 * (axis in text) for axis in AXES]}
        for n, text in enumerate(request.json["input"])
    ]
    body = json.dumps({"data": data, "model": "small", "usage": {"prompt_tokens": 1}})
    return RawReply(body=body, headers={"content-type": "application/json"})


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScriptedProject:
    project = ScriptedProject(tmp_path)
    monkeypatch.chdir(project.folder)
    monkeypatch.setenv("DIRGE_STATE_DIR", str(project.state_dir))
    return project


@pytest.fixture
def service() -> Iterator[FakeService]:
    with Service([ComputedReply(embed)] * 20) as service:
        yield service


@pytest.fixture
def spoken(project: ScriptedProject, service: FakeService) -> ScriptedProject:
    """A project whose model talks about three things."""
    file = project.folder.parent / "config" / "config.toml"
    written = file.read_text().replace("http://127.0.0.1:9/v1", service.openai_url)
    file.write_text(written)
    for text in ("The parser reads tokens.", "I made the colour red.", "The deploy is done."):
        project.model.will_say(text)
    return project


async def talk(project: ScriptedProject) -> None:
    async with project.open() as conversation:
        for prompt in ("explain it", "paint it", "ship it"):
            await conversation.send(prompt)


async def test_recall_finds_words_in_sessions_and_memory(spoken: ScriptedProject) -> None:
    await talk(spoken)
    async with spoken.open() as conversation:
        await run_command("/remember The colour of buttons is blue.", conversation)
        text = (await run_command("/recall colour", conversation)).text
        nothing = (await run_command("/recall zebra", conversation)).text

    assert "The colour of buttons is blue." in text
    assert "I made the colour red." in text
    assert "The parser" not in text
    assert nothing.startswith("Nothing found.")


async def test_semantic_recall_ranks_by_similarity_and_embeds_each_text_once(
    spoken: ScriptedProject, service: FakeService
) -> None:
    await talk(spoken)
    async with spoken.open() as conversation:
        first = await run_command("/recall --semantic which parser", conversation)
        asked = len(service.requests)
        again = await run_command("/recall --semantic the deploy", conversation)

    assert first.shown[0] == "Requesting embeddings from small for 6 texts."
    lines = first.shown[1].splitlines()
    assert lines[1].startswith("1.00  session ")
    assert lines[2].strip() == "The parser reads tokens."
    # The second recall embeds only the question.
    assert [request.json["input"] for request in service.requests[asked:]] == [["the deploy"]]
    assert again.shown[0].splitlines()[2].strip() == "The deploy is done."


async def test_embedding_cost_counts_in_session_after_resume(
    spoken: ScriptedProject, service: FakeService
) -> None:
    def embed_one(request: ReceivedRequest) -> Any:
        reply = embed(request)
        body = {**json.loads(reply.body), "model": "text-embedding-3-small"}
        body["usage"] = {"prompt_tokens": 1_000_000}
        return RawReply(body=json.dumps(body), headers=reply.headers)

    service.replies = [ComputedReply(embed_one)] * 2
    await talk(spoken)
    async with spoken.open("newest") as conversation:
        before = conversation.usage.input
        await run_command("/recall --semantic which parser", conversation)
        asked = [(each.model, each.role, each.cost_usd) for each in conversation.reported]
        cost, used = conversation.least_usd, conversation.usage.input - before
        text = (await run_command("/cost", conversation)).text
        idle = conversation.idle_requests
    async with spoken.open("newest") as conversation:
        again = conversation.least_usd

    assert asked == [("fake/text-embedding-3-small", "embed", 0.02)] * 2
    assert (cost, used, idle) == (0.04, 2_000_000, 0) and again == cost
    assert "embed" in text


async def test_damaged_vector_file_is_rebuilt(
    spoken: ScriptedProject, service: FakeService
) -> None:
    await talk(spoken)
    async with spoken.open() as conversation:
        await run_command("/recall --semantic which parser", conversation)
        [file] = (spoken.state_dir / "vectors").iterdir()
        assert file.stat().st_mode & 0o777 == 0o600
        file.write_bytes(file.read_bytes()[:-3])
        shown = (await run_command("/recall --semantic which parser", conversation)).shown

    assert shown[0] == "Requesting embeddings from small for 6 texts."


async def test_semantic_recall_works_when_vectors_cannot_be_stored(
    spoken: ScriptedProject, service: FakeService
) -> None:
    await talk(spoken)
    (spoken.state_dir / "vectors").write_text("in the way")
    async with spoken.open() as conversation:
        shown = (await run_command("/recall --semantic which parser", conversation)).shown
    assert "The parser reads tokens." in shown[-1]


async def test_embeddings_before_a_failure_are_kept(
    spoken: ScriptedProject, service: FakeService
) -> None:
    await talk(spoken)
    service.replies = [ComputedReply(embed), RawReply(status=400, body="{}"), *service.replies]
    async with spoken.open() as conversation:
        with pytest.raises(ProviderError):
            await run_command("/recall --semantic which parser", conversation)
        shown = (await run_command("/recall --semantic which parser", conversation)).shown
    assert "The parser reads tokens." in shown[-1]


async def test_provider_without_embeddings_is_refused_with_hint(
    project: ScriptedProject,
) -> None:
    file = project.folder.parent / "config" / "config.toml"
    written = file.read_text().replace('type = "openai"', 'type = "anthropic"')
    file.write_text(written)
    project.model.will_say("Hello.")
    async with project.open() as conversation:
        await conversation.send("hi")
        with pytest.raises(ConfigError, match="has no embeddings") as error:
            await run_command("/recall --semantic hello", conversation)
    assert "/recall TEXT searches by words" in error.value.hint


@pytest.mark.parametrize(
    "line", ["/recall", "/recall --semantic", "/recall --near x", "/recall --model m x"]
)
async def test_missing_or_unknown_recall_arguments_show_usage(
    project: ScriptedProject, line: str
) -> None:
    async with project.open() as conversation:
        with pytest.raises(UsageError) as error:
            await run_command(line, conversation)
    assert "/recall WORDS" in error.value.hint


async def test_semantic_recall_works_in_session_that_is_not_stored(
    spoken: ScriptedProject, service: FakeService
) -> None:
    file = spoken.folder.parent / "config" / "config.toml"
    file.write_text(file.read_text().replace("[session]\n", "[session]\nsave = false\n"))
    async with spoken.open() as conversation:
        await conversation.send("explain it")
        shown = (await run_command("/recall --semantic parser", conversation)).shown
    assert "The parser reads tokens." in shown[-1]
    assert not (spoken.state_dir / "vectors").exists()
