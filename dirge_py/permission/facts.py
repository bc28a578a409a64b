"""What a tool call would do, with all that had to be looked up: the input of the pure decision."""

from typing import Literal, TypeAlias

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.shell_lexer import Part, Word
from dirge_py.types.tools import Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedPath:
    """A path as it was found at the time of asking."""

    asked: str
    """The absolute path that was named."""
    real: str
    """The physical path it leads to."""
    inside: bool
    """It lies in the workspace."""
    exists: bool = True
    """Something stands there."""
    protected: str = ""
    """Why changing it is special, or ""."""
    is_system: bool = False
    """It belongs to the machine, although it is inside."""
    secret: str = ""
    """Why reading it is special, or ""."""
    forbidden: str = ""
    """Why it must not be touched at all, or ""."""
    own: str = ""
    """What of dirge's own settings it is, which nothing changes unasked in any mode, or ""."""
    unkept: str = ""
    """Why removing it cannot simply be undone; "" where nothing is removed."""


@dataclass(frozen=True, slots=True)
class PathFact:
    """Reading or changing one path."""

    op: Literal["read", "edit"]
    """Whether it reads or changes."""
    place: ResolvedPath
    """The path, looked up."""

    @property
    def resource(self) -> str:
        return self.place.asked


@dataclass(frozen=True, slots=True)
class UnresolvedWord:
    """The form of one word."""

    form: str = ""
    """Its text, with `MANY` and `ONE` for what is not known."""
    is_rest: bool = False
    """It stands for any number of any words."""


@dataclass(frozen=True, slots=True)
class UnresolvedCommand:
    """A command of which something is known only when it runs."""

    words: tuple[UnresolvedWord, ...]
    """The forms of its words."""
    shown: str
    """The word that is not known, as it is written."""
    is_program: bool
    """That word names the program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnresolvedParts:
    """What of a command is known only when it runs."""

    commands: tuple[UnresolvedCommand, ...] = ()
    """Commands it might run, with words that are not known."""
    reads: tuple[str, ...] = ()
    """Words for files that it reads."""
    edits: tuple[str, ...] = ()
    """Words for files that it changes."""


_ALL_RESOLVED = UnresolvedParts()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandFact:
    """Running one command."""

    text: str
    """The command as it was written."""
    words: tuple[Word, ...] = ()
    """Its words if it is plain; rules that allow are compared with them."""
    refusal: str = ""
    """Why it may not run unasked; "" if the grammar allows it."""
    may_run: tuple[tuple[Word, ...], ...] = ()
    """All it might run in turn, overestimated; rules that deny are compared with it."""
    raw_words: tuple[Word, ...] = ()
    """The same for text that nothing could parse."""
    forbidden: str = ""
    """Why it must not run whatever the rules say, or ""."""
    collapses: str = ""
    """A word that would mean everything if a variable in it were empty."""
    is_build: bool = False
    """It is a build or a test run."""
    is_moved: bool = False
    """It runs in another folder than the command line began in."""
    is_grantable: bool = False
    """To run the same again would be as harmless as this time."""
    changes_git: bool = False
    """It runs git for more than looking."""
    reads: tuple[ResolvedPath, ...] = ()
    """Paths it names, for rules that deny reading."""
    touches: tuple[ResolvedPath, ...] = ()
    """Paths it names, for rules that deny changing."""
    unresolved: UnresolvedParts = _ALL_RESOLVED
    """What of this is known only when it runs."""

    @property
    def op(self) -> Literal["execute"]:
        return "execute"

    @property
    def resource(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class NameFact:
    """Anything that is known by a name: a host, an MCP tool, an agent."""

    op: Operation
    """What it would do with it."""
    name: str
    """The name."""

    @property
    def resource(self) -> str:
        return self.name


Fact: TypeAlias = PathFact | CommandFact | NameFact


@dataclass(frozen=True, slots=True)
class ArgvPlan:
    """The commands of an allowed command line as words, so that they can run without a shell."""

    parts: tuple[Part, ...]
    """The commands, in their order."""


@dataclass(frozen=True, slots=True)
class CallFacts:
    """One tool call: everything it would do."""

    facts: tuple[Fact, ...]
    """What it would do, one by one."""
    plan: ArgvPlan | None = None
    """Its command as words, if it is plain."""
