"""What a conversation is fitted with: its folder, its tools, and the services it works with."""

from collections.abc import Sequence
from typing import Any

from dirge_py.parts import Parts
from dirge_py.session.listing import SessionSummary
from dirge_py.types.tools import LoopTool


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
