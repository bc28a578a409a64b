"""Fallback models for calls that the chosen model's service can't answer."""

from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from copy import copy
from dataclasses import replace

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import OUT_OF_REACH_KINDS, ProviderError
from dirge_py.types.llm import (
    CompactionDone,
    LlmContext,
    StreamDone,
    StreamError,
    StreamEvent,
    StreamFn,
    StreamOptions,
    StreamRetry,
    StreamStart,
    TextDelta,
    ThinkingDelta,
    ThinkingLevel,
    closing,
)

_ANSWER_EVENTS = (TextDelta, ThinkingDelta, CompactionDone)
"""Events that were shown or stored: after them no other model may start over."""


@dataclass(frozen=True, slots=True)
class FallbackModel:
    """A model that is asked instead of another."""

    model: str
    """The model, as `alias/id`."""
    level: ThinkingLevel | None = None
    """Its thinking level; None: the level of the call."""


class FallbackChain:
    """Asks the models of `fallbacks` in order while the one before is out of reach.

    Out of reach means an error of `OUT_OF_REACH_KINDS` before any text, after the retries of
    `inner`. Such a model isn't tried again before `begin_run`, unless no other is left. If all
    models fail, the error names them, and has the kind of the first error.
    """

    def __init__(
        self,
        inner: StreamFn,
        fallbacks: Sequence[FallbackModel],
        notify: Callable[[str], None],
        holds_schema: Callable[[str], bool] = lambda model: True,
    ) -> None:
        """`notify` gets a message for each change; only models that `holds_schema` get a schema."""
        self._inner = inner
        self._fallbacks = fallbacks
        self._notify = notify
        self._holds_schema = holds_schema
        self._out_of_reach: set[str] = set()

    def begin_run(self) -> None:
        """Try the chosen model first again."""
        self._out_of_reach.clear()

    async def stream(
        self, context: LlmContext, options: StreamOptions, signal: AbortSignal
    ) -> AsyncIterator[StreamEvent]:
        """A `StreamFn`. A fallback model's answer begins with a `StreamStart` that names it."""
        failures: list[tuple[str, ProviderError]] = []
        others = [fallback for fallback in self._fallbacks if fallback.model != options.model]
        models = [FallbackModel(options.model), *others]
        reachable = [model for model in models if model.model not in self._out_of_reach]
        candidates = deque(reachable or models)
        while candidates:
            model = candidates.popleft()
            is_fallback = model.model != options.model
            if is_fallback:
                yield StreamStart(stand_in=model.model)
            error: ProviderError | None = None
            has_begun = has_answered = False
            answer = self._inner(context, self._options_for(options, model), signal)
            async with closing(answer) as events:
                async for event in events:
                    match event:
                        case StreamError():
                            error = event.error
                            break
                        case StreamStart() if is_fallback:
                            event = replace(event, stand_in=model.model)
                        case StreamStart() | StreamDone():
                            pass
                        case StreamRetry():
                            has_answered = has_begun = False
                        case _:
                            has_begun = True
                            has_answered = has_answered or isinstance(event, _ANSWER_EVENTS)
                    yield event
            if error is None:
                return
            if has_answered:
                yield StreamError(error)
                return
            failures.append((model.model, error))
            is_out_of_reach = error.kind in OUT_OF_REACH_KINDS
            if is_out_of_reach:
                self._out_of_reach.add(model.model)
            if signal.aborted or not is_out_of_reach or not candidates:
                yield StreamError(_combined_error(failures))
                return
            problem = f"{model.model} cannot be reached ({error.message})"
            self._notify(f"{problem} Using {candidates[0].model} until the next prompt.")
            if has_begun:
                # The calls that it began never ran; listeners drop them.
                yield StreamRetry(attempt=len(failures), delay_ms=0, error=error.message)

    def _options_for(self, options: StreamOptions, candidate: FallbackModel) -> StreamOptions:
        """The options for another model; keys and headers go only to the provider they are for."""
        if candidate.model == options.model:
            return options
        # The answer is checked afterwards in any case.
        schema = options.response_schema if self._holds_schema(candidate.model) else None
        is_elsewhere = candidate.model.partition("/")[0] != options.model.partition("/")[0]
        return replace(
            options,
            model=candidate.model,
            thinking_level=candidate.level or options.thinking_level,
            api_key=None if is_elsewhere else options.api_key,
            headers={} if is_elsewhere else options.headers,
            response_schema=schema,
        )


def _combined_error(failures: Sequence[tuple[str, ProviderError]]) -> ProviderError:
    """One error for all models. An invalid request is that of the last model."""
    (_, first), (_, last) = failures[0], failures[-1]
    if len(failures) == 1 or last.kind == "aborted":
        return last
    reported = first if last.kind in OUT_OF_REACH_KINDS else last
    combined = copy(reported)
    combined.message = " ".join(f"{model}: {error.message}" for model, error in failures)
    return combined
