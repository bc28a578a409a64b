"""What may be chosen while a conversation goes on: its model, its mode, what is granted.

What a conversation is fitted with: its folder, its tools, and the services it works with.

Who has a conversation to themselves for a while: a plan, which drives it through its phases.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from dirge_py.conversation.deps import Parts
from dirge_py.permission.decision import Decision
from dirge_py.permission.gate import Gate
from dirge_py.permission.history import DecisionLog
from dirge_py.permission.rules import Mode, Rule
from dirge_py.session.listing import SessionSummary
from dirge_py.types.errors import DirgeError, UsageError
from dirge_py.types.llm import ModelOption, ThinkingLevel
from dirge_py.types.tools import LoopTool

if TYPE_CHECKING:
    from dirge_py.agent_loop.answer_schema import AnswerSchema


class Occupant(Protocol):
    """While there is one, nobody else starts runs; what is typed waits, or steers its runs."""

    @property
    def doing(self) -> str:
        """For people, as `the plan is being reviewed`."""

    def interrupt(self, reason: str = "user") -> None:
        """Stop what goes on, and leave: soon, and without doing anything more."""


class Fittings:
    """Those of one conversation, for front ends and commands."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.cwd = parts.cwd
        self.asset_dir = parts.asset_dir
        """Where pictures are that were attached; None where they are kept nowhere."""
        self.instruction_files = parts.instruction_files
        self.memory = parts.memory
        """What is kept from one session to the next; None where nothing is."""
        self.kept = parts.kept
        """Small things that the session keeps by name."""
        self.todo = parts.todo
        """What the model has set out to do; None where it has no such list."""
        self.durable = parts.durable
        """The engine that model and tool calls go through; signals are waited for here."""
        self.plugins = parts.plugins
        self.shells = parts.shells
        """The commands that run in the background, and the way there for one that runs."""
        self.sandbox = parts.sandbox
        """The kind of sandbox that commands run in; "" for none."""
        self.read_only_profile = parts.read_only_profile
        """What holds commands that only look, in words; "" if unknown. Blocks the first time."""
        self.shut_in = parts.shut_in
        """For people: what keeps the commands of a fork from changing the project; "" elsewhere."""
        self.read_tree = parts.tree
        """Reads the files of the project; None where nobody can."""
        self.snapshots = parts.snapshots
        """Those of the project's files; None where none are kept."""
        self.plan_terms = parts.plan_terms
        self.prompts = parts.prompts
        """The prompts kept in files; one that is chosen holds from the next run on."""

    @property
    def notices(self) -> Sequence[str]:
        return self._parts.notices

    @property
    def tools(self) -> Sequence[LoopTool]:
        return self._parts.tools

    @property
    def tool_names(self) -> Sequence[str]:
        return [tool.name for tool in self._parts.tools]

    def bound_tools(self, tools: Sequence[Any]) -> Sequence[LoopTool]:
        """These tools with this conversation's services, as a `TurnUpdate` wants them."""
        return self._parts.bind_tools(tools)

    def sessions(self) -> Sequence[SessionSummary]:
        return self._parts.list_sessions()


class Choices(Fittings):
    """The choices of one conversation; each is recorded and holds from the next turn on."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self.model = parts.model
        self.thinking: ThinkingLevel = parts.thinking
        self.answer_schema: AnswerSchema | None = None
        """What the answer of each run that begins has to be; None: words."""
        self.asides = 0
        """Side questions that are being answered."""
        self._occupant: Occupant | None = None
        self._is_vacant = asyncio.Event()
        self._is_vacant.set()

    @property
    def occupant(self) -> Occupant | None:
        """Who has the conversation to themselves; None: whoever asks may start a run."""
        return self._occupant

    @occupant.setter
    def occupant(self, occupant: Occupant | None) -> None:
        self._occupant = occupant
        (self._is_vacant.clear if occupant is not None else self._is_vacant.set)()

    @property
    def window_tokens(self) -> int:
        return self._parts.models.window_tokens(self.model)

    @property
    def sees_pictures(self) -> bool | None:
        """Whether the model can look at pictures; None where nobody knows."""
        return self._parts.models.sees_pictures(self.model)

    @property
    def holds_schema(self) -> bool:
        """Whether the model's service can hold an answer to a schema."""
        return self._parts.models.holds_schema(self.model)

    def set_model(self, spec: str) -> str:
        """Switch the model from the next turn on; returns `alias/id`. Raises ConfigError."""
        self.model, level = self._parts.models.resolve(spec)
        if level is not None:
            self.thinking = level
        self._note_model()
        return self.model

    def set_thinking(self, level: ThinkingLevel) -> None:
        self.thinking = level
        self._note_model()

    def models(self) -> Sequence[ModelOption]:
        return self._parts.models.choices()

    def services(self) -> Sequence[str]:
        """The aliases of those that can be asked for all their models."""
        return self._parts.models.services()

    async def models_of(self, alias: str) -> Sequence[ModelOption]:
        """All that the service lists. Raises ConfigError and ProviderError: it cannot be asked."""
        return await self._parts.models.listed(alias)

    @property
    def mode(self) -> Mode:
        return self._gate.mode

    def set_mode(self, mode: Mode) -> None:
        self._gate.mode = mode
        if self._parts.recorder:
            self._parts.recorder.note_mode(mode)

    @property
    def grants(self) -> Sequence[Rule]:
        return self._gate.grants

    def add_grant(self, rule: str) -> None:
        """Allow what `rule` (`op:pattern`) matches, for this session.

        Raises:
            UsageError: it is no rule, or one that could open nothing.
        """
        why = self._gate.futility(rule)
        if why:
            raise UsageError(
                f"`{rule}` would allow nothing: {why}.",
                hint="Such names are nothing that a rule could open.",
            )
        self._gate.add_grant(rule)
        if self._parts.recorder:
            self._parts.recorder.note_grant(rule)

    def remove_grant(self, index: int) -> None:
        """Take back the grant at `index` of `grants`. Raises UsageError: there is none."""
        removed = self._gate.remove_grant(index)
        if self._parts.recorder:
            self._parts.recorder.note_grant_removed(str(removed))

    def clear_grants(self) -> None:
        while self._gate.grants:
            self.remove_grant(0)

    @property
    def folders(self) -> Sequence[str]:
        """The folders that are worked in, the first one first."""
        return self._gate.folders

    def add_folder(self, folder: Path) -> str:
        """Work in `folder`, too, until this session ends; returns its physical path.

        Raises:
            FileError: it is no folder, or not one that can be opened.
        """
        real = self._gate.add_folder(folder)
        if self._parts.recorder:
            self._parts.recorder.note_setting("folders", list(self._gate.folders[1:]))
        return real

    @property
    def decisions(self) -> DecisionLog:
        """What was decided so far, oldest first."""
        return self._gate.history

    def why(self, tool: str, input_text: str) -> Decision:
        """What would be decided about this call, and why. Executes nothing."""
        if self._parts.explain is None:
            raise DirgeError("this conversation has no permission engine to ask.")
        return self._parts.explain(tool, input_text)

    @property
    def _gate(self) -> Gate:
        if self._parts.gate is None:
            raise DirgeError("this conversation has no permission engine.")
        return self._parts.gate

    def _note_model(self) -> None:
        if self._parts.recorder:
            self._parts.recorder.note_model(self.model, thinking=self.thinking)
