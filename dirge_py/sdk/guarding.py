"""The guards of an agent that reads no settings: the loop's own, as they are by default."""

from collections.abc import Sequence

from dirge_py.agent_loop.complete import complete
from dirge_py.context.hooks import ContextHooks, ContextParts, summarise_with
from dirge_py.conversation.deps import Relay
from dirge_py.guards.availability import availability
from dirge_py.guards.limits import Spending
from dirge_py.guards.overflow import overflow
from dirge_py.guards.recover import recover
from dirge_py.guards.retries import retries
from dirge_py.guards.server_compaction import server_compaction
from dirge_py.guards.storm import StormBreaker
from dirge_py.session.history import Loaded
from dirge_py.session.recorder import Recorder
from dirge_py.types.abort import AbortSignal
from dirge_py.types.events import UsageReported
from dirge_py.types.hooks import Bundle
from dirge_py.types.llm import LlmContext, Models, StreamFn, StreamOptions
from dirge_py.types.messages import user_text

_RECOVERIES = 3
_RETRIES = 3


class OwnGuards:
    """Repeated calls, answers that break off, and histories that grow too long.

    What the model is sent on with at the end of a run (tests, todo items) is left to the product.
    """

    def __init__(
        self,
        stream_fn: StreamFn,
        models: Models,
        model: str,
        *,
        recorder: Recorder | None,
        loaded: Loaded,
        relay: Relay,
        spending: Spending,
    ) -> None:
        async def ask(_role: str, system: str, prompt: str) -> str:
            context = LlmContext(system_prompt=system, messages=(user_text(prompt, "harness"),))
            answer = await complete(stream_fn, context, StreamOptions(model=model), AbortSignal())
            if answer.usage:
                spending.add(answer.usage, model)
                relay(UsageReported(usage=answer.usage, model=model, role="summarize"))
            return answer.text

        self._storm = StormBreaker()
        self.context = ContextHooks(
            ContextParts(
                window_of=models.window_tokens,
                summarise=summarise_with(ask),
                summary_model=model,
                save=recorder.note_compaction if recorder is not None else lambda record: None,
                on_compacted=self._storm.note_compaction,
                records=loaded.compactions,
            ),
            model=model,
        )

    def bundles(self, model: str) -> Sequence[Bundle]:
        """Fresh hooks for one run with `model`."""
        return [
            availability(),
            self._storm.bundle(),
            retries(_RETRIES),
            self.context.bundle(model),
            recover(_RECOVERIES),
            overflow(self.context.shrink),
            server_compaction(),
        ]
