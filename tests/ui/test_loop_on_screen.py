"""What the screen shows of what dirge does by itself in a run."""

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
from tests.conversation.room import Room
from tests.ui.running_app import HELD, RunningApp, running_app
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


def seen(*events: object, expanded: bool = False) -> str:
    """What a page shows of these events."""
    page = Page(STYLES, 100)
    renderer = TranscriptRenderer(page)
    for event in events:
        renderer.on_event(event)  # type: ignore[arg-type]
    page.expand_all(expanded)
    return page.text


def called(text: str, is_error: bool, **details: object) -> str:
    """What a page shows of one call that got this result."""
    result = text_result(text, is_error=is_error, **details)
    call = {"tool_call_id": "c", "tool_name": "grep"}
    return seen(
        START,
        ToolExecutionStart(args={"pattern": "x"}, **call),
        ToolExecutionEnd(result=result, is_error=is_error, **call),
    )


# -- folding


def test_a_fold_is_told_with_its_sizes_and_who_wrote_the_summary() -> None:
    text = seen(START, CompactionStarted(tokens_before=182_400), FOLD)

    assert text == "· Context compacted: about 182k → 41k tokens, summary by work/small."


def test_while_a_summary_is_written_the_screen_says_so() -> None:
    text = seen(START, CompactionStarted(tokens_before=182_400))

    assert text == "· Compacting the context, about 182k tokens…"


def test_an_activity_ends_with_the_run() -> None:
    text = seen(START, CompactionStarted(tokens_before=9), AgentEnd(messages=(), outcome=Done()))

    assert text == ""


def test_a_summary_that_failed_is_not_called_a_success() -> None:
    kept = ContextCompacted(
        tokens_before=90, tokens_after=90, first_kept_index=0, kind="failed_summary"
    )

    assert "nothing was left out" in describe_event(kept)
    assert "compacted" not in describe_event(kept)


SMALL_WINDOW = "[context]\nwindow_tokens = 20000\n"
SUMMARY = "## Active task\nTalk on.\n## Goal\nTo talk."


async def talked(d: RunningApp) -> None:
    """A conversation that there is something to fold of."""
    for n in range(3):
        await d.send(f"talk {n} " + "word " * 1200)
        await d.until(lambda n=n: f"answer {n}" in d.text)
        await d.idle()


def will_talk(room: Room, summary: Reply) -> None:
    room.configure(SMALL_WINDOW)
    for n in range(3):
        room.model.will_say(f"answer {n}")
    room.model.will(summary)


async def test_compact_is_answered_once(room: Room):
    will_talk(room, Reply(text=SUMMARY))
    async with running_app(room) as d:
        await talked(d)
        await d.send("/compact")
        await d.until(lambda: "Compacted." in d.text)
        await d.idle()
        assert d.text.lower().count("compact") == 1, d.text


async def test_what_is_typed_while_the_context_is_compacted_is_sent_afterwards(room: Room):
    written = asyncio.Event()
    will_talk(room, Reply(text=SUMMARY, wait=written.wait))
    async with running_app(room) as d:
        await talked(d)
        await d.send("/compact")
        await d.until(lambda: "compacting" in d.screen)
        await d.send("and now this")
        await d.until(lambda: "when done: and now this" in d.screen)
        await d.send("/clear")
        await d.until(lambda: "/clear has to wait: the context is being compacted" in d.text)
        d.app.composer.put("")
        written.set()
        await d.until(lambda: "and now this" in d.sent)
        await d.idle()
        assert "Compacted." in d.text
        assert room.heard().count("and now this") == 1


async def test_esc_ends_a_compaction_and_gives_back_what_was_typed(room: Room):
    will_talk(room, Reply(text=SUMMARY, wait=asyncio.Event().wait))
    async with running_app(room) as d:
        await talked(d)
        await d.send("/compact")
        await d.until(lambda: "compacting" in d.screen)
        await d.send("my words")
        await d.until(lambda: "my words" in d.screen)
        await d.pilot.press("escape")
        await d.idle()
        assert d.app.composer.text == "my words"
        assert "Interrupted." in d.text
        assert len(d.sent) == 3
        await d.pilot.press("enter")
        await d.until(lambda: "my words" in d.sent)


# -- calls


def test_a_repeated_call_does_not_look_like_a_failure_of_its_tool() -> None:
    pivot = called("Stop and think.", False, outcome="suppressed", storm={"count": 3})
    partial = called("Use the result.", True, outcome="suppressed", storm={"count": 4})

    assert pivot == "≡ grep x  not run, the same call ×3"
    assert partial == "≡ grep x  not run, the same call ×4"


def test_a_call_that_the_end_of_the_run_left_unanswered_is_not_a_failure_either() -> None:
    assert called("Not run.", True, outcome="suppressed") == "◌ grep x  not run"


def test_a_tool_that_asks_for_another_try_has_not_failed_yet() -> None:
    told = {"retry": True, "attempt": 1, "attempts": 3}
    text = called("Give a year.", True, outcome="invalid", **told)

    assert text == "↻ grep x  asks for another try, 1/3\n  Give a year."


def test_a_withheld_result_is_not_a_denied_call() -> None:
    text = called("withheld", True, outcome="denied", withheld="`secrets`: it holds a key")

    assert text.split("\n")[0] == "⊘ grep x  ran, its result withheld"


def test_repairs_are_for_who_wants_to_see_everything() -> None:
    stats = RepairStats(counts={"renamed": 1, "stripped_nulls": 4})
    events = (START, stats, AgentEnd(messages=(), outcome=Done()))

    assert seen(*events) == ""
    assert seen(*events, expanded=True) == (
        "· Arguments of tool calls in this run: stripped_nulls 4×, renamed 1×."
    )


def test_an_escalation_names_who_answers_next_and_why() -> None:
    event = EscalationActivated(provider="strong/big", reason="repair_exhausted: edit")

    assert seen(event) == (
        "· strong/big makes the next call: the arguments of `edit` stayed wrong."
    )


# -- words of dirge


def test_words_to_the_model_are_signed_and_cut_until_they_are_asked_for() -> None:
    message = user_text("one\ntwo\nthree\nfour\nfive", "harness")

    assert seen(MessageEnd(message)) == (
        "» from dirge, to the model\n  one\n  two\n  three\n  … 2 more lines"
    )
    assert seen(MessageEnd(message), expanded=True).endswith("  four\n  five")


def test_words_of_the_person_and_of_dirge_look_different() -> None:
    own, other = (seen(MessageEnd(user_text("same", origin))) for origin in ("user", "harness"))

    assert own == "› same"
    assert other == "» from dirge, to the model\n  same"


def test_the_closing_words_of_dirge_are_not_the_models() -> None:
    message = AssistantMessage(content=(TextBlock("I stopped."),), origin="harness")
    page = Page(STYLES, 100)
    TranscriptRenderer(page).replay([message])

    assert seen(MessageEnd(message)) == page.text == "» from dirge\n  I stopped."


async def test_a_storm_ends_in_words_that_are_signed(room: Room):
    for _ in range(4):
        room.model.will_call("list_dir", path=".")
    async with running_app(room) as d:
        await d.send("look")
        await d.until(lambda: "Stopped by the storm guard" in d.text)
        await d.idle()
        assert "not run, the same call ×3" in d.text
        assert "» from dirge\n  I kept repeating `list_dir`" in d.text
        assert "✗" not in d.text
        assert d.conversation.is_running is False


async def test_an_answer_that_broke_off_is_gone_on_with(room: Room):
    room.model.will_fail("the connection broke", kind="network", text="The first half")
    room.model.will_say("and the second.")
    async with running_app(room) as d:
        await d.send("tell me")
        await d.until(lambda: "and the second." in d.text)
        await d.idle()
        assert "The first half" in d.text
        assert "! Try 2: the connection broke" in d.text
        assert "» from dirge, to the model\n  [Your answer was cut off" in d.text


async def test_a_try_that_broke_off_leaves_only_the_next_one(room: Room):
    room.model.will_fail("overloaded", kind="server")
    room.model.will_say("Here I am.")
    async with running_app(room) as d:
        await d.send("tell me")
        await d.until(lambda: "! Try 2" in d.screen)
        await d.until(lambda: "Here I am." in d.text)
        await d.idle()
        assert "Try 2" not in d.text
        d.app.transcript.toggle_all()
        assert "· Try 2: overloaded" in d.text


async def test_a_change_is_split_where_the_screen_is_wide(room: Room):
    (room.project / "a.py").write_text("x = old\n")
    room.model.will_call("read", path="a.py")
    room.model.will_call("edit", path="a.py", old_text="old", new_text="new").will_say("Done.")
    async with running_app(room, mode="yolo", size=(140, 30)) as d:
        await d.send("change it")
        await d.until(lambda: "Done." in d.text)
        assert "-x = old" in d.screen
        assert any("-x = old" in line and "+x = new" in line for line in d.screen.split("\n"))
        await d.until(lambda: "4 turns" in d.text)


# -- guardrails and limits

NO_WORD = '[[guardrail]]\non = "{}"\nname = "words"\npattern = "hush"\n'


async def test_what_an_input_guardrail_stops_is_back_in_the_input(room: Room):
    room.configure(NO_WORD.format("input"))
    async with running_app(room) as d:
        await d.send("say hush now")
        await d.until(lambda: "Not sent: guardrail `words`" in d.text)
        await d.idle()
        assert d.app.composer.text == "say hush now"
        assert d.sent == []
        assert room.model.seen == []


async def test_a_withheld_answer_is_taken_off_the_screen(room: Room):
    room.configure(NO_WORD.format("output"))
    gate = asyncio.Event()
    room.model.will(
        Reply(
            text="The word is hush.",
            thinking="hush?",
            calls=[("list_dir", {"path": "."})],
            hold=gate.wait,
        )
    )
    async with running_app(room) as d:
        await d.send("which word?")
        await d.until(lambda: "The word is hush." in d.text)
        gate.set()
        await d.until(lambda: "withheld" in d.text)
        await d.idle()
        assert "is hush" not in d.text
        assert "list_dir" not in d.text
        assert "! The answer was withheld by guardrail `words`: it matches `hush`." in d.text
        assert d.text.count("`words`") == 1
        stored = d.conversation.session_id or ""

    async with running_app(room, resumes=stored) as d:
        assert "The answer was withheld by guardrail `words`" in d.text
        assert "is hush" not in d.text


async def test_what_an_input_guardrail_stops_during_a_run_comes_back_too(room: Room):
    room.configure(NO_WORD.format("input"))
    room.model.will_call("bash", command=HELD).will_say("All done.")
    async with running_app(room, mode="yolo") as d:
        await d.send("build it")
        await d.until(lambda: "\n   cc a.c" in d.screen)
        await d.send("hush and hurry")
        await d.until(lambda: "q:1" in d.screen)
        d.release_command()
        await d.idle()
        assert "Not sent: guardrail `words`" in d.text
        assert d.app.composer.text == "hush and hurry"
        assert d.sent == ["build it"]


async def test_after_a_limit_the_run_can_be_carried_on(room: Room):
    room.configure("[limits]\nrequests = 1\n")
    room.model.will_call("list_dir", path=".").will_say("All done.")
    async with running_app(room) as d:
        await d.send("look")
        await d.until(lambda: "request limit exceeded: 2 > 1. /continue goes on." in d.text)
        await d.idle()
        assert d.text.count("limit exceeded") == 1
        await d.send("/continue")
        await d.until(lambda: "All done." in d.text)


def test_another_history_for_the_model_is_told() -> None:
    assert "sees another history" in seen(START, ContextReplaced(messages=()))


def test_a_limit_is_told_with_the_way_on() -> None:
    outcome = LimitExceeded(name="tokens", used=101, max=100)
    text = seen(START, AgentEnd(messages=(), outcome=outcome))

    assert text == "! Stopped: total token limit exceeded: 101 > 100. /continue goes on."


def test_endings_by_hooks_and_single_turns_are_told() -> None:
    stopped = HookTerminated(point="before_tool_call", reason="the plugin said so")

    assert seen(START, AgentEnd(messages=(), outcome=stopped)) == (
        "! Stopped at before_tool_call: the plugin said so"
    )
    assert "/continue goes on" in seen(START, AgentEnd(messages=(), outcome=NeedsMoreTurns(turn=1)))


# -- help


async def test_help_and_completion_know_the_commands_of_the_loop(room: Room):
    async with running_app(room) as d:
        await d.send("/help")
        await d.until(lambda: "Commands" in d.text)
        for name in ("/compact", "/context", "/continue", "/plugins", "/hooks", "/tools"):
            assert name in d.text
            known = d.app.front.commands.complete(name[1:])
            assert name[1:] in [found for found, _ in known]
