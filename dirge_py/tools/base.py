"""The base of all tools: a tool is a name, typed arguments, claims, and an action.

A tool is one module `<name>.py` here that exports `TOOL`, with `<name>.md` beside it: the
description for the model. `make definitions` collects what a request needs of all of them in
`definitions.json`. Tools never mention permission: they declare claims, which the permission hook
reads.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

from dirge_py.files.resolve import absolute
from dirge_py.files.workspace import CallFiles, Workspace
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import ToolFailed
from dirge_py.types.questions import Question, QuestionAnswer
from dirge_py.types.tools import (
    Audience,
    Claim,
    Interceptor,
    LoopToolResult,
    OnUpdate,
    Preview,
    ToolExecutionMode,
    text_result,
)

if TYPE_CHECKING:
    from pydantic import BaseModel

    from dirge_py.files.assets import AssetStore
    from dirge_py.processes.output import OutputStore
    from dirge_py.processes.runner import Runner, Shells
    from dirge_py.tools.todo_list import TodoList
    from dirge_py.tools.web.service import WebService
    from dirge_py.types.memory import MemoryUpdate, StoreName


class MemoryStore(Protocol):
    """Memory beyond a session, of the project and of the user. Raises DirgeError."""

    async def read(self, store: "StoreName") -> str:
        """Return everything in a store."""

    async def update(self, change: "MemoryUpdate") -> str:
        """Apply a change; return a sentence that says what was done."""


AskPerson: TypeAlias = Callable[[Sequence[Question]], Awaitable[Sequence[QuestionAnswer] | None]]
"""Asks the user questions; returns None if the user cancels. Without it, no user is present."""

Redact: TypeAlias = Callable[[str], str]
"""Replaces secrets in text for the model by `[redacted]`."""

SyntaxCheck: TypeAlias = Callable[[str, str, str], str]
"""Called with `(path, before, after)`; returns which syntax error a change adds, or ""."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLimits:
    """The time and size limits of tools."""

    command_timeout_s: float = 120.0
    """The time limit of commands whose call names none."""
    quiet_s: float = 60.0
    """How long a command may write nothing before the user is notified."""
    budget_chars: int = 80_000
    """The approximate length of a result; longer ones are cut in the middle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolServices:
    """The services for tools. A tool is hidden if a service named in its `needs` is missing."""

    files: Workspace
    processes: "Runner | None" = None
    shells: "Shells | None" = None
    outputs: "OutputStore | None" = None
    assets: "AssetStore | None" = None
    """Stores the pictures and documents of results."""
    todo: "TodoList | None" = None
    web: "WebService | None" = None
    syntax: SyntaxCheck | None = None
    redact: Redact | None = None
    ask: AskPerson | None = None
    memory: MemoryStore | None = None
    unavailable: Mapping[str, str] = field(default_factory=dict)
    """Why tools can't be used although their services are there, by name."""
    limits: ToolLimits = ToolLimits()
    session_id: str = ""
    """The id of the stored session; "" if it is not stored."""
    app: Any = None
    """The `app` object of the embedder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """One call, as its tool sees it. `cwd` is the folder that relative paths start from.

    A tool that takes long checks `signal`, and reports its progress with `progress`.
    """

    cwd: str
    services: ToolServices
    call_id: str
    signal: AbortSignal
    on_update: OnUpdate

    @property
    def files(self) -> CallFiles:
        """Return the files that this call may use."""
        return self.services.files.at_call(self.call_id)

    @property
    def session_id(self) -> str:
        """Return the id of the stored session; "" if it is not stored."""
        return self.services.session_id

    @property
    def budget_chars(self) -> int:
        """Return the approximate length of a result; longer ones are cut in the middle."""
        return self.services.limits.budget_chars

    @property
    def app(self) -> Any:
        """Return the `app` object of the embedder; None without one."""
        return self.services.app

    def progress(
        self,
        text: str,
        done: float | None = None,
        total: float | None = None,
        *,
        audience: Audience = "user",
    ) -> None:
        """Show the progress as text and, if known, as a share. Callable from any thread.

        `audience="internal"` is for details, such as what a tool tries: the terminal UI shows it
        only where the call is expanded, and JSON output leaves it out.
        """
        details: dict[str, Any] = {} if done is None else {"done": done, "total": total}
        if audience != "user":
            details["audience"] = audience
        self.on_update(text_result(text, **details))

    def stop_if_aborted(self) -> None:
        """Raise in the thread of a call if the run was aborted, so that nothing changes."""
        if self.signal.aborted:
            raise ToolFailed("Aborted.", outcome="aborted")

    def absolute(self, path: str) -> str:
        """Return the path for claims and file services: absolute, links not resolved."""
        return absolute(path, self.cwd)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """Properties of a tool's calls; None means unknown. The names are those of MCP."""

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None


NO_HINTS = Hints()


Args = TypeVar("Args", bound="BaseModel")


class Tool(ABC, Generic[Args]):
    """Base of every tool. `args` must be the model that `Args` names.

    `dirge why TOOL INPUT` fills the first required field of `args`.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    args: "ClassVar[type[BaseModel]]"
    other_names: ClassVar[Mapping[str, str]] = {}
    """Names that other agents use for fields of `args`, with the name here."""
    mode: ClassVar[ToolExecutionMode | None] = None
    """Whether its calls run alone ("sequential") or with any others; None: by their claims."""
    needs: ClassVar[tuple[str, ...]] = ()
    """Names of `ToolServices` fields without which the tool is hidden."""
    timeout_s: ClassVar[float | None] = None
    """The tool's own time limit, which settings override; None: the default, 0: no limit."""
    hints: ClassVar[Hints] = NO_HINTS
    """Properties of its calls, for programs that show or wrap them; they grant nothing."""
    output_schema: ClassVar[Mapping[str, Any] | None] = None
    """The JSON Schema of `details["structured"]` of its results; None: they may have none."""
    max_result_chars: ClassVar[int | None] = None
    """About how many characters of a result are sent, the rest is stored; None: no own limit."""
    polls: ClassVar[bool] = False
    """Whether repeating the same call is normal use."""
    around: ClassVar[Sequence[Interceptor]] = ()
    """Interceptors around its calls, the outermost first."""

    @property
    def description(self) -> str:
        """Return the description for the model, from the `.md` file beside the tool's module."""
        return Path(inspect.getfile(type(self))).with_suffix(".md").read_text("utf-8").strip()

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Return the JSON Schema of the arguments."""
        from dirge_py.tools.arguments import parameters_of

        return parameters_of(self.args)

    @abstractmethod
    async def run(self, args: Args, ctx: ToolContext) -> LoopToolResult | str:
        """Execute the call; a string is a success. Raises DirgeError with a text for the model."""

    @abstractmethod
    def claims(self, args: Args, ctx: ToolContext) -> Sequence[Claim]:
        """Return everything that a call with `args` would do."""

    def preview(self, args: Args, ctx: ToolContext) -> Preview | None:
        """Return what the call would change, to show to the user; None if unknown."""
        return None

    def prepare(self, arguments: Any) -> Any:
        """Convert arguments as the model wrote them to the form that `args` expects."""
        return rename_keys(arguments, self.other_names)

    def unavailable(self, services: ToolServices) -> str:
        """Return why the tool can't be used now, or "". Called before each model call and run."""
        return services.unavailable.get(self.name, "")


class PathTool(Tool[Args]):
    """Base of tools that read the file or folder at `args.path` and change nothing."""

    hints = Hints(read_only=True)

    def claims(self, args: Args, ctx: ToolContext) -> Sequence[Claim]:
        return [Claim("read", ctx.absolute(getattr(args, "path")))]  # noqa: B009


class SessionTool(Tool[Args]):
    """Base of tools that touch nothing outside the session, such as its todo list."""

    def claims(self, args: Args, ctx: ToolContext) -> Sequence[Claim]:
        return [Claim("meta", self.name)]


def rename_keys(arguments: Any, names: Mapping[str, str]) -> Any:
    """Return `arguments` with other agents' names replaced, unless that merges different values."""
    if not isinstance(arguments, dict):
        return arguments
    changed: dict[str, Any] = {}
    for key, value in arguments.items():
        name = names.get(key, key)
        # `1` and `true` are equal, but not the same argument.
        if name in changed and (type(changed[name]), changed[name]) != (type(value), value):
            return arguments
        changed[name] = value
    return changed
