"""What a tool is: a name, typed arguments, claims, and something it does.

A tool is one file `<name>.py` here that exports `TOOL`, and `<name>.md` beside it: what the model
reads. Tools never mention permission: they declare claims, and whoever judges reads those.
"""

import asyncio
import inspect
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Generic,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
)

from pydantic import AfterValidator, BaseModel, ConfigDict

from dirge_py.files.resolve import absolute, check_spelling
from dirge_py.files.workspace import CallFiles, Workspace
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import FileError, ToolFailed
from dirge_py.types.questions import Question, QuestionAnswer
from dirge_py.types.tools import (
    Claim,
    Interceptor,
    LoopToolResult,
    OnUpdate,
    Preview,
    ToolExecutionMode,
    text_result,
)

if TYPE_CHECKING:
    from dirge_py.files.assets import AssetStore
    from dirge_py.processes.output import OutputStore
    from dirge_py.processes.runner import Runner
    from dirge_py.processes.shells import Shells
    from dirge_py.tools.todo_list import TodoList
    from dirge_py.tools.web.service import WebService
    from dirge_py.types.memory import MemoryUpdate, StoreName


def _check_path_text(path: str) -> str:
    try:
        check_spelling(path)
        path.encode()
    except UnicodeEncodeError:
        raise ValueError("holds half of a surrogate pair") from None
    except FileError as error:
        raise ValueError(error.message) from None
    return path


PathText = Annotated[str, AfterValidator(_check_path_text)]
"""A path as a model wrote it; what no file can be called is refused with the arguments."""


class ToolArgs(BaseModel):
    """Arguments of a tool; a field's description is what the model reads of it."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class MemoryStore(Protocol):
    """What is remembered beyond a session: a store about the project, one about the person.

    Raises DirgeError with words for the model.
    """

    async def read(self, store: "StoreName") -> str:
        """Everything in a store."""

    async def update(self, change: "MemoryUpdate") -> str:
        """Make a change; gives a sentence that says what was done."""


AskPerson: TypeAlias = Callable[[Sequence[Question]], Awaitable[Sequence[QuestionAnswer] | None]]
"""Puts questions to the person; None if they cancel. Absent: there is no person to ask."""

Redact: TypeAlias = Callable[[str], str]
"""Takes secrets out of what the model is shown, as `[redacted]`."""

SyntaxCheck: TypeAlias = Callable[[str, str, str], str]
"""`(path, before, after)`: what a change breaks in a file's syntax that was whole before, or ""."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLimits:
    """Times and sizes that tools keep to."""

    command_timeout_s: float = 120.0
    """The time limit of commands whose call names no other."""
    quiet_s: float = 60.0
    """How long a command may write nothing before the person is told so."""
    budget_chars: int = 80_000
    """About how much of a result is sent on: more than this is cut in the middle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolServices:
    """What tools may use. A tool whose `needs` names an absent one is not offered."""

    files: Workspace
    processes: "Runner | None" = None
    shells: "Shells | None" = None
    outputs: "OutputStore | None" = None
    assets: "AssetStore | None" = None
    """Keeps the pictures and documents of results."""
    todo: "TodoList | None" = None
    web: "WebService | None" = None
    syntax: SyntaxCheck | None = None
    redact: Redact | None = None
    ask: AskPerson | None = None
    memory: MemoryStore | None = None
    limits: ToolLimits = ToolLimits()
    """Times and sizes that tools keep to."""
    session_id: str = ""
    """The stored session's id; empty where none is stored."""
    app: Any = None
    """What the embedder gave as such."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """One call, as its tool sees it. `cwd` is the folder relative paths start from.

    A tool that takes long looks at `signal`, and tells how far it is with `progress`.
    """

    cwd: str
    services: ToolServices
    call_id: str
    signal: AbortSignal
    on_update: OnUpdate

    @property
    def files(self) -> CallFiles:
        """The files this call may use."""
        return self.services.files.at_call(self.call_id)

    @property
    def session_id(self) -> str:
        """The stored session's id; empty where none is kept."""
        return self.services.session_id

    @property
    def budget_chars(self) -> int:
        """About how much of a result is sent on: more than this is cut in the middle."""
        return self.services.limits.budget_chars

    @property
    def app(self) -> Any:
        """What the embedder gave as such; None without one."""
        return self.services.app

    def progress(self, text: str, done: float | None = None, total: float | None = None) -> None:
        """Show how far it is, in words and, where known, as a share. From any thread, at once."""
        update = text_result(text) if done is None else text_result(text, done=done, total=total)
        self.on_update(update)

    def stop_if_aborted(self) -> None:
        """For the thread of a call: nothing is changed any more once the run was aborted."""
        if self.signal.aborted:
            raise ToolFailed("Aborted.", outcome="aborted")

    def absolute(self, path: str) -> str:
        """The path as claims and file services want it: absolute, links not followed."""
        return absolute(path, self.cwd)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """What calls of a tool are like; None where nobody says. The names are those of MCP."""

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None


NO_HINTS = Hints()


Args = TypeVar("Args", bound=BaseModel)


class Tool(ABC, Generic[Args]):
    """Base of every tool. `args` must be the model that `Args` names.

    The first required field of `args` is what `dirge why TOOL INPUT` fills.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    args: ClassVar[type[BaseModel]]
    mode: ClassVar[ToolExecutionMode | None] = None
    """"sequential" makes the whole batch run one call after another."""
    needs: ClassVar[tuple[str, ...]] = ()
    """Names of `ToolServices` fields without which the tool is hidden."""
    timeout_s: ClassVar[float | None] = None
    """The tool's own time limit, which settings override: None is the usual one, 0 none."""
    hints: ClassVar[Hints] = NO_HINTS
    """What calls are like, for those who show or wrap them; they grant nothing."""
    polls: ClassVar[bool] = False
    """Whether the same call again and again is how it is meant."""
    around: ClassVar[Sequence[Interceptor]] = ()
    """Interceptors around its calls, the outermost first."""

    @property
    def description(self) -> str:
        """What the model reads, from the `.md` file beside the tool's module."""
        return Path(inspect.getfile(type(self))).with_suffix(".md").read_text("utf-8").strip()

    @abstractmethod
    async def run(self, args: Args, ctx: ToolContext) -> LoopToolResult | str:
        """Do it. A plain string is a successful result of that text.

        Raises:
            DirgeError: it could not be done; message and hint go to the model.
        """

    @abstractmethod
    def claims(self, args: Args, ctx: ToolContext) -> Sequence[Claim]:
        """Everything a call with `args` would do."""

    def preview(self, args: Args, ctx: ToolContext) -> Preview | None:
        """What the call would change, for the person who is asked; None if nothing can be shown."""
        return None

    def prepare(self, arguments: Any) -> Any:
        """Arguments as the model wrote them, turned into what `args` expects."""
        return arguments

    def unavailable(self, services: ToolServices) -> str:
        """Why it cannot be used right now, or "". Asked before every model call and every run."""
        return ""


class PathTool(Tool[Args]):
    """Base of tools that read the file or folder at `args.path` and change nothing."""

    def claims(self, args: Args, ctx: ToolContext) -> Sequence[Claim]:
        return [Claim("read", ctx.absolute(getattr(args, "path")))]  # noqa: B009


class SessionTool(Tool[Args]):
    """Base of tools that touch nothing outside of the session, such as its todo list."""

    def claims(self, args: Args, ctx: ToolContext) -> Sequence[Claim]:
        return [Claim("meta", self.name)]


def rename_keys(arguments: Any, names: Mapping[str, str]) -> Any:
    """`arguments` with keys that other agents use for the same thing replaced by ours.

    Left as they are where two keys would become one and differ: none may get lost.
    """
    if not isinstance(arguments, dict):
        return arguments
    changed: dict[str, Any] = {}
    for key, value in arguments.items():
        name = names.get(key, key)
        if name in changed and not _is_same(changed[name], value):
            return arguments
        changed[name] = value
    return changed


def _is_same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


P = ParamSpec("P")
R = TypeVar("R")


async def in_thread(
    signal: AbortSignal, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs
) -> R:
    """`work` in a thread of its own, left behind when the run is aborted.

    The thread is a daemon: one that hangs in a system call must not keep the program from ending.

    Raises:
        ToolFailed: aborted first.
    """
    if signal.aborted:
        raise ToolFailed("Aborted.", outcome="aborted")
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[R] = loop.create_future()

    def settle(result: R | None, error: BaseException | None) -> None:
        if answer.done():
            return
        if error is None:
            answer.set_result(result)  # type: ignore[arg-type]
        else:
            answer.set_exception(error)

    def body() -> None:
        result: R | None = None
        failure: BaseException | None = None
        try:
            result = work(*args, **kwargs)
        except Exception as error:
            failure = error
        except BaseException as error:
            # `sys.exit()` in a thread ends the thread alone, and nobody would ever hear of it.
            failure = ToolFailed(f"It ended itself with {error!r}. Take another way.")
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, result, failure)

    threading.Thread(target=body, name=f"dirge-{work.__name__}", daemon=True).start()
    try:
        await signal.wait(unless=answer)
        if not answer.done():
            raise ToolFailed("Aborted.", outcome="aborted")
        return answer.result()
    finally:
        answer.cancel()
