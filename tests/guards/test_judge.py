"""Cases 106 and 107: another model judges a run that is about to end."""

import json
from dataclasses import replace

import pytest

from dirge_py.agent_loop import Context, compose
from dirge_py.guards.judge import (
    ARGUMENTS_CHARS,
    DIFF_BYTES,
    FIRST_CHARS,
    RESULT_CHARS,
    RULES_CHARS,
    TRANSCRIPT_CHARS,
    WorkspaceDiff,
    agent_rules,
    judge_check,
    run_transcript,
)
from dirge_py.guards.stop_checks import stop_checks
from dirge_py.guards.verification import Verification, track_verification
from dirge_py.testing import ScriptedModel
from dirge_py.types.errors import ProviderError
from dirge_py.types.events import SystemNotice
from dirge_py.types.messages import (
    AssistantMessage,
    CustomMessage,
    TextBlock,
    ToolCallBlock,
    user_text,
)
from dirge_py.types.outcomes import Done
from tests.support.guarded_runs import nudges, result, run_guarded, says, tools
from tests.support.loop_runs import run_loop


class Panel:
    """A judge with scripted answers (an exception is raised), and its prompts."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    async def __call__(self, system, prompt):
        self.asked.append((system, prompt))
        answer = self.answers.pop(0) if self.answers else "COMPLETE"
        if isinstance(answer, BaseException):
            raise answer
        return answer


class Tree:
    """A scripted diff of the workspace."""

    def __init__(self, *texts):
        self.texts = list(texts)
        self.looked = 0

    async def __call__(self):
        self.looked += 1
        text = self.texts.pop(0) if len(self.texts) > 1 else self.texts[0]
        if isinstance(text, Exception):
            raise text
        return None if text is None else WorkspaceDiff(text=text, fingerprint=text)


def working(stops=6, *, calls=1):
    model = ScriptedModel()
    for n in range(calls):
        model.will_call("read", path=f"{n}")
    for n in range(stops):
        model.will_say(f"done {n}")
    return model


def judged(*arguments, **more):
    return stop_checks([judge_check(*arguments, **more)])


def section(prompt, name):
    _, _, rest = prompt.partition(f"=== {name} ===\n")
    return rest.partition(f"\n=== end of {name} ===")[0]


async def test_case_106_incomplete_run_gets_one_message_after_one_judge_call():
    panel = Panel("INCOMPLETE\n- the tests are missing\n- so are the docs")
    model = working()
    run = await run_guarded(model, judged(panel))
    (text,) = nudges(run)
    assert "- the tests are missing\n- so are the docs" in text
    assert (len(panel.asked), len(model.seen)) == (1, 3)


async def test_case_106_complete_run_ends():
    panel = Panel("COMPLETE")
    run = await run_guarded(working(), judged(panel))
    assert (nudges(run), len(panel.asked)) == ([], 1)


@pytest.mark.parametrize("answer", ["ABSTAIN", "", "well …"])
async def test_case_106_unclear_verdict_ends_the_run(answer):
    assert nudges(await run_guarded(working(), judged(Panel(answer)))) == []


async def test_case_106_run_without_tool_calls_is_not_judged():
    panel = Panel("INCOMPLETE")
    run = await run_guarded(working(calls=0), judged(panel))
    assert (nudges(run), panel.asked) == ([], [])


@pytest.mark.parametrize("error", [ProviderError("down"), TimeoutError(), RuntimeError("bug")])
async def test_case_106_judge_failure_ends_the_run_with_a_notice(error):
    panel = Panel(error)
    run = await run_guarded(working(), judged(panel))
    assert isinstance(run.outcome, Done)
    assert (nudges(run), len(run.recorder.of(SystemNotice))) == ([], 1)


async def test_incomplete_verdict_without_detail_says_no_detail():
    assert "no detail" in nudges(await run_guarded(working(), judged(Panel("INCOMPLETE"))))[0]


async def test_complete_run_is_judged_again_only_after_more_tool_calls():
    panel = Panel()
    model = working(stops=1).will_say("two").will_call("read", path="b").will_say("three")
    typed = says("a", "b", "c")
    run = await run_guarded(model.will_say("four"), judged(panel), typed)
    assert (nudges(run), len(panel.asked)) == ([], 2)


async def test_blocking_judge_speaks_three_times_and_sees_its_earlier_messages():
    panel = Panel(*["INCOMPLETE\n- still nothing"] * 9)
    model = working()
    run = await run_guarded(model, judged(panel, mode="blocking"))
    assert (len(nudges(run)), len(panel.asked), len(model.seen)) == (3, 3, 5)
    earlier = [section(prompt, "your earlier words") for _, prompt in panel.asked]
    assert earlier[0] == ""
    assert "still nothing" in earlier[1]


async def test_diff_of_the_run_is_reviewed_in_the_same_message():
    panel = Panel(
        "INCOMPLETE\n- no docs\nFINDINGS\n[low] a.py:1: name\n---\n[high] a.py:2: loses a line"
    )
    run = await run_guarded(working(), judged(panel, diff=Tree("before", "after")))
    (text,) = nudges(run)
    places = [text.index(part) for part in ("- no docs", "loses a line", "a.py:1: name")]
    assert places == sorted(places)
    assert "To be fixed in your change:\n- [high]" in text
    assert "optional:\n- [low]" in text
    system, prompt = panel.asked[0]
    assert ("FINDINGS" in system, section(prompt, "change")) == (True, "after")


async def test_findings_of_a_complete_run_are_sent_to_the_model():
    panel = Panel("COMPLETE\nFINDINGS\n[medium] a.py:1: slow")
    (text,) = nudges(await run_guarded(working(), judged(panel, diff=Tree("", "x"))))
    assert "incomplete" not in text
    assert "[medium] a.py:1: slow" in text


@pytest.mark.parametrize("tree", [Tree("same"), Tree(None), Tree("before", " ")])
async def test_unchanged_diff_is_not_reviewed(tree):
    panel = Panel("COMPLETE\nFINDINGS\n[high] a.py: made up")
    run = await run_guarded(working(), judged(panel, diff=tree))
    system, prompt = panel.asked[0]
    assert (nudges(run), "FINDINGS" in system, "=== change" in prompt) == ([], False, False)


async def test_reviewed_diff_is_not_reviewed_again_but_completeness_is():
    panel = Panel("COMPLETE\nFINDINGS\n[high] a", "INCOMPLETE\n- b", "COMPLETE")
    run = await run_guarded(
        working(), judged(panel, mode="blocking", diff=Tree("0", "1", "1", "1"))
    )
    assert ["FINDINGS" in system for system, _ in panel.asked] == [True, False, False]
    assert len(nudges(run)) == 2


async def test_diff_is_shown_again_if_its_review_failed():
    panel = Panel(ProviderError("down"), "COMPLETE")
    model = working()
    judge = judged(panel, mode="blocking", diff=Tree("0", "1"))
    run = await run_guarded(model, judge, says("go on"))
    assert [section(prompt, "change") for _, prompt in panel.asked] == ["1", "1"]
    assert nudges(run) == []


async def test_failing_baseline_diff_blocks_no_call():
    panel = Panel()
    run = await run_guarded(working(), judged(panel, diff=Tree(OSError("git"), "after")))
    assert run.outcomes == ["ok"]
    assert section(panel.asked[0][1], "change") == "after"


async def test_baseline_diff_is_taken_once_before_the_first_call():
    tree = Tree("a")
    await run_guarded(working(calls=3), judged(Panel(), diff=tree))
    assert tree.looked == 2


async def test_judge_without_a_diff_function_has_no_before_tool_call_hook():
    assert judged(Panel()).before_tool_call is None


async def test_judge_prompt_contains_rules_transcript_and_checks():
    panel = Panel()
    verification = Verification()
    model = ScriptedModel().will_call("edit", path="a.py").will_say("done")
    bundles = track_verification(verification), judged(panel, verification=verification)
    context = Context(system_prompt="Be brief.", tools=tools())
    await run_loop(model, "fix it", config=compose(*bundles), context=context)
    ((_, prompt),) = panel.asked
    assert section(prompt, "rules of the agent") == "Be brief."
    assert section(prompt, "run").splitlines()[0] == "USER: fix it"
    assert "nothing has run, built" in section(prompt, "checks")


async def test_shown_diff_is_truncated_at_its_limit():
    panel = Panel()
    await run_guarded(working(), judged(panel, diff=Tree("0", "é" * DIFF_BYTES)))
    shown = section(panel.asked[0][1], "change")
    assert len(shown.encode()) <= DIFF_BYTES + 60
    assert shown.endswith("[the rest of the change is left out]")


def test_case_107_agent_rules_are_truncated_by_characters():
    assert agent_rules("é" * RULES_CHARS) == "é" * RULES_CHARS
    assert len(agent_rules("é" * (RULES_CHARS + 1))) == RULES_CHARS


@pytest.mark.parametrize("tag", ["conversation-summary", "compaction_summary", "context-summary"])
def test_case_107_summaries_are_removed_from_agent_rules(tag):
    assert agent_rules(f"Be brief.\n<{tag} kind='x'>\nold\n</{tag}>\nBe kind.") == (
        "Be brief.\n\nBe kind."
    )


def test_run_transcript_has_one_entry_per_message_call_and_result():
    answer = AssistantMessage(
        content=(
            TextBlock("I look."),
            ToolCallBlock(id="a", name="read", arguments={"path": "é"}),
            ToolCallBlock(id="b", name="edit", arguments="{broken"),
        )
    )
    messages = [
        user_text("fix it"),
        user_text("look first", origin="harness"),
        answer,
        AssistantMessage(content=()),
        result("ok", "fine\nreally", tool="read"),
        result("error", "broke"),
        result("denied", "no"),
        result("failed_command", "Exit code: 1", tool="bash"),
        CustomMessage(kind="mark"),
    ]
    assert run_transcript(messages).split("\n\n") == [
        "USER: fix it",
        "HARNESS: look first",
        "AGENT: I look.",
        'CALL read {"path": "é"}',
        "CALL edit {broken",
        "RESULT read: fine really",
        "ERROR edit: broke",
        "DENIED edit: no",
        "FAILED COMMAND bash: Exit code: 1",
    ]


def test_results_and_arguments_are_truncated_in_the_transcript():
    long = json.dumps({"content": "x" * 999})
    call = ToolCallBlock(id="a", name="w", arguments={"content": "x" * 999})
    text = run_transcript([AssistantMessage(content=(call,)), result("ok", long, tool="w")])
    first, second = text.split("\n\n")
    assert len(first.removeprefix("CALL w ")) == ARGUMENTS_CHARS
    assert len(second.removeprefix("RESULT w: ")) == RESULT_CHARS


def test_only_an_error_result_is_marked_denied_in_the_transcript():
    odd = replace(result("denied", "but it went well"), is_error=False)
    assert run_transcript([odd]) == "RESULT edit: but it went well"


def test_long_transcript_keeps_its_beginning_and_end():
    messages = [user_text(f"message {n} " + "x" * 300) for n in range(100)]
    text = run_transcript(messages)
    assert len(text) <= TRANSCRIPT_CHARS
    assert text.startswith("USER: message 0 ")
    assert "characters left out" in text[FIRST_CHARS : FIRST_CHARS + 60]
    assert text.endswith("x" * 300)
    assert "message 99 " in text
    assert "message 50 " not in text
