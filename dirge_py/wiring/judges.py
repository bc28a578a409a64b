"""Models with a role besides the main one: whoever judges or summarises, asked one question."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from dirge_py.abort import AbortSignal
from dirge_py.agent_loop.complete import complete
from dirge_py.agent_loop.guards.gate import Judge
from dirge_py.config.models import ModelChoice, role_model
from dirge_py.config.schema import Config
from dirge_py.errors import ConfigError, ProviderError
from dirge_py.events import UsageReported
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.messages import Usage, user_text
from dirge_py.streams import LlmContext, StreamFn, StreamOptions

Tell: TypeAlias = Callable[[UsageReported], None]
"""Told of the tokens that every answer of such a model cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judges:
    """Asks the models of `[roles]`, each within `[timeouts] judge_s`.

    `stream_fn` routes by `options.model`; what is asked passes `redact`, as such a model may be
    with somebody else than the main one. `tell` hears of usage that nobody else was named for,
    `spent` of all of it, for limits.
    """

    config: Config
    stream_fn: StreamFn
    tell: Tell = lambda event: None
    spent: Callable[[Usage, str], None] = lambda usage, model: None
    redact: Callable[[str], str] = lambda text: text

    async def ask(self, role: str, system: str, prompt: str) -> str:
        """The answer of the role's model, or of the main one where none is set.

        Raises:
            ConfigError: the role names a model that cannot be used.
            ProviderError: the call failed, or the model declined.
            TimeoutError: it took longer than `[timeouts] judge_s`.
        """
        choice = role_model(self.config, role)
        return await self._answer(choice, system, prompt, _as(role, self.tell))

    def judge(self, role: str, tell: Tell | None = None) -> Judge | None:
        """The model of a role as a judge; None where `[roles]` names none.

        Raises:
            ConfigError: it names one that does not exist.
        """
        if not getattr(self.config.roles, role):
            return None
        choice = role_model(self.config, role)

        async def judge(system: str, prompt: str) -> str:
            return await self._answer(choice, system, prompt, _as(role, tell or self.tell))

        return judge

    async def _answer(self, choice: ModelChoice, system: str, prompt: str, tell: Tell) -> str:
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
            self.spent(answer.usage, choice.name)
            tell(UsageReported(usage=answer.usage, model=choice.name))
        if answer.stop_reason in ("error", "aborted"):
            raise ProviderError(answer.error_message or f"{choice.name} gave no answer.")
        return answer.text


def _as(role: str, tell: Tell) -> Tell:
    """Tell what the model was asked for, too."""
    return lambda event: tell(replace(event, role=role))


def unusable_roles(config: Config) -> list[str]:
    """What to tell the person of roles that name no model, or one which does not exist."""
    notices = []
    if config.loop.gates.goal and not config.roles.critic:
        notices.append("[loop.gates] goal: nobody judges it. Name a model as [roles] critic.")
    for role, spec in config.roles:
        if not spec or role == "main":
            continue
        try:
            role_model(config, role)
        except ConfigError as error:
            notices.append(f"[roles] {role}: {error.message} {error.hint}".strip())
    return notices


def usable_model(config: Config, role: str) -> str:
    """`alias/id` of the model that a role stands for; empty where that cannot be used."""
    try:
        return role_model(config, role).name
    except ConfigError:
        return ""  # the person was told at the start: `unusable_roles`
