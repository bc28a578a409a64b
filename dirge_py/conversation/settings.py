"""The settings of a conversation that the user may change: model, mode, grants, folders."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from dirge_py.conversation.deps import ConversationDeps
from dirge_py.permission.decision import Decision, DecisionLog
from dirge_py.permission.rules import Mode, Rule
from dirge_py.types.errors import ConfigError, DirgeError, UsageError
from dirge_py.types.llm import ModelOption, ThinkingLevel

if TYPE_CHECKING:
    from dirge_py.agent_loop.answer_schema import AnswerSchema
    from dirge_py.context.prompts import NamedPrompt

LIMITS = "limits"
"""The name under which a session stores limits that were set for it."""
BEFORE_PROMPT = "model_before_prompt"
"""The name under which it stores the model of the prompt in use, and the model and thinking level
that were selected before it."""


class ConversationSettings:
    """The settings of one conversation; a change is recorded and holds from the next turn on."""

    def __init__(self, deps: ConversationDeps) -> None:
        self._models = deps.models
        self._gate, self._explain = deps.environment.gate, deps.environment.explain
        self._recorder = deps.session.recorder
        self.model = deps.model
        """The selected model, as `alias/id`."""
        self.thinking: ThinkingLevel = deps.thinking
        """The selected thinking level."""
        self.prompts = deps.run.prompts
        """The prompts kept in files; a selected one holds from the next run on."""
        self._metadata = deps.session.metadata
        self.limits = deps.run.limits
        """The limits of runs and of the session."""
        self.answer_schema: AnswerSchema | None = None
        """The schema of the answers of later runs; None: text."""

    @property
    def window_tokens(self) -> int:
        return self._models.window_tokens(self.model)

    @property
    def sees_pictures(self) -> bool | None:
        """Whether the model accepts images; None if that is unknown."""
        return self._models.sees_pictures(self.model)

    @property
    def holds_schema(self) -> bool:
        """Whether the model's service can enforce a schema of answers."""
        return self._models.holds_schema(self.model)

    def set_model(self, spec: str) -> str:
        """Switch the model from the next turn on; returns `alias/id`. Raises ConfigError."""
        self.model, level = self._models.resolve(spec)
        if level is not None:
            self.thinking = level
        self._note_model()
        return self.model

    def choose_prompt(self, name: str | None) -> "NamedPrompt | None":
        """Use this prompt and its model from the next run on; None: none, and the model before.

        Raises UsageError: there is no such prompt; ConfigError: it or its model can't be used.
        """
        prompt = self.prompts.find(name) if name is not None else None
        if prompt is not None and prompt.model:
            self._models.resolve(prompt.model)
        self.prompts.choose(name)
        match self._metadata.get(BEFORE_PROMPT):
            case [self.model, str(before), level] if level in get_args(ThinkingLevel):
                self._go_back(before, level)
        replaced = None
        if prompt is not None and prompt.model:
            was = (self.model, self.thinking)
            replaced = [self.set_model(prompt.model), *was]
        if replaced != self._metadata.get(BEFORE_PROMPT):
            self._metadata.put(BEFORE_PROMPT, replaced)
        return prompt

    def _go_back(self, model: str, level: ThinkingLevel) -> None:
        """Select the model from before a prompt, unless a resumed session can't use it now."""
        with suppress(ConfigError):
            if self._models.resolve(model)[0] == model:
                self.model, self.thinking = model, level
                self._note_model()

    def set_thinking(self, level: ThinkingLevel) -> None:
        self.thinking = level
        self._note_model()

    def models(self) -> Sequence[ModelOption]:
        return self._models.choices()

    def services(self) -> Sequence[str]:
        """Return the aliases of services that can list their models."""
        return self._models.services()

    async def models_of(self, alias: str) -> Sequence[ModelOption]:
        """Return the models that the service lists. Raises ConfigError or ProviderError."""
        return await self._models.listed(alias)

    @property
    def mode(self) -> Mode:
        return self._gate.mode

    def set_mode(self, mode: Mode) -> None:
        self._gate.mode = mode
        if self._recorder:
            self._recorder.note_mode(mode)

    @property
    def grants(self) -> Sequence[Rule]:
        return self._gate.grants

    def add_grant(self, rule: str) -> None:
        """Allow what `rule` (`op:pattern`) matches, for this session. May raise UsageError."""
        why = self._gate.why_ineffective(rule)
        if why:
            hint = "A rule cannot allow such names."
            raise UsageError(f"`{rule}` would allow nothing: {why}.", hint=hint)
        self._gate.add_grant(rule)
        if self._recorder:
            self._recorder.note_grant(rule)

    def remove_grant(self, index: int) -> None:
        """Remove the grant at `index` of `grants`. Raises UsageError: there is none."""
        removed = self._gate.remove_grant(index)
        if self._recorder:
            self._recorder.note_grant_removed(str(removed))

    def clear_grants(self) -> None:
        while self._gate.grants:
            self.remove_grant(0)

    def set_limit(self, setting: str, most: float | None) -> None:
        """Set a limit for this session by its name under `[limits]`; None removes it."""
        self.limits.change({setting: most})
        if self._recorder:
            self._recorder.note_setting(LIMITS, dict(self.limits.changes))

    @property
    def goal(self) -> str | None:
        """The goal set in this session: "" if it was turned off, None if it was never set."""
        own = self._metadata.get("goal")
        return own if isinstance(own, str) else None

    def set_goal(self, text: str) -> None:
        """Set what runs must reach before they end, from the next run on; "" for no goal."""
        self._metadata.put("goal", text)

    @property
    def folders(self) -> Sequence[str]:
        """The folders of the workspace, the working folder first."""
        return self._gate.folders

    def add_folder(self, folder: Path) -> str:
        """Add `folder` to the workspace until this session ends; returns its physical path.

        Raises FileError if it is not a folder, or can't be opened.
        """
        real = self._gate.add_folder(folder)
        if self._recorder:
            self._recorder.note_setting("folders", list(self._gate.folders[1:]))
        return real

    @property
    def decisions(self) -> DecisionLog:
        """The decisions so far, oldest first."""
        return self._gate.history

    def why(self, tool: str, input_text: str) -> Decision:
        """Return the decision that this call would get, with its reason. Executes nothing."""
        if self._explain is None:
            raise DirgeError("this conversation has no permission engine to ask.")
        return self._explain(tool, input_text)

    def _note_model(self) -> None:
        if self._recorder:
            self._recorder.note_model(self.model, thinking=self.thinking)
