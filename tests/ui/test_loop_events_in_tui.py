"""Automatic actions of the loop on the screen."""

import asyncio

from dirge_py.frontend.event_text import describe_event
from dirge_py.providers.scripted import Reply
from dirge_py.types.events import (
    AgentEnd,
    AgentStart,
    CompactionStarted,
    ContextCompacted,
    ContextReplaced,
    EscalationActivated,
    MessageEnd,
    RepairStats,
    ToolExecutionEnd,
    ToolExecutionStart,
)
from dirge_py.types.messages import AssistantMessage, TextBlock, user_text
from dirge_py.types.outcomes import Done, HookTerminated, LimitExceeded, NeedsMoreTurns
from dirge_py.types.tools import text_result
from dirge_py.ui.theme.styles import load_theme, styles_for
from dirge_py.ui.transcript.renderer import TranscriptRenderer
from tests.support.app_driver import WAITING_COMMAND, AppDriver, running_app
from tests.support.project import ScriptedProject
from tests.ui.test_transcript import Page

STYLES = styles_for(load_theme("dark"))
START = AgentStart(run_id="r")
FOLD = ContextCompacted(
    tokens_before=182_400,
    tokens_after=41_000,
    first_kept_index=7,
    kind="summary",
    summary_model="work/small",
)


def page_text(*events: object, expanded: bool = False) -> str:
    """The text of a page with these events."""
    page = Page(STYLES, 100)
    renderer = TranscriptRenderer(page)
    for event in events:
        renderer.on_event(event)  # type: ignore[arg-type]
    page.expand_all(expanded)
    return page.text


def called(text: str, is_error: bool, **details: object) -> str:
    """The text of a page with one call and this result."""
    result = text_result(text, is_error=is_error, **details)
    call = {"tool_call_id": "c", "tool_name": "grep"}
    return page_text(
        START,
        ToolExecutionStart(args={"pattern": "x"}, **call),
        ToolExecutionEnd(result=result, is_error=is_error, **call),
    )


# -- compaction


def test_compaction_notice_shows_sizes_and_summary_model() -> None:
    text = page_text(START, CompactionStarted(tokens_before=182_400), FOLD)

    assert text == "· Context compacted: about 182k → 41k tokens, summary by work/small."


def test_running_compaction_is_shown() -> None:
    text = page_text(START, CompactionStarted(tokens_before=182_400))

    assert text == "· Compacting the context, about 182k tokens…"


def test_activity_notice_disappears_when_run_ends() -> None:
    text = page_text(
        START, CompactionStarted(tokens_before=9), AgentEnd(messages=(), outcome=Done())
    )

    assert text == ""


def test_failed_compaction_is_not_reported_as_success() -> None:
    kept = ContextCompacted(
        tokens_before=90, tokens_after=90, first_kept_index=0, kind="failed_summary"
    )

    assert "Nothing was left out" in describe_event(kept)
    assert "compacted" not in describe_event(kept)


SMALL_WINDOW = "[context]\nwindow_tokens = 20000\n"
SUMMARY = "## Active task\nTalk on.\n## Goal\nTo talk."


async def talked(driver: AppDriver) -> None:
    """A conversation that is long enough to compact."""
    for n in range(3):
        await driver.send(f"talk {n} " + "word " * 1200)
        await driver.until(lambda n=n: f"answer {n}" in driver.text)
        await driver.idle()


def will_talk(project: ScriptedProject, summary: Reply) -> None:
    project.configure(SMALL_WINDOW)
    for n in range(3):
        project.model.will_say(f"answer {n}")
    project.model.will(summary)


async def test_compact_command_prints_one_notice(project: ScriptedProject):
    will_talk(project, Reply(text=SUMMARY))
    async with running_app(project) as driver:
        await talked(driver)
        await driver.send("/compact")
        await driver.until(lambda: "Compacted." in driver.text)
        await driver.idle()
        assert driver.text.lower().count("compact") == 1, driver.text


async def test_prompt_typed_during_compaction_is_sent_afterwards(
    project: ScriptedProject,
):
    written = asyncio.Event()
    will_talk(project, Reply(text=SUMMARY, wait=written.wait))
    async with running_app(project) as driver:
        await talked(driver)
        await driver.send("/compact")
        await driver.until(lambda: "compacting" in driver.screen)
        await driver.send("and now this")
        await driver.until(lambda: "when done: and now this" in driver.screen)
        await driver.send("/clear")
        await driver.until(
            lambda: "/clear has to wait: the context is being compacted" in driver.text
        )
        driver.app.composer.put("")
        written.set()
        await driver.until(lambda: "and now this" in driver.sent)
        await driver.idle()
        assert "Compacted." in driver.text
        assert project.prompts_of_call().count("and now this") == 1


async def test_esc_cancels_compaction_and_restores_queued_prompt(project: ScriptedProject):
    will_talk(project, Reply(text=SUMMARY, wait=asyncio.Event().wait))
    async with running_app(project) as driver:
        await talked(driver)
        await driver.send("/compact")
        await driver.until(lambda: "compacting" in driver.screen)
        await driver.send("my words")
        await driver.until(lambda: "my words" in driver.screen)
        await driver.pilot.press("escape")
        await driver.idle()
        assert driver.app.composer.text == "my words"
        assert "Interrupted." in driver.text
        assert len(driver.sent) == 3
        await driver.pilot.press("enter")
        await driver.until(lambda: "my words" in driver.sent)


# -- calls


def test_suppressed_repeated_call_does_not_look_failed() -> None:
    pivot = called("Stop and think.", False, outcome="suppressed", storm={"count": 3})
    partial = called("Use the result.", True, outcome="suppressed", storm={"count": 4})

    assert pivot == '≡ grep "x"  not run, the same call ×3'
    assert partial == '≡ grep "x"  not run, the same call ×4'


def test_call_left_unanswered_at_run_end_does_not_look_failed() -> None:
    assert called("Not run.", True, outcome="suppressed") == '◌ grep "x"  not run'


def test_tool_retry_request_does_not_look_failed() -> None:
    told = {"retry": True, "attempt": 1, "attempts": 3}
    text = called("Give a year.", True, outcome="invalid", **told)

    assert text == '↻ grep "x"  asks the model to retry, 1/3\n  Give a year.'


def test_withheld_result_does_not_look_like_denied_call() -> None:
    text = called("withheld", True, outcome="denied", withheld="`secrets`: it holds a key")

    assert text.split("\n")[0] == '⊘ grep "x"  ran, result withheld'


def test_tool_call_repairs_are_shown_only_when_expanded() -> None:
    stats = RepairStats(counts={"renamed": 1, "stripped_nulls": 4})
    events = (START, stats, AgentEnd(messages=(), outcome=Done()))

    assert page_text(*events) == ""
    assert page_text(*events, expanded=True) == (
        "· Tool calls repaired in this run: stripped_nulls 4×, renamed 1×."
    )


def test_escalation_notice_names_next_model_and_reason() -> None:
    event = EscalationActivated(provider="strong/big", reason="repair_exhausted: edit")

    assert page_text(event) == (
        "· strong/big takes over for the next call: "
        "the arguments of `edit` were wrong again and again."
    )


# -- messages from dirge


def test_harness_message_is_signed_and_folded_until_expanded() -> None:
    message = user_text("one\ntwo\nthree\nfour\nfive", "harness")

    assert page_text(MessageEnd(message)) == (
        "» from dirge, to the model\n  one\n  two\n  three\n  … 2 more lines"
    )
    assert page_text(MessageEnd(message), expanded=True).endswith("  four\n  five")


def test_user_and_harness_messages_look_different() -> None:
    own, other = (
        page_text(MessageEnd(user_text("same", origin))) for origin in ("user", "harness")
    )

    assert own == "› same"
    assert other == "» from dirge, to the model\n  same"


def test_closing_message_of_dirge_is_signed_as_dirge() -> None:
    message = AssistantMessage(content=(TextBlock("I stopped."),), origin="harness")
    page = Page(STYLES, 100)
    TranscriptRenderer(page).replay([message])

    assert page_text(MessageEnd(message)) == page.text == "» from dirge\n  I stopped."


async def test_storm_guard_stop_is_signed_by_dirge(project: ScriptedProject):
    for _ in range(4):
        project.model.will_call("list_dir", path=".")
    async with running_app(project) as driver:
        await driver.send("look")
        await driver.until(lambda: "Stopped by the storm guard" in driver.text)
        await driver.idle()
        assert "not run, the same call ×3" in driver.text
        assert "» from dirge\n  I kept repeating `list_dir`" in driver.text
        assert "✗" not in driver.text
        assert driver.conversation.is_running is False


async def test_answer_cut_off_by_network_error_is_continued(project: ScriptedProject):
    project.model.will_fail("the connection broke", kind="network", text="The first half")
    project.model.will_say("and the second.")
    async with running_app(project) as driver:
        await driver.send("tell me")
        await driver.until(
            lambda: "! Retrying in 1 s (attempt 2): the connection broke" in driver.screen
        )
        assert "The first half" in driver.text
        await driver.until(lambda: "and the second." in driver.text)
        await driver.idle()
        assert "The first half" in driver.text
        assert "» from dirge, to the model\n  [Your answer was cut off" in driver.text


async def test_failed_attempt_is_hidden_once_retry_succeeds(project: ScriptedProject):
    project.model.will_fail("overloaded", kind="server")
    project.model.will_say("Here I am.")
    async with running_app(project) as driver:
        await driver.send("tell me")
        await driver.until(lambda: "! Retrying in" in driver.screen)
        await driver.until(lambda: "Here I am." in driver.text)
        await driver.idle()
        assert "attempt 2" not in driver.text.lower()
        driver.app.transcript.toggle_all()
        assert "· Attempt 2: overloaded" in driver.text


async def test_esc_during_a_retry_keeps_the_reason_on_the_screen(project: ScriptedProject):
    project.model.will_fail("overloaded", kind="server")
    async with running_app(project) as driver:
        await driver.send("tell me")
        await driver.until(lambda: "! Retrying in" in driver.screen)
        await driver.pilot.press("escape")
        await driver.until(lambda: "Interrupted." in driver.text)
        assert "The last attempt failed: overloaded" in driver.text


async def test_diff_is_split_on_wide_screen(project: ScriptedProject):
    (project.folder / "a.py").write_text("x = old\n")
    project.model.will_call("read", path="a.py")
    project.model.will_call("edit", path="a.py", old_text="old", new_text="new").will_say("Done.")
    async with running_app(project, mode="yolo", size=(140, 30)) as driver:
        await driver.send("change it")
        await driver.until(lambda: "Done." in driver.text)
        assert "-x = old" in driver.screen
        assert any("-x = old" in line and "+x = new" in line for line in driver.screen.split("\n"))
        await driver.until(lambda: "4 turns" in driver.text)


# -- guardrails and limits

NO_WORD = '[[guardrail]]\non = "{}"\nname = "words"\npattern = "hush"\n'


async def test_prompt_stopped_by_input_guardrail_returns_to_input(project: ScriptedProject):
    project.configure(NO_WORD.format("input"))
    async with running_app(project) as driver:
        await driver.send("say hush now")
        await driver.until(lambda: "Not sent: guardrail `words`" in driver.text)
        await driver.idle()
        assert driver.app.composer.text == "say hush now"
        assert driver.sent == []
        assert project.model.seen == []


async def test_withheld_answer_is_removed_from_screen(project: ScriptedProject):
    project.configure(NO_WORD.format("output"))
    gate = asyncio.Event()
    project.model.will(
        Reply(
            text="The word is hush.",
            thinking="hush?",
            calls=[("list_dir", {"path": "."})],
            hold=gate.wait,
        )
    )
    async with running_app(project) as driver:
        await driver.send("which word?")
        await driver.until(lambda: "The word is hush." in driver.text)
        gate.set()
        await driver.until(lambda: "withheld" in driver.text)
        await driver.idle()
        assert "is hush" not in driver.text
        assert "list_dir" not in driver.text
        assert "! The answer was withheld by guardrail `words`: it matches `hush`." in driver.text
        assert driver.text.count("`words`") == 1
        stored = driver.conversation.session_id or ""

    async with running_app(project, resumes=stored) as driver:
        assert "The answer was withheld by guardrail `words`" in driver.text
        assert "is hush" not in driver.text


async def test_steering_stopped_by_input_guardrail_returns_to_input(project: ScriptedProject):
    project.configure(NO_WORD.format("input"))
    project.model.will_call("bash", command=WAITING_COMMAND).will_say("All done.")
    async with running_app(project, mode="yolo") as driver:
        await driver.send("build it")
        await driver.until(lambda: "\n   cc a.c" in driver.screen)
        await driver.send("hush and hurry")
        await driver.until(lambda: "q:1" in driver.screen)
        driver.release_command()
        await driver.idle()
        assert "Not sent: guardrail `words`" in driver.text
        assert driver.app.composer.text == "hush and hurry"
        assert driver.sent == ["build it"]


async def test_run_stopped_by_limit_can_be_continued(project: ScriptedProject):
    project.configure("[limits]\nrequests = 1\n")
    project.model.will_call("list_dir", path=".").will_say("All done.")
    async with running_app(project) as driver:
        await driver.send("look")
        await driver.until(
            lambda: "request limit exceeded: 2 > 1. Use /continue to continue." in driver.text
        )
        await driver.idle()
        assert driver.text.count("limit exceeded") == 1
        await driver.send("/continue")
        await driver.until(lambda: "All done." in driver.text)


def test_replaced_context_is_reported() -> None:
    assert "sees a different history" in page_text(START, ContextReplaced(messages=()))


def test_limit_notice_names_continue_command() -> None:
    outcome = LimitExceeded(name="tokens", used=101, max=100)
    text = page_text(START, AgentEnd(messages=(), outcome=outcome))

    assert text == "! Stopped: total token limit exceeded: 101 > 100. Use /continue to continue."


def test_stop_by_hook_and_by_turn_limit_are_reported() -> None:
    stopped = HookTerminated(point="before_tool_call", reason="the plugin said so")

    assert page_text(START, AgentEnd(messages=(), outcome=stopped)) == (
        "! Stopped at before_tool_call: the plugin said so"
    )
    assert "/continue all" in page_text(
        START, AgentEnd(messages=(), outcome=NeedsMoreTurns(turn=1))
    )


# -- help


async def test_help_and_completion_list_loop_commands(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.send("/help")
        await driver.until(lambda: "Every day" in driver.text)
        for name in ("/compact", "/context", "/continue", "/plugins", "/hooks", "/tools"):
            assert name in driver.text
            known = driver.app.front.commands.complete(name[1:])
            assert name[1:] in [found for found, _ in known]
