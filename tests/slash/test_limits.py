"""`/limits`, and the limits of a session."""

import json

import pytest

from dirge_py.types.errors import UsageError
from dirge_py.types.events import SystemNotice
from dirge_py.types.messages import Usage
from dirge_py.types.outcomes import Done, LimitExceeded
from tests.support.project import ScriptedProject
from tests.support.typed_commands import run_command

HUNDRED = Usage(input=90, output=10)


@pytest.fixture
def answering(project: ScriptedProject) -> ScriptedProject:
    """A project with a model that answers with 100 tokens each time."""
    for number in range(9):
        project.model.will_say(f"Answer {number}.", usage=HUNDRED)
    return project


async def test_session_limit_counts_all_runs_after_resume(
    answering: ScriptedProject,
) -> None:
    answering.configure("[limits]\nsession_tokens = 250\n")
    async with answering.open() as conversation:
        assert isinstance(await conversation.send("one"), Done)
        assert isinstance(await conversation.send("two"), Done)
    async with answering.open("newest") as conversation:
        exceeded = LimitExceeded(name="session_tokens", used=300, max=250)
        assert await conversation.send("three") == exceeded
        # Nothing is sent any more until the limit is raised.
        assert await conversation.send("four") == exceeded
        assert len(answering.model.seen) == 3
        assert exceeded.message == "session total token limit exceeded: 300 > 250"

        await run_command("/limits session_tokens 1_000", conversation)
        assert isinstance(await conversation.send("five"), Done)


async def test_known_costs_count_after_resume_despite_unknown_ones(
    answering: ScriptedProject,
) -> None:
    async with answering.open() as conversation:
        await conversation.send("one")
        spent = conversation.cost_usd
        assert spent
        await run_command("/model fake/unheard-of", conversation)
        await conversation.send("two")
        assert conversation.cost_usd is None
    async with answering.open("newest") as conversation:
        assert conversation.least_usd == pytest.approx(spent)


async def test_session_cost_limit_stops_session(answering: ScriptedProject) -> None:
    answering.configure("[limits]\nsession_cost_usd = 0.0005\n")
    async with answering.open() as conversation:
        assert isinstance(await conversation.send("one"), Done)
        outcome = await conversation.send("two")
    assert isinstance(outcome, LimitExceeded)
    assert (outcome.name, outcome.max) == ("session_cost", 0.0005)


async def test_session_limit_warning_is_shown_once(
    answering: ScriptedProject,
) -> None:
    answering.configure("[limits]\nsession_tokens = 500\n")
    notices = []
    async with answering.open() as conversation:
        conversation.subscribe(lambda e: notices.append(e) if isinstance(e, SystemNotice) else None)
        for number in range(5):
            await conversation.send(str(number))

    [notice] = notices
    assert notice.content == (
        "80% of a limit of this session is used: session_tokens, 400 of 500. "
        "`/limits session_tokens N` changes it."
    )


async def test_limits_shows_usage_and_limits_of_run_and_session(
    answering: ScriptedProject,
) -> None:
    answering.configure("[limits]\ntokens = 5_000\nsession_cost_usd = 2\n")
    async with answering.open() as conversation:
        await conversation.send("one")
        await conversation.send("two")
        text = (await run_command("/limits", conversation)).text

    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines() if line}
    assert rows["tokens"] == ["100", "5,000"]
    assert rows["requests"] == ["1", "no", "limit"]
    assert rows["session_tokens"] == ["200", "no", "limit"]
    assert rows["session_cost_usd"] == ["$0.0006", "$2.00"]


async def test_limit_applies_to_its_session_only(
    answering: ScriptedProject,
) -> None:
    answering.configure("[limits]\ntokens = 5_000\n")
    async with answering.open() as conversation:
        shown = await run_command("/limits tokens 50", conversation)
        assert shown.text == "tokens: at most 50, for this session."
        assert isinstance(await conversation.send("one"), LimitExceeded)
    async with answering.open("newest") as conversation:
        assert conversation.settings.limits.most.tokens == 50
        await run_command("/limits tokens none", conversation)
        assert isinstance(await conversation.send("two"), Done)
    async with answering.open() as conversation:
        assert conversation.settings.limits.most.tokens == 5_000


async def test_damaged_stored_limit_is_ignored(answering: ScriptedProject) -> None:
    async with answering.open() as conversation:
        await run_command("/limits tokens 50", conversation)
        await conversation.send("one")
    stored = answering.journal.read_text()
    record = json.dumps({"tokens": 50}, separators=(",", ":"))
    answering.journal.write_text(stored.replace(record, '{"tokens":-1}'))
    async with answering.open("newest") as conversation:
        assert conversation.settings.limits.most.tokens != -1


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("/limits tokns 5", "Did you mean tokens?"),
        ("/limits tokens", "/limits tokens 5"),
        ("/limits tokens many", "whole number above 0"),
        ("/limits tokens 1.5", "whole number above 0"),
        ("/limits cost_usd -1", "number above 0"),
        ("/limits time_s nan", "number above 0"),
    ],
)
async def test_invalid_limit_is_explained_and_changes_nothing(
    answering: ScriptedProject, line: str, words: str
) -> None:
    async with answering.open() as conversation:
        before = conversation.settings.limits.most
        with pytest.raises(UsageError) as error:
            await run_command(line, conversation)
        assert words in error.value.hint
        assert conversation.settings.limits.most == before


async def test_limits_count_the_answer_that_ended_the_run(project: ScriptedProject) -> None:
    project.model.will_say("", usage=HUNDRED).will_say("", usage=HUNDRED)
    async with project.open() as conversation:
        assert not isinstance(await conversation.send("one"), Done)
        rows = (await run_command("/limits", conversation)).text.splitlines()

    used = {row.split()[0]: row.split()[1] for row in rows if len(row.split()) > 2}
    assert (used["requests"], used["tokens"]) == ("2", "200")
