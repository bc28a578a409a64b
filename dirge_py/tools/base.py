"""What a tool is: a name, typed arguments, claims, and something it does.

A tool is one file `<name>.py` here that exports `TOOL`, and `<name>.md` beside it: what the model
reads. Tools never mention permission: they declare claims, and whoever judges reads those.
"""

import asyncio
import inspect
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, ParamSpec, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict

from dirge_py.abort import AbortSignal
from dirge_py.calls import LoopToolResult, OnUpdate, Preview, ToolExecutionMode
from dirge_py.claims import Claim
from dirge_py.errors import FileError, ToolFailed
from dirge_py.files.resolve import absolute, check_spelling
from dirge_py.files.workspace import CallFiles, Workspace
from dirge_py.lib.lean_dataclass import dataclass

if TYPE_CHECKING:
    from dirge_py.processes.outputs import OutputStore
    from dirge_py.processes.runner import Runner
    from dirge_py.tools.planning.todo_list import TodoList


def _spelled(path: str) -> str:
    try:
        check_spelling(path)
        path.encode()
    except UnicodeEncodeError:
        raise ValueError("holds half of a surrogate pair") from None
    except FileError as error:
        raise ValueError(error.message) from None
    return path


PathText = Annotated[str, AfterValidator(_spelled)]
"""A path as a model wrote it; what no file can be called is refused with the arguments."""


class ToolArgs(BaseModel):
    """Arguments of a tool; a field's description is what the model reads of it."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What tools may use. A tool whose `needs` names an absent one is not offered.

    `command_timeout_s` is for commands whose call names no other.
    """

    files: Workspace
    processes: "Runner | None" = None
    outputs: "OutputStore | None" = None
    todo: "TodoList | None" = None
    command_timeout_s: float = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """One call, as its tool sees it. `cwd` is the folder relative paths start from."""

    cwd: str
    services: Services
    call_id: str
    signal: AbortSignal
    on_update: OnUpdate

    @property
    def files(self) -> CallFiles:
        """The files this call may use."""
        return self.services.files.at_call(self.call_id)

    def stop_if_aborted(self) -> None:
        """For the thread of a call: nothing is changed any more once the run was aborted."""
        if self.signal.aborted:
            raise ToolFailed("Aborted.", outcome="aborted")

    def absolute(self, path: str) -> str:
        """The path as claims and file services want it: absolute, links not followed."""
        return absolute(path, self.cwd)


Args = TypeVar("Args", bound=BaseModel)


class Tool(ABC, Generic[Args]):
    """Base of every tool. `args` must be the model that `Args` names.

    `mode="sequential"` makes the whole batch run one call after another. `needs` are names of
    `Services` fields without which the tool is hidden. The first required field of `args` is what
    `dirge why TOOL INPUT` fills.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    args: ClassVar[type[BaseModel]]
    mode: ClassVar[ToolExecutionMode | None] = None
    needs: ClassVar[tuple[str, ...]] = ()

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


def renamed(arguments: Any, names: Mapping[str, str]) -> Any:
    """`arguments` with keys that other agents use for the same thing replaced by ours."""
    if not isinstance(arguments, dict):
        return arguments
    renamed_keys = {names[key] for key in arguments if key in names}
    if renamed_keys & arguments.keys():
        return arguments
    return {names.get(key, key): value for key, value in arguments.items()}


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
        result, failure = None, None
        try:
            result = work(*args, **kwargs)
        except Exception as error:
            failure = error
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
