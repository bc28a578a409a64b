"""Executes the calls of one answer: prepare, before, execute, after, finalize; one result each."""

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from itertools import takewhile
from typing import Any

from dirge_py.agent_loop import tool_calls
from dirge_py.agent_loop.cancellation import Aborted, run_to_end, until_aborted
from dirge_py.agent_loop.interceptors import intercepted
from dirge_py.agent_loop.merge import changed_result
from dirge_py.agent_loop.state import RunState
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types import events
from dirge_py.types.abort import AbortSignal
from dirge_py.types.hooks import CallDecision, Context, Defer, LoopConfig, StopRun, ToolOverride
from dirge_py.types.llm import StreamEvent
from dirge_py.types.messages import TextBlock, ToolCallBlock, ToolResultMessage
from dirge_py.types.outcomes import AwaitingConfirmation
from dirge_py.types.tools import LoopToolResult, OnUpdate, ToolCall, only_looks, text_result


async def execute_tool_calls(run: RunState, blocks: Sequence[ToolCallBlock]) -> bool:
    """Execute and answer every call; return whether all of them asked to end the inner loop.

    The calls run together if the config allows it and each of them only looks, or its tool says so;
    else one at a time. When this returns or raises, each call has one start, one end and one
    result; deferred calls have none.
    Raises StopRun if a hook ended the run, or a call was deferred.
    """
    batch = _Batch(run, blocks)
    try:
        await batch.run()
    finally:
        batch.answer_unanswered()
    return batch.is_terminated


async def call_outside_run(
    name: str,
    arguments: Mapping[str, Any],
    *,
    context: Context,
    config: LoopConfig,
    emit: events.Sink,
) -> LoopToolResult:
    """Execute one call that no model made, with the hooks and interceptors of `config`.

    A call that a hook defers is denied: no run waits for the decision.
    """
    results: list[LoopToolResult] = []

    def watch(event: events.LoopEvent) -> None:
        if isinstance(event, events.ToolExecutionEnd):
            results.append(event.result)
        emit(event)

    signal = AbortSignal()
    run = RunState(context=context, config=config, signal=signal, emit=watch, stream_fn=_no_model)
    call = ToolCallBlock(id=config.new_id(), name=name, arguments=dict(arguments))
    try:
        await run_to_end(execute_tool_calls(run, [call]), signal)
    except StopRun as stop:
        if isinstance(stop.outcome, AwaitingConfirmation):
            return tool_calls.UNDECIDED
    return results[-1]


async def _no_model(*_: object) -> AsyncIterator[StreamEvent]:
    raise RuntimeError("A call outside a run asks no model.")
    yield


@dataclass(slots=True, eq=False)
class _Slot:
    """The state of one call in the batch."""

    block: ToolCallBlock
    """The call as the model wrote it."""
    call: ToolCall
    """The call as hooks see it."""
    decision: CallDecision | None
    """What was decided about it while the run was interrupted."""
    arguments: Any = None
    """A private copy of the arguments it runs with, so that they cannot change after the checks."""
    result: LoopToolResult | None = None
    is_started: bool = False
    is_running: bool = False
    is_deferred: bool = False
    is_recorded: bool = False


class _Batch:
    def __init__(self, run: RunState, blocks: Sequence[ToolCallBlock]) -> None:
        self._run = run
        self._slots = [self._prepared(block) for block in blocks]
        self._calls = tuple(slot.call for slot in self._slots)
        self._is_sequential = run.config.tool_execution == "sequential"

    @property
    def is_terminated(self) -> bool:
        results = [slot.result for slot in self._slots]
        return bool(results) and all(result is not None and result.terminate for result in results)

    async def run(self) -> None:
        """Run the calls: together, after all have passed their preflight, or one at a time.

        If a hook turned a call into one that changes something, it and the later calls wait for
        those before them, and run one at a time.
        """
        if len(self._slots) > 1 and not self._is_sequential:
            self._is_sequential = not all(map(self._may_overlap, self._calls))
        ready: list[_Slot] = []
        for slot in self._slots:
            if self._run.signal.aborted:
                return
            self._start(slot)
            judged = slot.call
            deferral = None if self._is_answered(slot) else await self._preflight(slot)
            if self._run.signal.aborted:
                return
            if deferral is not None:
                await self._execute_all(ready)
                if not self._run.signal.aborted:
                    self._defer_from(slot, deferral)
                return
            may_join = slot.call is judged or self._may_overlap(slot.call)
            if slot.result is None and not (may_join or self._is_sequential):
                self._is_sequential = True
                await self._execute_all(ready)
                ready = []
                if self._run.signal.aborted:
                    return
            if self._is_sequential:
                if slot.result is None:
                    await self._execute(slot)
                self._record_answered()
            elif slot.result is None:
                ready.append(slot)
        await self._execute_all(ready)

    def _may_overlap(self, call: ToolCall) -> bool:
        """Whether the call may run at the same time as others: it only looks, or its tool says so.

        One that cannot run counts as one that may; if a hook repairs it, it is judged then.
        """
        if call.tool is None or call.problem is not None:
            return True
        mode = call.tool.execution_mode
        return only_looks(call, self._run.config.only_reads) if mode is None else mode == "parallel"

    def _record_answered(self) -> None:
        for slot in takewhile(lambda slot: slot.result is not None, self._slots):
            self._record(slot)

    def answer_unanswered(self) -> None:
        """Answer every call that has no result: services reject a call without one."""
        unanswered = tool_calls.NEVER_RAN if self._run.signal.aborted else tool_calls.SUPPRESSED
        slots = [slot for slot in self._slots if not slot.is_deferred]
        for slot in slots:
            if slot.result is None:
                self._start(slot)
                self._end(slot, (slot.decision and slot.decision.answer) or unanswered)
            if self._is_sequential:
                self._record(slot)
        for slot in slots:
            self._record(slot)

    def _prepared(self, block: ToolCallBlock) -> _Slot:
        validate = self._run.config.validate
        call = tool_calls.prepare_call(
            block, self._run.turn_tools, validate, repair=self._run.config.repair
        )
        self._run.repairs.update(call.repairs)
        if call.problem in ("invalid_arguments", "truncated"):
            self._run.repairs["invalid"] += 1
        decision = self._run.decisions.get(block.id)
        if decision is not None and decision.arguments is not None:
            call = tool_calls.with_arguments(call, decision.arguments, validate)
        return _Slot(block, call, decision)

    def _is_answered(self, slot: _Slot) -> bool:
        """Answer a call that was denied before; return whether it has a result now."""
        decision = slot.decision
        if decision is None or decision.allow or slot.result is not None:
            return slot.result is not None
        denied = text_result(f"Denied. {decision.reason}".strip(), outcome="denied", is_error=True)
        self._end(slot, decision.answer or denied)
        return True

    def _start(self, slot: _Slot) -> None:
        if slot.is_started:
            return
        slot.is_started = True
        call_id, name, args = slot.block.id, slot.block.name, slot.block.arguments
        self._run.emit(events.ToolExecutionStart(tool_call_id=call_id, tool_name=name, args=args))

    async def _preflight(self, slot: _Slot) -> Defer | None:
        """Ask the hooks whether the call may run; answer it if not."""
        info = self._run.info(calls=self._calls)
        call, answer = await self._run.hooks.check_call(info, slot.call)
        if self._run.signal.aborted:
            return None
        if isinstance(answer, ToolOverride):
            self._end(slot, tool_calls.answered_result(answer, slot.call))
            return None
        if isinstance(answer, Defer) and slot.decision is None:
            return answer
        slot.call = call
        if call.problem is not None:
            outcome = tool_calls.PROBLEM_OUTCOMES[call.problem]
            self._end(slot, text_result(call.problem_text, outcome=outcome, is_error=True))
        slot.arguments = call.arguments
        with suppress(Exception):  # a value that cannot be copied did not come from a model
            slot.arguments = deepcopy(call.arguments)
        return None

    def _defer_from(self, first: _Slot, deferral: Defer) -> None:
        """End the run with this call and the later ones open, unless they are answered."""
        rest = self._slots[self._slots.index(first) :]
        for slot in rest:
            self._start(slot)
        waiting = [slot for slot in rest if not self._is_answered(slot)]
        for slot in waiting:
            slot.is_deferred = True
            self._end(slot, tool_calls.WAITING)
        ids = tuple(slot.block.id for slot in waiting)
        raise StopRun(AwaitingConfirmation(call_ids=ids, description=deferral.description))

    async def _execute_all(self, slots: Sequence[_Slot]) -> None:
        free_slots = asyncio.Semaphore(max(self._run.config.max_parallel, 1))
        stops: list[StopRun] = []

        async def execute_when_free(slot: _Slot) -> None:
            async with free_slots:
                if stops or self._run.signal.aborted:
                    return
                try:
                    await self._execute(slot)
                except StopRun as stop:
                    stops.append(stop)

        await asyncio.gather(*map(execute_when_free, slots))
        if stops:
            raise stops[0]

    async def _execute(self, slot: _Slot) -> None:
        """Run the tool, pass the result through the hooks, and emit the call's end."""
        clock = self._run.config.clock
        began = clock()
        result = await self._executed(slot)
        duration_ms = round((clock() - began) * 1000)
        final = tool_calls.withheld_result(result)
        try:
            info = self._run.info(calls=self._calls)
            change = await self._run.hooks.after_tool_call(info, slot.call, result)
            final = result if change is None else changed_result(result, change)
        except StopRun as stop:
            final = result if stop.change is None else changed_result(result, stop.change)
            raise
        finally:
            if slot.call.notes:
                # After the hooks: content that they replace must not remove the notes.
                notes = TextBlock("\n".join(slot.call.notes))
                final = replace(final, content=(notes, *final.content))
            self._end(slot, final, duration_ms=duration_ms)

    async def _executed(self, slot: _Slot) -> LoopToolResult:
        slot.is_running = True
        try:
            result = await until_aborted(self._wrapped(slot), self._run.signal)
        except Aborted:
            return tool_calls.ABORTED
        except Exception as error:
            return tool_calls.error_result(error)
        finally:
            slot.is_running = False
        if self._run.signal.aborted:
            # Returned during the abort: the user saw the call stop, so it counts as stopped.
            return tool_calls.ABORTED
        if not isinstance(result, LoopToolResult):
            return tool_calls.error_result(TypeError(f"The tool returned {type(result).__name__}."))
        return result

    async def _wrapped(self, slot: _Slot) -> LoopToolResult:
        """Run the tool inside its interceptors, the first of them outermost."""

        async def body() -> LoopToolResult:
            tool, call = slot.call.tool, slot.call
            assert tool is not None
            try:
                return await tool.execute(
                    call.id, slot.arguments, self._run.signal, self._updates_of(slot)
                )
            except SystemExit as error:
                raise RuntimeError(f"The tool tried to exit ({error.code}).") from error

        return await intercepted(slot.call, body, self._run.config.interceptors)()

    def _updates_of(self, slot: _Slot) -> OnUpdate:
        block, loop, home = slot.block, asyncio.get_running_loop(), threading.get_ident()

        def on_update(partial_result: LoopToolResult) -> None:
            if threading.get_ident() != home:
                if not loop.is_closed():
                    loop.call_soon_threadsafe(on_update, partial_result)
            elif slot.is_running:
                self._run.emit(
                    events.ToolExecutionUpdate(
                        tool_call_id=block.id,
                        tool_name=block.name,
                        args=block.arguments,
                        partial_result=partial_result,
                    )
                )

        return on_update

    def _end(self, slot: _Slot, result: LoopToolResult, *, duration_ms: int = 0) -> None:
        slot.result = result = tool_calls.with_outcome(result)
        self._run.emit(
            events.ToolExecutionEnd(
                tool_call_id=slot.block.id,
                tool_name=slot.block.name,
                result=result,
                is_error=result.is_error,
                duration_ms=duration_ms,
                deferred=slot.is_deferred,
            )
        )

    def _record(self, slot: _Slot) -> None:
        if slot.is_recorded or slot.result is None:
            return
        slot.is_recorded = True
        message = ToolResultMessage(
            tool_call_id=slot.block.id,
            tool_name=slot.block.name,
            content=slot.result.content,
            details=slot.result.details,
            is_error=slot.result.is_error,
        )
        self._run.inject((message,))
