"""The contract of a capability, and the records it hands to front ends.

An `Extension` is one capability (memory, a todo list, an MCP client): its tools, hooks, commands,
prompt sections, sinks and background work in one object. `sdk/extensions.py` lists those that ship
with dirge; every method has a default, so an extension implements only what it needs.
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

Typed as Any because both types are in upper layers; `slash/base.py` has the precise types.
"""

Completer: TypeAlias = Callable[[Any], Sequence[str]]
"""Gets the conversation; returns arguments to offer."""

PromptCheck: TypeAlias = Callable[[UserMessage], Awaitable[str | None]]
"""Checks a typed prompt before it is sent; returns the reason to hold it back, or None."""

Summarize: TypeAlias = Callable[[str, int], Awaitable[str]]
"""`(prompt, most tokens of the summary)`: writes a summary. It may raise anything."""

HookStage: TypeAlias = Literal["first", "usual", "last"]
"""The position of an extension's hooks in a run: before all guards, between the guards and the
stop checks, or after the stop checks. Redaction and permission always come after all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One slash command."""

    name: str
    """Its name, without the slash."""
    summary: str
    """One line for `/help`."""
    run: CommandBody
    """Runs the command."""
    usage: str = ""
    """Its arguments, for `/help`."""
    aliases: tuple[str, ...] = ()
    """Other names."""
    while_running: Literal["yes", "listing", "no"] = "yes"
    """Whether it may be used during a run; `listing`: only without arguments."""
    headless: bool = False
    """Whether it may also be the prompt of `dirge -p`."""
    complete: Completer | None = None
    """Completes its arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyBinding:
    """Keys that run a slash command."""

    id: str
    """Its name under `[keys]`."""
    keys: tuple[str, ...]
    """Alternative keys; a sequence of two is written as `ctrl+x j`."""
    command: str
    """The command with its arguments, without the slash."""
    summary: str = ""
    """One line for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Theme:
    """A colour theme."""

    name: str
    """Its name."""
    dark: bool = True
    """Whether its background is dark."""
    colors: Mapping[str, str] = field(default_factory=dict)
    """Colours by role, as `#rrggbb`; a missing role has the colour of the default theme."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookReport:
    """One function of a plugin at one hook point."""

    point: str
    """The hook point."""
    name: str
    """The name of the function."""
    failures: int = 0
    """How often it failed."""
    is_on: bool = True
    """Whether it is still called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginReport:
    """One plugin, and what it added."""

    name: str
    """Its name."""
    where: str
    """Its file or package."""
    state: Literal["on", "off", "failed"]
    """Whether it is loaded."""
    problem: str = ""
    """Why it is not loaded."""
    hooks: tuple[HookReport, ...] = ()
    """Its functions at hook points."""
    tools: tuple[str, ...] = ()
    """The names of its tools."""
    commands: tuple[str, ...] = ()
    """The names of its commands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the system prompt."""

    name: str
    """What `/context` calls it."""
    priority: int
    """Lower comes first. What changes rarely should come first."""
    text: str
    """What the model reads; an empty section is left out."""
    moves: bool = False
    """Whether its text depends on the day or the folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionChange:
    """A change of one section of the system prompt; see `context.system_prompt.change_sections`."""

    section: str
    """The name of the section, as `/context` shows it."""
    how: Literal["before", "after", "replace", "remove"]
    """Insert the text before or after it, or replace or remove it."""
    text: str = ""
    """The text; none to remove it."""
    priority: int = 50
    """Texts at one place come in this order, the lowest first; of several replacements and
    removals of a section the one with the lowest counts."""
    name: str = ""
    """What `/context` calls an inserted text; empty: the name of the section."""


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
    """Whether it continues without a new prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionStatus:
    """The state of an extension, in one line for `/status` and `dirge doctor`."""

    text: str
    """For people: `3 servers, 41 tools`."""
    is_ok: bool = True
    """Whether nothing needs the user's attention."""


class ExtensionHost(Protocol):
    """What dirge offers an extension. `conversation` is None until `start`."""

    @property
    def settings(self) -> Any:
        """The settings (`config.schema.Config`); None if the program has none."""

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
        """Writes the session (`session.recorder.Recorder`); None if nothing is stored."""

    @property
    def project(self) -> Any:
        """The trusted files of the project (`permission.project_trust.ProjectTrust`); None: none
        are read."""

    @property
    def conversation(self) -> Any:
        """The conversation: submit, steer, fork."""

    def notify(self, text: str) -> None:
        """Show a message to the user, now or at the start."""

    def redact(self, text: str) -> str:
        """Return the text without secrets."""

    def add_secret(self, value: str) -> None:
        """Redact this value from now on."""

    def store(self, name: str) -> Path:
        """Return a folder for the extension's data; it is not created."""


class Extension:
    """A capability. Each method has a default that does nothing; subclasses override some."""

    name: str = ""
    """Its name in settings, `/status` and messages."""
    summary: str = ""
    """One line for people."""
    stage: HookStage = "usual"
    """The position of its hooks. Those of the stage `first` also wrap tool calls outside the
    journal's write-ahead, all others inside."""

    def tools(self) -> Sequence[Any]:
        """Return the tools it offers (`tools.base.Tool`), bound like the built-in ones."""
        return ()

    def commands(self) -> Sequence[Command]:
        """Return its slash commands. Of two with the same name the first is used."""
        return ()

    def key_bindings(self) -> Sequence[KeyBinding]:
        """Return keys of the screen that run its commands."""
        return ()

    def themes(self) -> Sequence[Theme]:
        """Return colour themes that `/theme` offers beside the built-in ones."""
        return ()

    def hooks(self, run: RunContext) -> Sequence[Hooks]:
        """Return its hooks, fresh for each run."""
        return ()

    def on_event(self, event: LoopEvent) -> None:
        """Receive an event of the conversation, at once and without waiting."""

    def around_tool(self, run: RunContext) -> Sequence[Interceptor]:
        """Return wrappers of every tool call, the outermost first."""
        return ()

    def around_model(self, stream_fn: StreamFn) -> StreamFn:
        """Wrap every model call."""
        return stream_fn

    def around_summary(self, summarize: Summarize) -> Summarize:
        """Wrap the summaries of compactions."""
        return summarize

    def check_aborted(self) -> CheckAborted | None:
        """Return a check for the text of an aborted answer, made before it is stored."""
        return None

    def prompt_checks(self) -> Sequence[PromptCheck]:
        """Return checks of typed prompts; the first reason holds a prompt back."""
        return ()

    def prompt_sections(self) -> Sequence[Section]:
        """Return its part of the system prompt, read when a run begins."""
        return ()

    def edit_prompt(self, sections: Sequence[Section]) -> Sequence[Section]:
        """Return the sections of the system prompt in order, with its changes."""
        return sections

    def notices(self) -> Sequence[str]:
        """Return messages for the user at the start."""
        return ()

    async def start(self, host: ExtensionHost) -> None:
        """Begin background work. The first prompt does not wait for it."""

    async def on_run_end(self, messages: Sequence[Message], signal: AbortSignal) -> None:
        """Handle what a run added, before its end is emitted. `signal` tells if it was aborted."""

    async def before_close(self) -> None:
        """Finish what has to be recorded in the session; commands may still be running."""

    async def close(self) -> None:
        """End what `start` began."""

    def for_fork(self, options: Any) -> "Extension | None":
        """Return the extension for a fork (`ForkOptions`): the same, a narrower one, or None."""
        return self

    def status(self) -> ExtensionStatus | None:
        """Return its state in one line; None: nothing to report."""
        return None
