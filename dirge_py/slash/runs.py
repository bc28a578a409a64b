"""Commands of runs, such as `/continue`, `/step` and `/stop`, and of background commands."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from dirge_py.context.prompt_text import prompt_text
from dirge_py.conversation.conversation import Conversation
from dirge_py.conversation.deps import ForkOptions
from dirge_py.lib.shell_lexer import without_leading_comments
from dirge_py.lib.text import truncate, visible
from dirge_py.processes.runner import ShellState
from dirge_py.sdk.outcome_text import why_not_done
from dirge_py.session.recovery import choices_from_answers, decide_calls, recovery_questions
from dirge_py.session.transcript import CallChoice
from dirge_py.session.tree import settings_at
from dirge_py.slash.base import FrontEnd, Unsupported, command
from dirge_py.tools.todo_list import TodoList
from dirge_py.types.errors import DirgeError, UsageError
from dirge_py.types.events import LoopEvent, UsageReported
from dirge_py.types.messages import AssistantMessage, ToolResultMessage

_SHOWN_CHARS = 60
_NO_TODOS = "The todo list is empty."
_SIDE_QUESTION = (
    "A question on the side, about this conversation. Answer it briefly, from what was said and "
    "shown so far; you have no tools for it, and the work doesn't wait for your answer.\n\n"
)


@command(
    "continue",
    "continue a run that stopped at a limit, an error or an interruption, with fresh limits",
    while_running="no",
    headless=True,
)
async def continue_run(args: str, conversation: Conversation, front: FrontEnd) -> None:
    if args:
        hint = "To add something, send it as a prompt: that continues the run, too."
        raise UsageError("/continue takes no arguments.", hint=hint)
    await _continue(conversation, front, single_turn=False)


@command(
    "step",
    "run one turn, then pause: with PROMPT, or the next turn; in a run, pause after this turn",
    usage="[PROMPT]",
    while_running="yes",
)
async def step(args: str, conversation: Conversation, front: FrontEnd) -> None:
    if not conversation.is_running:
        if args:
            conversation.send(await conversation.attach(args), single_turn=True)
        else:
            await _continue(conversation, front, single_turn=True)
    elif args:
        hint = "A prompt during a run steers it; /step without one pauses after this turn."
        raise UsageError("A run is active, so /step cannot start another.", hint=hint)
    else:
        conversation.interject()
        front.show(
            "The run will pause after this turn's tool calls. Then /step takes the next turn."
        )


async def _continue(conversation: Conversation, front: FrontEnd, *, single_turn: bool) -> None:
    interruption = conversation.interruption
    if interruption is None:
        conversation.continue_run(single_turn=single_turn)
        return
    choices: Mapping[str, CallChoice] | None = {}
    if interruption.undecided:
        with suppress(Unsupported):
            answers = await front.form(recovery_questions(interruption))
            choices = choices_from_answers(interruption, answers)
    if choices is None:
        front.show("Not continued. /continue asks again; a prompt starts without it.")
        return
    decisions = decide_calls(interruption, choices)
    conversation.continue_run(decisions, single_turn=single_turn)


@command("stop", "stop the run after this turn's tool calls", while_running="yes")
async def stop(args: str, conversation: Conversation, front: FrontEnd) -> None:
    if args:
        raise UsageError("/stop takes no arguments.", hint="A prompt during a run steers it.")
    if conversation.is_compacting:
        front.show("Compaction has no turns: wait until it ends, or interrupt it.")
    elif conversation.is_running:
        conversation.interject()
        front.show("The run will stop after this turn's tool calls.")
    elif conversation.exclusive_owner is not None:
        conversation.exclusive_owner.interrupt("user")
        front.show("Stopping the plan.")
    else:
        front.show("Nothing is running.")


@command(
    "btw",
    "ask a side question: without tools, and not added to the conversation",
    usage="QUESTION",
    headless=True,
)
async def btw(args: str, conversation: Conversation, front: FrontEnd) -> None:
    if not args:
        raise UsageError("Ask what?", hint="For example: /btw which files did you change?")

    def count(event: LoopEvent) -> None:
        if isinstance(event, UsageReported):
            conversation.report(replace(event, role="btw"))

    aside = await conversation.fork(ForkOptions(history="frozen", tools=(), max_turns=1))
    aside.subscribe(count)
    conversation.side_questions += 1
    front.show("Asking a side question.")
    try:
        outcome = await aside.send(f"{_SIDE_QUESTION}{args}")
        answers = (m.text for m in reversed(aside.messages) if isinstance(m, AssistantMessage))
        answer = next(answers, "")
    finally:
        conversation.side_questions -= 1
        await aside.close()
    if not answer.strip():
        words, hint = why_not_done(outcome)
        raise DirgeError(f"No answer: {words}", hint=hint)
    front.show(f"By the way: {args}\n\n{answer.strip()}")


@command(
    "goal",
    "set a goal that a run must reach before it ends, judged by a model; off removes it",
    usage="[TEXT | off]",
    complete=lambda conversation: ["off"],
)
async def goal(args: str, conversation: Conversation, front: FrontEnd) -> None:
    configured = (config := front.settings()) and config.loop.gates.goal
    if not args:
        own = conversation.settings.goal
        current = configured if own is None else own
        front.show(f"The goal: {current}" if current else "There is no goal. /goal TEXT sets one.")
    elif args in ("off", "none"):
        conversation.settings.set_goal("")
        front.show("The goal is removed from the next run on.", tone="good")
    else:
        conversation.settings.set_goal(args)
        judge = (config and config.roles.critic) or "the main model"
        when = "the next run" if conversation.is_running else "your next prompt"
        until = f"From {when} on, each run continues until {judge} decides that the goal is met."
        front.show(f"The goal: {args}\n{until} /goal off removes it.", tone="good")


@command(
    "init",
    "have the model write or improve AGENTS.md for this project",
    usage="[WISHES]",
    while_running="no",
    headless=True,
)
async def init(args: str, conversation: Conversation, front: FrontEnd) -> None:
    wishes = f"\n\nWhat matters to me in particular: {args}" if args else ""
    conversation.send(f"{prompt_text('init')}{wishes}")


def running_commands(conversation: Conversation) -> list[str]:
    """The ids of the commands in the background that still run."""
    shells = conversation.environment.shells
    states = shells.list() if shells is not None else ()
    return [state.id for state in states if state.status == "running"]


@command(
    "tasks",
    "list background commands; `kill ID` ends one",
    usage="[kill ID]",
    aliases=("bashes", "ps"),
    while_running="yes",
    complete=lambda conversation: [f"kill {each}" for each in running_commands(conversation)],
)
async def tasks(args: str, conversation: Conversation, front: FrontEnd) -> None:
    shells = conversation.environment.shells
    if shells is None:
        raise UsageError("This conversation cannot run commands.")
    verb, _, shell_id = args.partition(" ")
    shell_id = shell_id.strip()
    if not args:
        front.show(
            "\n".join(map(_task_line, shells.list())) or "Nothing is running in the background."
        )
    elif verb != "kill" or not shell_id:
        raise UsageError(
            f"/tasks doesn't take {args!r}.", hint="/tasks lists them, /tasks kill ID ends one."
        )
    elif not shells.get(shell_id).is_running:
        front.show(f"{shell_id} has already ended.")
    else:
        await shells.kill(shell_id)
        front.show(f"{shell_id} was stopped.", tone="good")


def _task_line(state: ShellState) -> str:
    how = f"exit {state.exit_code}" if state.signal is None else f"signal {state.signal}"
    ended = {"timed_out": "time limit", "killed": "stopped", "running": "running"}
    how = ended.get(state.status, how)
    first, *more = without_leading_comments(state.command.strip()).split("\n")
    command = truncate(visible(first) + "…" * bool(more), _SHOWN_CHARS)
    asks = f"  asks: {visible(state.question)}" if state.question else ""
    minutes, seconds = divmod(round(state.duration_s), 60)
    hours, minutes = divmod(minutes, 60)
    took = f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
    return f"{state.id:<5} {how:<11} {took:>8} {state.total_bytes:>11,} bytes  {command}{asks}"


@command("todos", "show the model's todo list", aliases=("todo",), headless=True)
async def todos(args: str, conversation: Conversation, front: FrontEnd) -> None:
    records = conversation.timeline.records()
    if not records:
        # The last result of the tool holds the list.
        results = (m for m in reversed(conversation.messages) if isinstance(m, ToolResultMessage))
        front.show(next((m.text for m in results if m.tool_name == "todo"), "") or _NO_TODOS)
        return
    todo = TodoList()
    todo.load(settings_at(records).get("todo"))
    done = sum(item.status == "done" for item in todo.items)
    heading = f"Todo list, {done} of {len(todo.items)} done"
    front.show(f"{heading}\n{todo.as_text()}" if todo.items else _NO_TODOS)
