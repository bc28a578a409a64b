"""The contract of a capability, and the records it hands to front ends.

An `Extension` is one capability (memory, a todo list, an MCP client): its tools, hooks, commands,
prompt sections, sinks and background work in one object. `sdk/extensions.py` lists those that ship
with dirge; every method has a default, so an extension implements what it is.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.abort import AbortSignal
from dirge_py.types.events import LoopEvent
from dirge_py.types.hooks import CheckAborted, Hooks
from dirge_py.types.llm import StreamFn
from dirge_py.types.messages import Message, UserMessage
from dirge_py.types.tools import Interceptor

CommandBody: TypeAlias = Callable[[str, Any, Any], Awaitable[None]]
"""`(args, conversation, front)`: args without the name, a `Conversation`, a `slash.base.FrontEnd`.

Declared loosely because both stand above the vocabulary; `slash/base.py` names the precise types.
"""

Completer: TypeAlias = Callable[[Any], Sequence[str]]
"""Gets the conversation; returns the arguments worth offering."""

PromptCheck: TypeAlias = Callable[[UserMessage], Awaitable[str | None]]
"""Checks a typed prompt before it is sent; returns the reason to hold it back, or None."""

Summarize: TypeAlias = Callable[[str, int], Awaitable[str]]
"""`(prompt, most tokens of the summary)`: writes a summary. It may raise anything."""

HookStage: TypeAlias = Literal["first", "usual", "last"]
"""Where the hooks of an extension stand in a run: before all guards, between the guards and the
stop checks, or after the stop checks. Redaction and permission always come after all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One slash command, written without its slash.

    `while_running`: may it run during a run: `yes`, `no`, or `listing` (only without arguments).
    `headless`: also usable as the prompt of `dirge -p`.
    """

    name: str
    summary: str
    run: CommandBody
    usage: str = ""
    aliases: tuple[str, ...] = ()
    while_running: Literal["yes", "listing", "no"] = "yes"
    headless: bool = False
    complete: Completer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyBinding:
    """Keys that run `command` (a slash command with its arguments)."""

    id: str
    keys: tuple[str, ...]
    command: str
    summary: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Theme:
    """Colours by role, as `#rrggbb`; a role that is missing is taken from the default theme."""

    name: str
    dark: bool = True
    colors: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class HookReport:
    """One function of a plugin at one point, and how it fared. `is_on`: it is still asked."""

    point: str
    name: str
    failures: int = 0
    is_on: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginReport:
    """One plugin: where it came from, and what it added. `problem` says why it is not loaded."""

    name: str
    where: str
    state: Literal["on", "off", "failed"]
    problem: str = ""
    hooks: tuple[HookReport, ...] = ()
    tools: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the system prompt."""

    name: str
    """What `/context` calls it."""
    priority: int
    """Lower stands first; what changes least should."""
    text: str
    """What the model reads; an empty section is left out."""
    moves: bool = False
    """Whether it is another one on another day, or in another folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """The run that hooks are made for."""

    model: str
    """`alias/id`."""
    is_fork: bool = False
    """Whether its conversation is a fork."""
    is_recorded: bool = True
    """Whether its calls go to a journal."""
    is_continued: bool = False
    """Whether it goes on without a new prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionStatus:
    """How an extension is doing, in one line for `/status`."""

    text: str
    """For people: `3 servers, 41 tools`."""
    is_ok: bool = True
    """Whether there is nothing that a person should see to."""


class ExtensionHost(Protocol):
    """What dirge offers an extension. `conversation` is None until `start`."""

    @property
    def settings(self) -> Any:
        """The settings (`config.schema.Config`); None in a program that has none."""

    @property
    def cwd(self) -> Path:
        """The folder of the conversation."""

    @property
    def workspace(self) -> Any:
        """Its files (`files.workspace.Workspace`)."""

    @property
    def runner(self) -> Any:
        """Starts commands (`processes.runner.Runner`)."""

    @property
    def recorder(self) -> Any:
        """Writes the session (`session.recorder.Recorder`); None where nothing is stored."""

    @property
    def project(self) -> Any:
        """What of the project's own files is trusted (`permission.project_trust.ProjectTrust`);
        None where they are not looked at."""

    @property
    def conversation(self) -> Any:
        """The conversation: submit, steer, fork."""

    def notify(self, text: str) -> None:
        """Tell the person, now or at the start."""

    def redact(self, text: str) -> str:
        """The text without secrets."""

    def add_secret(self, value: str) -> None:
        """Redact this value from now on."""

    def store(self, name: str) -> Path:
        """A folder of its own for what it keeps; the folder is not made."""


class Extension:
    """A capability. Subclasses override what they are; everything else does nothing."""

    name: str = ""
    """As the settings, `/status` and messages call it."""
    summary: str = ""
    """One line for people."""
    stage: HookStage = "usual"
    """Where its hooks stand. Those of the stage `first` also wrap tool calls from outside of the
    journal's write-ahead, all others from inside."""

    def tools(self) -> Sequence[Any]:
        """The tools it offers (`tools.base.Tool`), bound like the built-in ones."""
        return ()

    def commands(self) -> Sequence[Command]:
        """Its slash commands. A name that is taken stays with whoever has it."""
        return ()

    def key_bindings(self) -> Sequence[KeyBinding]:
        """Keys of the screen that run its commands."""
        return ()

    def themes(self) -> Sequence[Theme]:
        """Colour themes that `/theme` offers beside the built-in ones."""
        return ()

    def hooks(self, run: RunContext) -> Sequence[Hooks]:
        """Its hooks, fresh for each run."""
        return ()

    def on_event(self, event: LoopEvent) -> None:
        """Receive an event of the conversation, at once and without waiting."""

    def around_tool(self, run: RunContext) -> Sequence[Interceptor]:
        """Wrappers of every tool call, the outermost first."""
        return ()

    def around_model(self, stream_fn: StreamFn) -> StreamFn:
        """Wrap every model call."""
        return stream_fn

    def around_summary(self, summarize: Summarize) -> Summarize:
        """Wrap the summaries of compactions."""
        return summarize

    def check_aborted(self) -> CheckAborted | None:
        """Checks the text of an answer that was aborted, before it is stored; None: no check."""
        return None

    def prompt_checks(self) -> Sequence[PromptCheck]:
        """Checks of typed prompts; the first reason holds a prompt back."""
        return ()

    def prompt_sections(self) -> Sequence[Section]:
        """Its part of the system prompt, read when a run begins."""
        return ()

    def edit_prompt(self, sections: Sequence[Section]) -> Sequence[Section]:
        """The sections of the system prompt in order, changed as it likes."""
        return sections

    def notices(self) -> Sequence[str]:
        """What to tell the person at the start."""
        return ()

    async def start(self, host: ExtensionHost) -> None:
        """Begin background work. The first prompt does not wait for it."""

    async def on_run_end(self, messages: Sequence[Message], signal: AbortSignal) -> None:
        """Take in what a run added, before its end is emitted. `signal` says whether it aborted."""

    async def before_close(self) -> None:
        """Finish what has to be recorded in the session; commands may still be running."""

    async def close(self) -> None:
        """End what `start` began."""

    def for_fork(self, options: Any) -> "Extension | None":
        """What a fork (`conversation.deps.ForkOptions`) gets: the same, a narrower one, or None."""
        return self

    def status(self) -> ExtensionStatus | None:
        """How it is doing; None: nothing to say."""
        return None
