"""What a tool call would do, with all that had to be looked up: the input of the pure decision."""

from typing import TYPE_CHECKING, Literal, TypeAlias

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.permission.shell_lexer import Part, Word
from dirge_py.types.tools import Operation

if TYPE_CHECKING:
    from dirge_py.permission.unresolved_words import UnresolvedCommand


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedPath:
    """A path as it was found at the time of asking.

    `asked` is absolute, `real` physical. `protected`, `secret` and `forbidden` say why changing,
    reading, or touching it at all is special, or are empty. `own` says that it belongs to dirge's
    own settings, which nothing changes unasked in any mode. `unkept` says why removing it cannot
    simply be undone; it is empty where nothing is removed. `is_system`: it belongs to the machine,
    although it is inside.
    """

    asked: str
    real: str
    inside: bool
    exists: bool = True
    protected: str = ""
    is_system: bool = False
    secret: str = ""
    forbidden: str = ""
    own: str = ""
    unkept: str = ""


@dataclass(frozen=True, slots=True)
class PathFact:
    """Reading or changing one place."""

    op: Literal["read", "edit"]
    place: ResolvedPath

    @property
    def resource(self) -> str:
        return self.place.asked


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandFact:
    """Running one command.

    `refusal` says why it may not run unasked; empty: the grammar allows it. Only a plain command
    has `words`; rules that allow are compared with them. `may_run` is what deny rules are compared
    with: all it might run in turn, guessed high. `raw_words` is the same for text that nothing
    could parse. `reads` and `touches` are places it names, for rules that deny.
    `open` is what of this is known only when it runs; `open_reads` and `open_edits` are words for
    files that it reads and changes, likewise.
    `forbidden` says why it must not run whatever the rules say; `collapses` is a word that would
    mean everything if a variable in it were empty.
    `is_grantable`: "the same again" would be as harmless as this time. `changes_git`: it runs git
    for more than looking.
    """

    text: str
    words: tuple[Word, ...] = ()
    refusal: str = ""
    may_run: tuple[tuple[Word, ...], ...] = ()
    raw_words: tuple[Word, ...] = ()
    forbidden: str = ""
    collapses: str = ""
    is_build: bool = False
    is_moved: bool = False
    is_grantable: bool = False
    changes_git: bool = False
    reads: tuple[ResolvedPath, ...] = ()
    touches: tuple[ResolvedPath, ...] = ()
    open: "tuple[UnresolvedCommand, ...]" = ()
    open_reads: tuple[str, ...] = ()
    open_edits: tuple[str, ...] = ()

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
    name: str

    @property
    def resource(self) -> str:
        return self.name


Fact: TypeAlias = PathFact | CommandFact | NameFact


@dataclass(frozen=True, slots=True)
class ArgvPlan:
    """The commands of an allowed command line as words, so that they can run without a shell."""

    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class CallFacts:
    """One tool call: everything it would do."""

    facts: tuple[Fact, ...]
    plan: ArgvPlan | None = None
