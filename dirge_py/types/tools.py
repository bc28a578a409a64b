"""Tools as the loop sees them: a call, its result, and what can run it.

What a tool call would do: the only thing the permission engine judges.

Whether a call would change something, as far as its tool says.
"""

import os.path
import shlex
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.abort import AbortSignal
from dirge_py.types.messages import ResultBlock, TextBlock, joined_text

Operation = Literal[
    "read",
    "edit",
    "execute",
    "network",
    "mcp",
    "memory",
    "skill",
    "agent",
    "meta",
    "plugin",
    "other",
]


@dataclass(frozen=True, slots=True)
class Command:
    """A shell command as it would be given to bash, and the absolute folder it would start in."""

    text: str
    cwd: str


Resource: TypeAlias = str | Command


@dataclass(frozen=True, slots=True)
class Claim:
    """One operation on one resource.

    `read` and `edit`: an absolute path, links not yet followed. `execute`: a `Command`.
    `network`: a host name. The rest: a name that a rule can match. An `edit` that `removes` leaves
    nothing at its path: the file is deleted, or gets another name.
    """

    op: Operation
    resource: Resource
    removes: bool = False


def command_in_folder(command: str, folder: str, cwd: str) -> str:
    """The command line that does in `cwd` what `command` does when it is started in `folder`.

    Both are absolute. A command that is started elsewhere is judged, shown and kept by this text,
    so whoever follows a `cd` follows it, too.
    """
    if folder in (cwd, os.path.normpath(cwd)):
        return command
    inside = os.path.relpath(folder, cwd)
    shown = folder if inside.startswith("..") else inside
    return f"cd {shlex.quote(shown if shown[0] not in '-~' else f'./{shown}')} && {command}"


ToolExecutionMode = Literal["parallel", "sequential"]
ToolOutcome = Literal[
    "ok",
    "error",
    "failed_command",
    "denied",
    "timeout",
    "invalid",
    "unknown_tool",
    "suppressed",
    "aborted",
]
"""`details["outcome"]` of every result; whoever counts failures reads this and nothing else."""
CallProblem = Literal["unknown_tool", "invalid_arguments", "truncated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopToolResult:
    """What a tool gives back. `is_error` results are still answers: the run goes on.

    A batch in which every result has `terminate` ends the inner loop after its turn.
    """

    content: tuple[ResultBlock, ...]
    details: Mapping[str, Any] = field(default_factory=dict)
    is_error: bool = False
    terminate: bool = False

    @property
    def text(self) -> str:
        return joined_text(self.content)


OnUpdate: TypeAlias = Callable[[LoopToolResult], None]
"""Given a partial result; never blocks, never raises, ignored once the tool has ended."""


class LoopTool(Protocol):
    """What the loop needs of a tool. `parameters` is a JSON Schema of an object."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def parameters(self) -> Mapping[str, Any]: ...
    @property
    def execution_mode(self) -> ToolExecutionMode | None: ...

    def prepare_arguments(self, arguments: Any) -> Any:
        """Old or odd shapes turned into the one the schema asks for; runs before validation."""

    def claims(self, arguments: Mapping[str, Any]) -> Sequence[Claim]:
        """What a call with these valid arguments would do."""

    async def execute(
        self,
        call_id: str,
        arguments: Mapping[str, Any],
        signal: AbortSignal,
        on_update: OnUpdate,
    ) -> LoopToolResult:
        """Do it. Any exception becomes an error result with its text."""


@runtime_checkable
class Previews(Protocol):
    """A tool that can show what a call would change, before it does.

    `preview` raises a DirgeError with words for the model where the call could only fail.
    """

    def preview(self, arguments: Mapping[str, Any]) -> "Preview | None": ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """What a call makes of one file. `path` is absolute as asked; None: there is no file.

    Texts are the file's own, line ends and byte-order mark included. `before_sha256` is the digest
    of the bytes `before` was read from, so that a later version is told from it. `moved_from` is
    the path of another change, a removal, whose file this one was before.
    """

    path: str
    before: str | None
    after: str | None
    before_sha256: str = ""
    moved_from: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What to show beside a question: a unified diff, a command, or plain text.

    `changes` is what the diff was made of, one entry per file, so that a person can take a part of
    it or change it. `note` is what the text does not say, such as that a command goes on.
    """

    kind: Literal["diff", "command", "text"]
    text: str
    path: str = ""
    changes: tuple[FileChange, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentProblem:
    """One thing that is wrong with arguments, at `path` (names and positions from the top)."""

    path: tuple[str | int, ...]
    kind: Literal["missing", "type", "enum", "extra", "other"]
    message: str


class InvalidArguments(ValueError):
    """Arguments that do not fit a tool, with every problem where it is."""

    def __init__(self, message: str, problems: Sequence[ArgumentProblem] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call on its way through dispatch. `problem` says why it will not run as it stands.

    `written` are the arguments as the model wrote them, parsed if they could be; `repairs` the
    kinds of repair that made `arguments` of them, and `notes` what the model is told of those.
    """

    id: str
    name: str
    arguments: Any
    tool: LoopTool | None = None
    problem: CallProblem | None = None
    problem_text: str = ""
    written: Any = None
    repairs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


ToolValidator: TypeAlias = Callable[[LoopTool, Any], Mapping[str, Any]]
"""Returns the arguments to use, or raises ValueError (better: InvalidArguments) for the model."""
Proceed: TypeAlias = Callable[[], Awaitable[LoopToolResult]]
Interceptor: TypeAlias = Callable[[ToolCall, Proceed], Awaitable[LoopToolResult]]
"""Code around one tool call; `proceed` takes no arguments, so it cannot change the call."""


def text_result(
    text: str, *, outcome: ToolOutcome = "ok", is_error: bool = False, **details: Any
) -> LoopToolResult:
    """A result of one text block with its outcome in `details`."""
    return LoopToolResult(
        content=(TextBlock(text),), details={"outcome": outcome, **details}, is_error=is_error
    )


_HARMLESS = frozenset(("read", "meta"))


def changes_something(tool: LoopTool, arguments: Mapping[str, Any]) -> bool:
    """Whether it claims more than to read. A tool that cannot say is taken to change things."""
    try:
        return any(claim.op not in _HARMLESS for claim in tool.claims(arguments))
    except Exception:
        return True


def claims_only(
    tool: LoopTool, arguments: Mapping[str, Any], operations: Collection[Operation]
) -> bool:
    """Whether it claims nothing but these operations. A tool marked as read-only only reads."""
    if getattr(getattr(tool, "hints", None), "read_only", None) is True:
        return True
    try:
        return all(claim.op in operations for claim in tool.claims(arguments))
    except Exception:
        return False
