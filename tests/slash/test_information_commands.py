"""`/cost`, `/cache`, `/status`, `/todos`, `/effort`, `/btw`, `/release-notes`, `/feedback`."""

import json
from pathlib import Path

import pytest

from dirge_py import __version__
from dirge_py.conversation.deps import ForkOptions
from dirge_py.session.record import Record
from dirge_py.slash.cost import SUMMARY, requests_of
from dirge_py.slash.help import newest_notes
from dirge_py.types.errors import DirgeError, UsageError
from dirge_py.types.events import UsageReported
from dirge_py.types.messages import Usage
from tests.support.project import ScriptedProject
from tests.support.typed_commands import run_command


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScriptedProject:
    project = ScriptedProject(tmp_path)
    monkeypatch.chdir(project.folder)
    monkeypatch.setenv("DIRGE_STATE_DIR", str(project.state_dir))
    return project


async def test_cost_is_listed_by_model_and_side_questions_separately(
    project: ScriptedProject,
) -> None:
    project.model.will_say("Hello.", usage=Usage(input=1000, output=20, cache_read=800))
    async with project.open() as conversation:
        assert "No requests yet" in (await run_command("/cost", conversation)).text
        await conversation.send("hi")
        conversation.side_questions = 1
        conversation.report(UsageReported(usage=Usage(input=70, output=7), model="fake/gpt-4.1"))
        conversation.side_questions = 0

        text = (await run_command("/usage", conversation)).text

    rows = {line.split()[0]: line.split() for line in text.splitlines() if line.split()}
    assert rows["fake/gpt-4o"][1:5] == ["1", "1,000", "20", "800"]
    assert rows["fake/gpt-4.1"][1:4] == ["1", "70", "7"]
    assert rows["total"][1:4] == ["2", "1,070", "27"]
    assert "side questions" in text
    assert "Requests while idle: 0" in text


async def test_cost_is_listed_by_role_last_prompt_and_last_turn(
    project: ScriptedProject,
) -> None:
    project.configure('[roles]\nfallback = "fake/gpt-4.1"\n')
    project.model.will_say("Hello.", usage=Usage(input=1000, output=20))
    project.model.will_fail(kind="auth")
    project.model.will_say("Empty.", usage=Usage(input=2000, output=10))
    async with project.open() as conversation:
        await conversation.send("hi")
        await conversation.send("look")
        conversation.report(
            UsageReported(usage=Usage(input=70), model="fake/unheard-of", role="critic")
        )

        text = (await run_command("/cost", conversation)).text

    rows = [line.split() for line in text.splitlines()]
    assert ["main", "1", "1,000", "20", "0", "$0.0027"] in rows
    assert ["critic", "*", "1", "70", "0", "0", "unknown"] in rows
    assert ["its", "last", "turn", "1", "2,000", "10", "0", "$0.0041"] in rows
    assert ["fallback", "1", "2,000", "10", "0", "$0.0041"] in rows
    assert ["the", "last", "prompt", "2", "2,070", "10", "0", "$0.0041+"] in rows
    [total] = [row for row in rows if row[:1] == ["total"]]
    assert total[-1] == "$0.0068+", "at least"
    tables = [line for line in text.splitlines() if line.startswith("  ")]
    assert len({len(line) for line in tables}) == 1, "one column under the other"
    assert max(map(len, tables)) <= 60, "a narrow terminal need not break them"


async def test_cost_has_reasoning_column_once_there_are_reasoning_tokens(
    project: ScriptedProject,
) -> None:
    project.model.will_say("Hello.", usage=Usage(input=1000, output=20))
    project.model.will_say("Hm.", usage=Usage(input=1000, output=50, reasoning=30))
    async with project.open() as conversation:
        await conversation.send("hi")
        before = (await run_command("/cost", conversation)).text
        await conversation.send("think")
        after = (await run_command("/cost", conversation)).text

    assert "reasoning" not in before
    rows = {line.split()[0]: line.split() for line in after.splitlines() if line.split()}
    assert "output  reasoning  cached" in after
    assert rows["total"][1:6] == ["2", "2,000", "70", "30", "0"]


async def test_cache_and_cost_of_interrupted_answer_are_unknown(
    project: ScriptedProject,
) -> None:
    project.model.will_say("Hello.", usage=Usage(input=1000, output=20))
    project.model.will_say("Half.").will_say("Whole.", usage=Usage(input=1000, output=20))
    async with project.open() as conversation:
        for prompt in ("one", "two", "three"):
            await conversation.send(prompt)

        cached = (await run_command("/cache", conversation)).text
        text = (await run_command("/cost", conversation)).text
        status = (await run_command("/status", conversation)).text

    assert [line.split()[1:] for line in cached.splitlines() if line.split()[:1] == ["2"]] == [
        ["unknown"]
    ]
    assert "$0.0054+" in status and "$0.0054+" in text and "A + means" in text


async def test_request_while_idle_is_counted(project: ScriptedProject) -> None:
    async with project.open() as conversation:
        conversation.report(UsageReported(usage=Usage(input=70), model="fake/gpt-4o"))

        assert "Requests while idle: 1" in (await run_command("/cost", conversation)).text


async def test_cost_is_known_without_stored_session(project: ScriptedProject) -> None:
    project.configure("\n[session]\nsave = false\nsnapshots = false\n")
    project.model.will_say("Hello.", usage=Usage(input=1000, output=20))
    async with project.open() as conversation:
        await conversation.send("hi")

        text = (await run_command("/cost", conversation)).text

    [row] = [line.split() for line in text.splitlines() if line.split()[:1] == ["fake/gpt-4o"]]
    assert row[1:] == ["1", "1,000", "20", "0", "$0.0027"]


def record(
    seq: int, type_name: str, ts: str = "2026-01-01T10:00:00+00:00", **data: object
) -> Record:
    return Record(id=f"r{seq}", seq=seq, parent=None, ts=ts, type=type_name, data=data)


def answered(seq: int, model: str, usage: dict[str, int], ts: str) -> list[Record]:
    message = {"role": "assistant", "content": [], "model": model, "usage": usage}
    reported = {"usage": usage, "model": model, "cost_usd": 0.5}
    return [record(seq, "message", ts, **message), record(seq + 1, "usage", ts, **reported)]


def test_cache_report_names_events_between_two_turns() -> None:
    usage = {"input": 100, "cache_read": 90}
    early, late = "2026-01-01T10:00:00+00:00", "2026-01-01T10:30:00+00:00"
    records = [
        *answered(1, "a/one", usage, early),
        record(3, "usage", early, usage={"input": 5}, model="a/one", cost_usd=None),
        record(4, "compaction", early),
        *answered(5, "a/one", usage, early),
        *answered(7, "a/two", usage, late),
    ]

    first, summary, second, third = requests_of(records)

    assert [one.is_turn for one in (first, summary, second)] == [True, False, True]
    assert summary.role == SUMMARY
    assert (first.since, second.since) == ((), ("the context was compacted",))
    assert third.since == ("another model", "30 min passed: the cache may have expired")
    assert summary.cost_usd is None


def test_answer_without_usage_counts_as_request() -> None:
    message = {"role": "assistant", "model": "a/one", "content": [{"type": "text", "text": "x"}]}

    [asked] = requests_of([record(1, "message", **message)])

    assert (asked.model, asked.cost_usd, asked.usage) == ("a/one", None, Usage())


async def test_cache_is_listed_by_request(project: ScriptedProject) -> None:
    for usage in (Usage(input=1000, cache_read=900), Usage(input=1000, cache_read=100)):
        project.model.will_say("Yes.", usage=usage)
    async with project.open() as conversation:
        await conversation.send("one")
        conversation.settings.set_model("gpt-4.1")
        await conversation.send("two")

        text = (await run_command("/cache", conversation)).text
    async with project.open("newest") as conversation:
        again = (await run_command("/cache", conversation)).text

    assert "50% of 2,000 input tokens in 2 requests" in text
    assert text.splitlines()[-1].endswith("10%  another model, fake/gpt-4.1")
    assert again == text


async def test_cache_report_names_changed_section_of_system_prompt(
    project: ScriptedProject,
) -> None:
    for cached in (900, 0, 0):
        project.model.will_say("Yes.", usage=Usage(input=1000, cache_read=cached))
    async with project.open() as conversation:
        await conversation.send("one")
        (project.folder / ".git").mkdir()
        (project.folder / ".git" / "HEAD").write_text("ref: refs/heads/topic\n")
        await conversation.send("two")
        aside = await conversation.fork(ForkOptions(tools=()))
        await aside.close()
        await conversation.send("three")

        *_, second, third = (await run_command("/cache", conversation)).text.splitlines()

    assert second.endswith("0%  the system prompt changed: environment")
    assert third.endswith("0%")
    [*_, last] = conversation.reported
    assert last.changed == ()


def test_cache_report_names_changed_message_with_cause() -> None:
    usage = {"input": 100, "cache_read": 90}
    early = "2026-01-01T10:00:00+00:00"
    message, reported = answered(4, "a/one", usage, early)
    changed = {**reported.data, "changed": ["message 2 of 9 changed"]}
    records = [
        *answered(1, "a/one", usage, early),
        record(3, "compaction", early),
        message,
        record(5, "usage", early, **changed),
    ]
    assert requests_of(records)[1].since == ("message 2 of 9 changed (the context was compacted)",)


async def test_status_shows_session_folders_model_and_mode(
    project: ScriptedProject, tmp_path: Path
) -> None:
    (project.folder / ".git").mkdir()
    (project.folder / ".git" / "HEAD").write_text("ref: refs/heads/topic\n")
    project.model.will_say("Hello.")
    async with project.open() as conversation:
        await conversation.send("hi")
        conversation.rename("the parser")
        conversation.settings.add_folder(tmp_path / "config")

        text = (await run_command("/status", conversation)).text

        for expected in (
            f"dirge {__version__}",
            f"{conversation.session_id}  the parser",
            str(project.journal),
            f"{project.folder} · topic",
            str(tmp_path / "config"),
            "fake/gpt-4o, thinking",
            "standard",
            "bash",
        ):
            assert expected in text


async def test_todos_command_shows_items_with_their_state(project: ScriptedProject) -> None:
    items = [
        {"id": "1", "text": "read", "status": "done"},
        {"id": "2", "text": "write", "status": "pending"},
    ]
    project.model.will_call("todo", items=items)
    project.model.will_say("Noted.")
    async with project.open() as conversation:
        assert (await run_command("/todos", conversation)).text == "The todo list is empty."
        await conversation.send("plan")

        assert (await run_command("/todos", conversation)).text == (
            "Todo list, 1 of 2 done\n[x] read\n[ ] write"
        )


async def test_effort_shows_and_sets_thinking_level(project: ScriptedProject) -> None:
    async with project.open() as conversation:
        assert "xhigh" in "".join((await run_command("/effort", conversation, None)).asked)
        await run_command("/effort high", conversation)
        assert conversation.settings.thinking == "high"
        with pytest.raises(UsageError, match="no level 'huge'"):
            await run_command("/effort huge", conversation)
        assert conversation.settings.thinking == "high"


async def test_side_question_sees_conversation_and_is_not_stored(
    project: ScriptedProject,
) -> None:
    project.model.will_say("It is a parser.")
    project.model.will_say("You asked about the parser.", usage=Usage(input=300, output=9))
    async with project.open() as conversation:
        await conversation.send("what is it?")
        before = list(conversation.messages)

        text = (await run_command("/btw what did I ask?", conversation)).text

        assert "You asked about the parser." in text
        assert list(conversation.messages) == before
        assert conversation.usage.input >= 300
        assert conversation.idle_requests == 0
    asked = project.model.seen[-1]
    assert any("It is a parser." in getattr(m, "text", "") for m in asked.messages)
    assert "what did I ask?" in asked.messages[-1].text  # type: ignore[union-attr]
    assert not asked.tools
    assert "what did I ask" not in project.journal.read_text()


async def test_failed_side_question_explains_reason(project: ScriptedProject) -> None:
    async with project.open() as conversation:
        with pytest.raises(UsageError, match="Ask what"):
            await run_command("/btw", conversation)
        project.model.will_fail("the service is down")
        with pytest.raises(DirgeError, match="No answer:"):
            await run_command("/btw why?", conversation)
        assert conversation.side_questions == 0


async def test_changelog_shows_newest_release_notes(project: ScriptedProject) -> None:
    async with project.open() as conversation:
        assert f"dirge {__version__}" in (await run_command("/changelog", conversation)).text

    wrapped = "# C\n\n## [1.0.0]\n\n- one and\n  the same\n- other\n"
    assert newest_notes(wrapped).endswith("- one and the same\n- other")
    text = "# Changelog\n\n## [Unreleased]\n\n## [1.1.0]\n\n- new\n\n## [1.0.0]\n\n- old\n"
    assert newest_notes(text).endswith("[1.1.0]\n\n- new")


async def test_feedback_report_contains_no_secrets_or_messages(
    project: ScriptedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k3y-that-nobody-may-see")
    monkeypatch.setenv("pg_pass", "w0rd-that-nobody-may-see")
    log = project.state_dir / "log"
    log.mkdir(parents=True)
    notes = [
        {"level": "INFO", "logger": "dirge_py", "text": "fine"},
        {"level": "ERROR", "logger": "dirge_py", "text": "broke at k3y-that-nobody-may-see"},
        {"level": "ERROR", "logger": "db", "text": "w0rd-that-nobody-may-see\n## \x1b[2Jmine"},
    ]
    (log / "dirge.jsonl").write_text("".join(f"{json.dumps(n)}\n" for n in [*notes, "odd"]))
    project.model.will_say("A secret of mine.")
    async with project.open() as conversation:
        await conversation.send("tell me")
        shown = (await run_command("/feedback the screen flickers", conversation)).text

    [file] = project.folder.glob("dirge-report-*.md")
    report = file.read_text()
    assert str(file) in shown
    assert "Nothing was sent" in shown
    assert "the screen flickers" in report
    assert f"dirge {__version__}" in report
    assert "ERROR dirge_py broke at" in report
    assert "    ok " in report
    assert "nobody-may-see" not in report
    assert "\x1b" not in report
    assert "\n    ## " in report
    assert "fine" not in report
    assert "A secret of mine" not in report
