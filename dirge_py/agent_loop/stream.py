"""One model call: from the context to an assistant message in history."""

import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import fields, replace
from typing import Any

from dirge_py.agent_loop.argument_repair import schema_for_model
from dirge_py.agent_loop.cancellation import Aborted, until_aborted
from dirge_py.agent_loop.model_call import Assembler, finished_message, until_end
from dirge_py.agent_loop.state import RunState
from dirge_py.agent_loop.text_tool_calls import with_written_calls
from dirge_py.agent_loop.tool_names import with_known_names
from dirge_py.types import llm
from dirge_py.types.errors import ProviderError
from dirge_py.types.events import MessageStart, MessageUpdate, RetryNotice, UsageReported
from dirge_py.types.hooks import Context, StopRun
from dirge_py.types.messages import AssistantMessage, Message, TextBlock

_UNCHECKED = "the run was stopped before its check finished"

_logger = logging.getLogger(__name__)


async def stream_assistant_response(run: RunState) -> AssistantMessage:
    """Call the model once and record its answer, whether it succeeded or not.

    A failed call is an answer too: `stop_reason` "error" or "aborted", the text so far, no calls.
    Raises StopRun if a hook ended the run, or it was aborted, before the model was called.
    """
    context = await run.hooks.transform_context(run.info())
    messages = await run.hooks.convert_to_llm(run.info(context=context), context.messages)
    run.stop_if_aborted()
    sent = run.normalizer.normalize(messages)
    if sent.closed or sent.dropped:
        _logger.info("healed before sending: %d closed, %d dropped", sent.closed, sent.dropped)
    run.turn_tools = tuple(context.tools)
    answer = _Answer(run)
    try:
        await answer.consume(_llm_context(run, context, sent.messages))
    except StopRun:
        # A decorator ended the run after the model had answered: its text is part of history.
        await answer.record_if_started()
        raise
    await answer.check_if_aborted()
    return answer.record()


def _llm_context(run: RunState, context: Context, messages: Sequence[Message]) -> llm.LlmContext:
    specs = tuple(
        llm.ToolSpec(
            name=tool.name,
            description=tool.description,
            parameters=schema_for_model(tool.parameters),
        )
        for tool in context.tools
    )
    if specs != run.tool_specs:
        # Providers serialize the same tuple only once.
        run.tool_specs = specs
    return llm.LlmContext(
        system_prompt=context.system_prompt,
        messages=tuple(messages),
        tools=run.tool_specs,
        asset_dir=run.config.asset_dir,
    )


async def _options(run: RunState) -> llm.StreamOptions:
    """Return the options of the next call. Raises as the `get_api_key` hooks, or Aborted."""
    config, request = run.config, run.config.request
    alias = run.model.partition("/")[0]
    is_at_home = alias == config.model.partition("/")[0]
    settings: dict[str, Any] = {each.name: getattr(request, each.name) for each in fields(request)}
    key = None
    if run.hooks.has_api_keys:
        asked = run.hooks.get_api_key(config.provider if is_at_home else alias)
        key = await until_aborted(asked, run.signal)
    if not is_at_home:
        # After a change of model, the configured key and headers belong to another service.
        settings |= {"api_key": None, "headers": {}}
    if key is not None:
        settings["api_key"] = key
    return llm.StreamOptions(model=run.model, thinking_level=run.thinking_level, **settings)


class _Answer:
    """The message being written: what the model sent, and which events were emitted.

    Calls alone are not emitted before the answer is complete, because the attempt may be retried.
    """

    def __init__(self, run: RunState) -> None:
        self._run = run
        self._assembler = Assembler(run.model)
        self._held_updates: list[MessageUpdate] = []
        self._is_started = False
        self._is_over = False
        self._done: llm.StreamDone | None = None
        self._error: ProviderError | None = None
        self._checked: AssistantMessage | None = None
        self._role = run.role

    async def consume(self, context: llm.LlmContext) -> None:
        """Read the stream until it ends, breaks, or the run is aborted."""
        try:
            options = await _options(self._run)
            if self._run.signal.aborted:
                return
            stream = self._run.stream_fn(context, options, self._run.signal)
            await until_aborted(self._consume(stream), self._run.signal)
        except Aborted:
            pass
        except ProviderError as error:
            self._error = error
        except StopRun:
            raise
        except Exception as error:
            _logger.exception("the stream function failed")
            self._error = ProviderError(f"The model call failed: {error!r}", kind="other")

    async def _consume(self, stream: AsyncIterator[llm.StreamEvent]) -> None:
        async with llm.closing(until_end(stream)) as events:
            async for event in events:
                if self._is_over or self._run.signal.aborted:
                    return
                self._on_event(event)

    def _on_event(self, event: llm.StreamEvent) -> None:
        match event:
            case llm.StreamDone():
                self._done = event
            case llm.StreamError(error):
                self._error = error
            case llm.StreamRetry():
                self._held_updates.clear()
                attempt, delay_ms = event.attempt, event.delay_ms
                self._run.emit(RetryNotice(attempt=attempt, delay_ms=delay_ms, error=event.error))
            case llm.StreamStart(stand_in=stand_in) if stand_in:
                self._role = "fallback"
        for update in self._assembler.feed(event):
            self._emit_update(update)

    def _emit_update(self, update: MessageUpdate) -> None:
        if not self._is_started and update.phase.startswith("toolcall"):
            self._held_updates.append(update)
            return
        self._start(AssistantMessage(model=self._assembler.model))
        self._run.emit(update)

    def _start(self, message: AssistantMessage) -> None:
        if self._is_started:
            return
        self._is_started = True
        self._run.emit(MessageStart(message))
        for update in self._held_updates:
            self._run.emit(update)

    async def check_if_aborted(self) -> None:
        """Have the hooks check the text that an abort cut short, or withhold it."""
        check = self._run.config.check_aborted
        if check is None or (self._done is not None and self._error is None):
            return
        message = self._broken_off()
        if message.stop_reason != "aborted" or not message.text:
            return
        try:
            self._checked = await until_aborted(check(message), self._run.signal)
        except Exception as error:
            if not isinstance(error, Aborted):
                _logger.exception("the check of an answer that was cut short failed")
            notice = TextBlock(f"[answer withheld: {_UNCHECKED}]")
            self._checked = replace(message, content=(notice,), withheld=_UNCHECKED)

    def record(self) -> AssistantMessage:
        """Add the message to history and emit the rest of it."""
        self._is_over = True
        message = self._checked or self._message()
        if message.stop_reason in ("error", "aborted"):
            self._held_updates.clear()
        for update in self._assembler.close():
            self._emit_update(update)
        if self._held_updates:
            self._start(AssistantMessage(model=self._assembler.model))
        self._start(message)
        self._run.message, self._run.error = message, self._error
        self._run.record(message)
        if message.usage:
            self._run.usage += message.usage
            self._run.emit(UsageReported(usage=message.usage, model=message.model, role=self._role))
        return message

    async def record_if_started(self) -> None:
        """Keep the text from before a stop; the calls in it do not run."""
        self._error = self._error or ProviderError("Stopped by a hook.", kind="aborted")
        if self._is_started or self._assembler.blocks(with_calls=False):
            await self.check_if_aborted()
            self.record()

    def _message(self) -> AssistantMessage:
        if self._done is None or self._error is not None:
            return self._broken_off()
        config = self._run.config
        written = finished_message(self._done, self._assembler, config.new_id)
        message = with_known_names(written, self._run.turn_tools)
        renamed = sum(a != b for a, b in zip(written.calls, message.calls, strict=True))
        self._run.repairs.update({"tool_name": renamed} if renamed else {})
        if not config.scavenge or message.stop_reason != "stop":
            return message
        return with_written_calls(message, self._run.turn_tools, config.validate, config.new_id)

    def _broken_off(self) -> AssistantMessage:
        """Return the message so far. Its calls are dropped: they never ran, and never will."""
        error = self._error
        if error is None or error.kind == "aborted" or self._run.signal.aborted:
            error = ProviderError("Stopped.", kind="aborted")
        return AssistantMessage(
            content=self._assembler.blocks(with_calls=False),
            stop_reason="aborted" if error.kind == "aborted" else "error",
            error_message=error.message,
            error_kind=error.kind,
            model=self._assembler.model,
        )
