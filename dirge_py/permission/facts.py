"""What a tool call would do, with all lookups done: the input of the decision."""

import os
from collections.abc import Sequence
from typing import ClassVar, Literal, TypeAlias

from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.shell_lexer import Word, word_set
from dirge_py.types.tools import Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedPath:
    """A path that was looked up, and what touching it means."""

    asked: str
    """The absolute path as it was named."""
    real: str
    """The physical path it leads to."""
    inside: bool
    """Whether it lies in the workspace."""
    exists: bool = True
    """Whether it exists."""
    protected: str = ""
    """Why changing it needs a question, or ""."""
    is_system: bool = False
    """Whether it belongs to the operating system."""
    is_too_wide: bool = False
    """Whether only a workspace folder that holds more than a project has it: `/` or your home."""

    is_folder: bool = False
    """Whether it is a folder outside the workspace."""
    secret: str = ""
    """Why reading it needs a question, or ""."""
    forbidden: str = ""
    """Why it must not be touched at all, or ""."""
    own: str = ""
    """Which of dirge's own settings it is, which need a question in any mode, or ""."""
    unkept: str = ""
    """Why removing it cannot be undone; "" if nothing is removed."""


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
    """The form of one word of a command, as far as it is known."""

    form: str = ""
    """Its text, with `MANY` and `ONE` for unknown parts."""
    is_rest: bool = False
    """Whether it stands for any number of any words."""


@dataclass(frozen=True, slots=True)
class UnresolvedCommand:
    """A command with words that are known only at run time."""

    words: tuple[UnresolvedWord, ...]
    """The forms of its words."""
    shown: str
    """The unknown word, as it is written."""
    is_program: bool
    """Whether that word names the program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnresolvedParts:
    """The parts of a command that are known only at run time."""

    commands: tuple[UnresolvedCommand, ...] = ()
    """Commands that it might run, with unknown words."""
    reads: tuple[str, ...] = ()
    """Unknown words for files that it reads."""
    edits: tuple[str, ...] = ()
    """Unknown words for files that it changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleLimits:
    """What the allow rules for one command may not cover."""

    is_moved: bool = False
    """Whether it runs in another folder than the start of the command line."""
    spelled: tuple[tuple[int, str], ...] = ()
    """The words that a rule has to spell, with how its word has to begin: they name a secret or
    something outside the workspace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandFact:
    """Running one command."""

    op: ClassVar[Literal["execute"]] = "execute"
    text: str
    """The command as it was written."""
    words: tuple[Word, ...] = ()
    """Its words if it is a plain command; allow rules are compared with them."""
    refusal: str = ""
    """Why it needs a question, or ""."""
    may_run: tuple[tuple[Word, ...], ...] = ()
    """Every command that it might run, overestimated; deny rules are compared with them."""
    raw_words: tuple[Word, ...] = ()
    """The words of text that could not be parsed."""
    forbidden: str = ""
    """Why it must not run whatever the rules say, or ""."""
    collapses: str = ""
    """A word that would mean everything if a variable in it were empty."""
    is_build: bool = False
    """Whether it is a build or a test run."""
    limits: RuleLimits = RuleLimits()
    """What allow rules may not cover."""
    once_only: str = "dirge cannot analyze it"
    """Why no rule may allow it again, or ""."""
    changes_git: bool = False
    """Whether it runs git for more than reading."""
    reads: tuple[ResolvedPath, ...] = ()
    """Paths that it names, for rules that deny reading."""
    touches: tuple[ResolvedPath, ...] = ()
    """Paths that it names, for rules that deny changing."""
    unresolved: UnresolvedParts = UnresolvedParts()
    """The parts that are known only at run time."""

    @property
    def resource(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class NameFact:
    """A use of something known by its name: a host, an MCP tool, an agent."""

    op: Operation
    """The operation."""
    name: str
    """The name."""

    @property
    def resource(self) -> str:
        return self.name


Fact: TypeAlias = PathFact | CommandFact | NameFact


@dataclass(frozen=True, slots=True)
class CallFacts:
    """Everything that one tool call would do."""

    facts: tuple[Fact, ...]
    """One fact for each path, command or name."""
    has_plain_command: bool = False
    """Whether one of its command lines could be split into plain commands."""


_EDITING_PROGRAMS = word_set(
    "chmod chown cp dd install ln mkdir mv patch rm rmdir rsync shred tee touch truncate unlink"
)
_EDITING_IN_PLACE = word_set("sed gsed perl ruby awk gawk")
_IN_PLACE = late_pattern(r"-[a-zA-Z]*i|--in-place")
_EDITING_SUBCOMMANDS = word_set(
    "am apply checkout cherry-pick clean merge mv pull rebase reset restore revert rm stash"
)
_QUOTED = late_pattern(r"'[^']*'|\"[^\"]*\"")
_REDIRECTION = late_pattern(r">>?\|?\s*(?!/dev/null\b)[^\s&>(]")


def edits_files(fact: Fact) -> bool:
    """Whether it is known to change files: a redirection, or a program that does nothing else."""
    if isinstance(fact, PathFact):
        return fact.op == "edit"
    if not isinstance(fact, CommandFact):
        return False
    is_redirected = not fact.words and _REDIRECTION.search(_QUOTED.sub("''", fact.text))
    return bool(is_redirected) or any(map(_edits, (fact.words, *fact.may_run)))


def _edits(words: Sequence[Word]) -> bool:
    texts = [word.text for word in words]
    if not texts:
        return False
    program = os.path.basename(texts[0])
    if program in _EDITING_IN_PLACE:
        return any(map(_IN_PLACE.match, texts[1:]))
    is_git_edit = program == "git" and not _EDITING_SUBCOMMANDS.isdisjoint(texts[1:])
    return program in _EDITING_PROGRAMS or is_git_edit
