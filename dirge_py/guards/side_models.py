"""Models that are asked one question beside the run: judges and summarisers."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from dirge_py.agent_loop.model_call import complete
from dirge_py.config.models import ModelChoice, main_model, role_choice, usable_choice
from dirge_py.config.schema import Config
from dirge_py.guards.stop_checks import Judge
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import OUT_OF_REACH_KINDS, ProviderError
from dirge_py.types.events import Sink, SystemNotice, UsageReported
from dirge_py.types.llm import LlmContext, StreamFn, StreamOptions
from dirge_py.types.messages import Usage, user_text

UsageListener: TypeAlias = Callable[[UsageReported], None]
"""Told of the tokens that every answer of such a model cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SideModels:
    """Asks the models of `[roles]`, each within `[timeouts] judge_s`.

    `stream_fn` routes by `options.model`; what is asked passes `redact`, as such a model may be
    with somebody else than the main one. `tell` hears of usage that nobody else was named for and
    of a model that another one had to step in for; `spent` of all usage, for limits.
    """

    config: Config
    stream_fn: StreamFn
    tell: Sink = lambda event: None
    spent: Callable[[Usage, str], None] = lambda usage, model: None
    redact: Callable[[str], str] = lambda text: text

    async def ask(self, role: str, system: str, prompt: str) -> str:
        """The answer of the role's model, or of the main one: where none is set, or where the one
        that is cannot be used or is out of reach.

        Raises:
            ConfigError: the main model cannot be used either.
            ProviderError: the call failed, or the model declined.
            TimeoutError: a model took longer than `[timeouts] judge_s`.
        """
        tell, main = _as(role, self.tell), main_model(self.config)
        choice = role_choice(self.config, role) or main
        try:
            return await self._answer(choice, system, prompt, tell)
        except ProviderError as error:
            if choice.name == main.name or error.kind not in OUT_OF_REACH_KINDS:
                raise
            words = f"[roles] {role}: {error.message} {main.name} is asked instead."
            self.tell(SystemNotice(words))
        return await self._answer(main, system, prompt, tell)

    def judge(self, role: str, tell: UsageListener | None = None) -> Judge | None:
        """The model of a role as a judge; None where `[roles]` names none.

        Raises:
            ConfigError: it names one that cannot be used.
        """
        spec = getattr(self.config.roles, role)
        if not spec:
            return None
        choice = usable_choice(self.config, spec)

        async def judge(system: str, prompt: str) -> str:
            return await self._answer(choice, system, prompt, _as(role, tell or self.tell))

        return judge

    async def _answer(
        self, choice: ModelChoice, system: str, prompt: str, tell: UsageListener
    ) -> str:
        prompt = self.redact(prompt)
        context = LlmContext(system_prompt=system, messages=(user_text(prompt, "harness"),))
        options = StreamOptions(model=choice.name, thinking_level=choice.level)
        # Whoever asks from inside a run is cancelled with it; nothing else aborts the call.
        answer = await complete(
            self.stream_fn,
            context,
            options,
            AbortSignal(),
            timeout_s=self.config.timeouts.judge_s,
        )
        if answer.usage:
            self.spent(answer.usage, answer.model)
            tell(UsageReported(usage=answer.usage, model=answer.model))
        if answer.stop_reason in ("error", "aborted"):
            raise ProviderError(answer.error_message or f"{choice.name} gave no answer.")
        return answer.text


def _as(role: str, tell: UsageListener) -> UsageListener:
    """Tell what the model was asked for, too."""
    return lambda event: tell(replace(event, role=role))
