"""The loop: outer turns, inner turns, and every way a run ends. It only decides the order."""

import logging
from collections.abc import Coroutine, Sequence
from typing import Any

from dirge_py.agent_loop.cancellation import run_to_end
from dirge_py.agent_loop.dispatch import execute_tool_calls
from dirge_py.agent_loop.history import OpenCalls, check_resumable, continuation_prompt
from dirge_py.agent_loop.state import RunState
from dirge_py.agent_loop.stream import stream_assistant_response
from dirge_py.types.abort import AbortSignal
from dirge_py.types.events import AgentStart, Sink
from dirge_py.types.hooks import CallDecision, Context, LoopConfig, StopRun
from dirge_py.types.llm import StreamFn
from dirge_py.types.messages import Message, ToolCallBlock
from dirge_py.types.outcomes import Cancelled, Done, Failed, LimitExceeded, MaxTurns, Outcome

_logger = logging.getLogger(__name__)


async def run_agent_loop(
    prompts: Sequence[Message],
    *,
    context: Context,
    config: LoopConfig,
    signal: AbortSignal,
    emit: Sink,
    stream_fn: StreamFn,
) -> list[Message]:
    """Return everything the run added to history, in order; its `AgentEnd` says how it ended.

    Raises only a cancellation from outside, after the run has emitted its end.
    """
    run = RunState(context=context, config=config, signal=signal, emit=emit, stream_fn=stream_fn)
    return await run_to_end(_run(run, prompts), signal)


def run_agent_loop_continue(
    *,
    context: Context,
    config: LoopConfig,
    signal: AbortSignal,
    emit: Sink,
    stream_fn: StreamFn,
    decisions: Sequence[CallDecision] = (),
) -> Coroutine[Any, Any, list[Message]]:
    """Continue from `context` without a new prompt: open calls first, in order, then the model.

    Raises ValueError, at once, if there is nothing to continue or a decision fits no open call.
    """
    waiting = check_resumable(context.messages, decisions)
    run = RunState(
        context=context,
        config=config,
        signal=signal,
        emit=emit,
        stream_fn=stream_fn,
        decisions=decisions,
    )
    return run_to_end(_run(run, continuation_prompt(context.messages), waiting), signal)


async def _run(
    run: RunState, prompts: Sequence[Message], waiting: OpenCalls | None = None
) -> list[Message]:
    run.emit(AgentStart(run_id=run.id))
    outcome: Outcome = Cancelled(reason="cancelled")
    try:
        run.begin_turn(prompts)
        outcome = await run_loop(run, waiting)
    except Exception as bug:
        # Errors of hooks, tools, sinks and providers are handled at their calls: this is a bug.
        _logger.exception("the loop failed")
        outcome = Failed(kind="bug", message=repr(bug))
    finally:
        run.end(outcome)
    return run.new_messages


async def run_loop(run: RunState, waiting: OpenCalls | None = None) -> Outcome:
    """Run the outer turns: each lasts until the agent would stop; follow-ups open another."""
    while True:
        stop = await _until_rest(run, waiting)
        if not stop.finalize or run.signal.aborted or run.signal.interjected:
            return stop.outcome
        info = run.info(ended_by=_ended_by(stop.outcome))
        try:
            follow_ups = await run.hooks.get_followup_messages(info, ())
        except StopRun as instead:
            run.close(instead)
            return instead.outcome
        if not follow_ups:
            return stop.outcome
        run.outer_turn += 1
        run.begin_turn(follow_ups)
        waiting = None


async def _until_rest(run: RunState, waiting: OpenCalls | None) -> StopRun:
    """Run the inner turns and return why they ended: the only place that catches StopRun."""
    try:
        is_continuing = True
        if waiting is not None:
            run.message = waiting.message
            is_continuing = await _finish_turn(run, waiting.calls)
        elif run.turn == 1:
            run.inject(await run.hooks.get_steering_messages(run.info()))
        while is_continuing:
            run.stop_if_asked()
            message = await stream_assistant_response(run)
            is_continuing = await _finish_turn(run, message.calls)
        stop = StopRun(Done(), finalize=True)
    except StopRun as early:
        stop = early
    run.close(stop)
    return stop


async def _finish_turn(run: RunState, calls: Sequence[ToolCallBlock]) -> bool:
    """Run the calls, end the turn and, if there is more to send, open the next one.

    The order is guaranteed: abort, then hooks that may stop the run, then the queue. Inputs taken
    from the queue enter history at once; the others stay queued.
    """
    wants_more = (bool(calls) and not await execute_tool_calls(run, calls)) or run.is_unfinished
    run.end_turn()
    run.stop_if_aborted()
    update = await run.hooks.prepare_next_turn(run.info(wants_more=wants_more))
    run.apply(update)
    if run.has_failed and update.continue_with is None:
        raise StopRun(run.failure())
    wants_more |= update.continue_with is not None
    if await run.hooks.should_stop_after_turn(run.info(wants_more=wants_more)):
        raise StopRun(Done())
    run.stop_if_aborted()
    if run.signal.interjected:
        raise StopRun(Cancelled(reason="interject") if wants_more else Done())
    steering = await run.hooks.get_steering_messages(run.info(wants_more=wants_more))
    pending = [*(update.continue_with or ()), *steering]
    if wants_more or pending:
        run.begin_turn(pending)
    return wants_more or bool(pending)


def _ended_by(outcome: Outcome) -> str:
    if isinstance(outcome, Done):
        return outcome.stopped_by or "natural"
    return "limit" if isinstance(outcome, MaxTurns | LimitExceeded) else "stop"
