"""Tools as the loop sees them: a call, what it would do (its claims), and its result."""

import json
import os.path
import shlex
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, Protocol, TypeAlias, get_args, runtime_checkable

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.abort import AbortSignal
from dirge_py.types.messages import ResultBlock, TextBlock, TextContent

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
class ShellCommand:
    """A shell command and where it would start."""

    text: str
    """The command line for bash."""
    cwd: str
    """The absolute folder it would start in."""


Resource: TypeAlias = str | ShellCommand


@dataclass(frozen=True, slots=True)
class Claim:
    """One operation on one resource."""

    op: Operation
    """What would be done."""
    resource: Resource
    """`read`, `edit`: an absolute path, links not yet followed; `execute`: a `ShellCommand`;
    `network`: a host name; else a name that a rule can match."""
    removes: bool = False
    """An `edit` that leaves nothing at its path: the file is deleted or renamed."""
    in_background: bool = False
    """An `execute` whose command runs on after the call: a change, even if it only reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathLimit:
    """The only folders in which tools may read, or change, files."""

    op: Literal["read", "edit"]
    """What is limited."""
    folders: tuple[str, ...]
    """The folders, as they were written: relative to the start folder, `~` for the home folder;
    none: nothing may be read or changed."""
    by: str
    """What sets the limit, for reasons: `prompt NAME`."""

    def describe(self) -> str:
        """Return what it allows: "reads only below src, docs"."""
        verb = "reads" if self.op == "read" else "changes"
        where = f"only below {', '.join(self.folders)}" if self.folders else "no file"
        return f"{verb} {where}"


def command_in_folder(command: str, folder: str, cwd: str) -> str:
    """Return a command line that does in `cwd` what `command` does in `folder`; both are absolute.

    A command that starts in another folder is judged, shown and stored by this text, so that
    everything that understands `cd` understands it, too.
    """
    if folder in (cwd, os.path.normpath(cwd)):
        return command
    inside = os.path.relpath(folder, cwd)
    shown = folder if inside.startswith("..") else inside
    return f"cd {shlex.quote(shown if shown[0] not in '-~' else f'./{shown}')} && {command}"


ToolExecutionMode = Literal["parallel", "sequential"]
"""`sequential`: the calls of a batch with this tool run one after another. `parallel`: its calls
never cause that, whatever they claim. Those of a tool without a mode do unless they `only_looks`.
"""
_FatalKind = Literal["error", "failed_command", "denied", "timeout", "invalid", "unknown_tool"]
ToolOutcome = _FatalKind | Literal["ok", "suppressed", "aborted"]
"""`details["outcome"]` of every result; everything that counts failures reads only this."""
FATAL_KINDS: tuple[ToolOutcome, ...] = get_args(_FatalKind)
"""The outcomes that `fatal_errors` may name."""


def fatal_error_problem(name: str) -> str:
    """Return why `fatal_errors` can't hold this name, or "": kinds, and classes in CamelCase."""
    if name in FATAL_KINDS or (name.isidentifier() and name[0].isupper()):
        return ""
    kinds = ", ".join(FATAL_KINDS)
    return f"`{name}` is neither a kind of error ({kinds}) nor the name of an exception class"


CallProblem = Literal["unknown_tool", "invalid_arguments", "truncated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopToolResult(TextContent):
    """The result of a tool call. The run also continues after an error."""

    content: tuple[ResultBlock, ...]
    """What the model gets."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Data of the result for programs; `outcome` is a `ToolOutcome`."""
    is_error: bool = False
    """Whether the call failed."""
    terminate: bool = False
    """Whether the inner loop may end; it ends after a turn in which every result says so."""


MAX_RESULT_CHARS = "max_result_chars"
"""The attribute of a tool, and then the name in `details`, of the most characters of a result that
are sent: the rest is stored. None: only the limits of all tools apply."""
OnUpdate: TypeAlias = Callable[[LoopToolResult], None]
"""Called with a partial result. Never blocks or raises; ignored once the tool has ended."""


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
        """Return the arguments with old or odd forms adapted to the schema, before validation."""

    def claims(self, arguments: Mapping[str, Any]) -> Sequence[Claim]:
        """Return what a call with these valid arguments would do."""

    async def execute(
        self, call_id: str, arguments: Mapping[str, Any], signal: AbortSignal, on_update: OnUpdate
    ) -> LoopToolResult:
        """Run the call. Any exception becomes an error result with its text."""


@runtime_checkable
class Previews(Protocol):
    """A tool that can show what a call would change before it runs.

    `preview` raises a DirgeError with a message for the model if the call can only fail.
    """

    def preview(self, arguments: Mapping[str, Any]) -> "Preview | None": ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """The change of one file by a call. Texts include line ends and byte-order mark."""

    path: str
    """The absolute path, as asked for."""
    before: str | None
    """The text before; None if there is no file."""
    after: str | None
    """The text after; None if the file is removed."""
    before_sha256: str = ""
    """The SHA-256 of the bytes that `before` was read from, to notice a later version."""
    moved_from: str = ""
    """The former path of a moved file; another change of the call removes it there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What a permission question shows besides the call."""

    kind: Literal["diff", "command", "text"]
    """Whether `text` is a unified diff, a command or plain text."""
    text: str
    """The text to show."""
    path: str = ""
    """The file it is about; empty if there is none."""
    changes: tuple[FileChange, ...] = ()
    """The changes in the diff, one entry per file; the user can accept a part or edit them."""
    note: str = ""
    """A note about it, such as that a command continues in the background."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentProblem:
    """One thing that is wrong with the arguments of a call."""

    path: tuple[str | int, ...]
    """Where it is: names and positions from the top."""
    kind: Literal["missing", "type", "enum", "extra", "other"]
    """What kind of problem it is."""
    message: str
    """What is wrong, for the model."""


class InvalidArguments(ValueError):
    """Arguments that don't fit a tool, with all their problems."""

    def __init__(self, message: str, problems: Sequence[ArgumentProblem] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One tool call during dispatch."""

    id: str
    """The id of the call."""
    name: str
    """The name of the tool, as the model wrote it."""
    arguments: Any
    """The arguments the tool gets."""
    tool: LoopTool | None = None
    """The tool; None if there is none of that name."""
    problem: CallProblem | None = None
    """Why the call can't run; None if it can."""
    problem_text: str = ""
    """The problem, explained to the model."""
    written: Any = None
    """The arguments as the model wrote them, parsed if they could be."""
    repairs: tuple[str, ...] = ()
    """The kinds of repair that turned `written` into `arguments`."""
    notes: tuple[str, ...] = ()
    """Notes about the repairs, for the model."""

    @property
    def claims(self) -> tuple[Claim, ...] | None:
        """What it would do now; None if its tool can't tell, which counts as changing something.

        The tool is asked each time: a hook may change the arguments in place, and what a call does
        may depend on files. Tools of a `Toolbox` parse the arguments once for all of this.
        """
        if self.tool is None:
            return None
        try:
            return tuple(self.tool.claims(self.arguments))
        except Exception:
            return None


ToolValidator: TypeAlias = Callable[[LoopTool, Any], Mapping[str, Any]]
"""Returns the arguments to use, or raises ValueError (better: InvalidArguments) for the model."""
Proceed: TypeAlias = Callable[[], Awaitable[LoopToolResult]]
Interceptor: TypeAlias = Callable[[ToolCall, Proceed], Awaitable[LoopToolResult]]
"""Code around one tool call; `proceed` takes no arguments, so it cannot change the call."""


def text_result(
    text: str, *, outcome: ToolOutcome = "ok", is_error: bool = False, **details: Any
) -> LoopToolResult:
    """Return a result of one text block with its outcome in `details`."""
    return LoopToolResult(
        content=(TextBlock(text),), details={"outcome": outcome, **details}, is_error=is_error
    )


Audience = Literal["user", "internal"]
"""Who a report of progress is for: the user, or only somebody who looks at the details."""


def is_internal(partial_result: LoopToolResult) -> bool:
    """Whether a report of progress (`tools.base.ToolContext.progress`) is not for the user."""
    return partial_result.details.get("audience") == "internal"


def structured_result(value: Any, text: str = "") -> LoopToolResult:
    """Return a result with a JSON value for programs; the model gets `text`, else the JSON."""
    return text_result(text or json.dumps(value, ensure_ascii=False), structured=value)


def exception_names(error: Exception) -> list[str]:
    """Return the names of an exception's classes for `details["exception"]`, its own first."""
    classes = type(error).__mro__
    return [each.__name__ for each in classes if issubclass(each, Exception)]


_HARMLESS: frozenset[Operation] = frozenset(("read", "meta"))


def changes_something(call: ToolCall, harmless: Collection[Operation] = _HARMLESS) -> bool:
    """Whether the call claims more than `harmless` operations; True if its tool can't tell."""
    claims = call.claims
    return claims is None or any(claim.op not in harmless for claim in claims)


def claims_only(call: ToolCall, operations: Collection[Operation]) -> bool:
    """Whether the call claims only these operations, or its tool is marked as read-only."""
    return not changes_something(call, operations) or is_read_only(call.tool)


def only_looks(call: ToolCall, only_reads: Callable[[ShellCommand], bool] | None) -> bool:
    """Whether the call only looks, so that it may run at the same time as others that do.

    `only_reads` judges the commands it would run; without it, every command changes something.
    """

    def looks(claim: Claim) -> bool:
        command = claim.resource
        if not isinstance(command, ShellCommand):
            return claim.op in _HARMLESS
        return only_reads is not None and not claim.in_background and only_reads(command)

    claims = call.claims
    return is_read_only(call.tool) or (claims is not None and all(map(looks, claims)))


def is_read_only(tool: LoopTool | None) -> bool:
    """Whether a tool is marked as one that only reads."""
    return getattr(getattr(tool, "hints", None), "read_only", None) is True
