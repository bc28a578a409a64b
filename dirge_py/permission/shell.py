"""A command line as facts: each part judged on its own, with the files it names.

Only a command that the strict lexer and tree-sitter read alike is taken apart and can be allowed.
Everything else is one opaque fact that asks; for it the loose reader serves the deny rules.
"""

import logging
import os.path
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from dirge_py.claims import Command
from dirge_py.permission.changes import TURNS_SHELL, changed_files
from dirge_py.permission.danger import destruction, is_device
from dirge_py.permission.facts import CommandFact, Fact, PathFact, Place, Plan, Request
from dirge_py.permission.loose import LooseReading, open_command, raw_words, read_loosely
from dirge_py.permission.options import Refused
from dirge_py.permission.programs import Judgement, is_build, judge
from dirge_py.permission.words import NotPlain, Part, Word, lex

_LOG = logging.getLogger(__name__)
_MAX_FOLDERS = 8
_MAX_MENTIONS = 256
_RAW_REACH = 32
_MAX_RAW_STARTS = 4096
_INTERPRETERS = re.compile(
    r"(?:python|pypy|node|deno|bun|perl|ruby|php|lua|awk|gawk|osascript|sh|bash|zsh|dash|ksh|fish)"
    r"[0-9.]*"
)
_INLINE = re.compile(r"-[A-Za-z]*[ceprE]|--(?:eval|command|print|run)(?:=.*)?")
_STARTS_AS_PATH = re.compile(r"(?:~|\$HOME|\$\{HOME[^}]*\})(?=/|\Z)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The looks at the file system that judging a command takes; paths are absolute.

    `expand` gives the paths a pattern could stand for in a folder, None if they are too many.
    """

    place: Callable[[str], Place]
    is_folder: Callable[[str], bool]
    expand: Callable[[str, str], Sequence[str] | None]
    git_hazard: Callable[[str], str]
    home: str


@dataclass(slots=True)
class Disagreements:
    """How often tree-sitter read a plain command otherwise than the lexer; it should stay rare."""

    count: int = 0


DISAGREEMENTS = Disagreements()


def read_command(command: Command, around: Surroundings) -> Request:
    """What this command line would do."""
    try:
        parts = lex(command.text)
        _check_second_opinion(command.text, parts)
    except NotPlain as reason:
        return Request((_opaque(command, str(reason), around),))
    return _Walk(command, parts, around).request()


def _check_second_opinion(text: str, parts: tuple[Part, ...]) -> None:
    # Imported here: it loads the parser, which most starts of the program never need.
    from dirge_py.permission.syntax_tree import sees_the_same  # noqa: PLC0415

    if not sees_the_same(text, parts):
        DISAGREEMENTS.count += 1
        _LOG.info("two parsers disagree on a command of %d characters", len(text))
        raise NotPlain("two parsers read it in different ways")


class _Walk:
    """Goes through the parts of one plain command line, following `cd`."""

    def __init__(self, command: Command, parts: tuple[Part, ...], around: Surroundings) -> None:
        self._command = command
        self._parts = parts
        self._around = around
        # As bash keeps it: a path whose links are not followed. More than one where nobody can
        # know whether a `cd` will have happened.
        self._folders = [command.cwd]
        self._altered_by = ""

    def request(self) -> Request:
        facts: list[Fact] = []
        for index, part in enumerate(self._parts):
            facts.extend(self._facts(part, is_piped=self._is_piped(index)))
        return Request(tuple(dict.fromkeys(facts)), Plan(self._parts))

    def _is_piped(self, index: int) -> bool:
        following = self._parts[index + 1 : index + 2]
        return self._parts[index].joint == "|" or any(one.joint == "|" for one in following)

    def _facts(self, part: Part, *, is_piped: bool) -> Iterator[Fact]:
        if self._altered_by:
            reason = f"it runs after `{self._altered_by}`, which can change what it means"
            yield replace(self._command_fact(part, reason), words=(), is_grantable=False)
            return
        reads: tuple[PathFact, ...] = ()
        refusal = ""
        try:
            judgement = judge(part.words)
            refusal = self._git_refusal(judgement)
            reads = tuple(self._reads(judgement))
        except Refused as reason:
            refusal = str(reason)
            judgement = Judgement()
        yield self._command_fact(part, refusal or self._move(part, judgement, is_piped=is_piped))
        yield from reads
        if part.words[0].text in TURNS_SHELL:
            self._altered_by = part.words[0].text
        if refusal:
            yield from self._changes(part)

    def _command_fact(self, part: Part, refusal: str) -> CommandFact:
        loose = open_command(part.argv)
        places = self._mentioned(loose.commands) if refusal else ()
        return CommandFact(
            text=part.text,
            words=part.words,
            refusal=refusal,
            may_run=_as_words(loose.commands),
            raw_words=tuple(map(Word, raw_words(part.text))) if loose.is_torn else (),
            destroys=_destruction(loose, part.text, self._folders, self._around.home),
            is_build=is_build(part.argv),
            is_moved=self._folders != [self._command.cwd],
            is_grantable=self._is_grantable(part, loose.commands)
            and all(place.inside and not place.protected for place in places),
            reads=places,
        )

    def _is_grantable(self, part: Part, may_run: Iterable[tuple[str, ...]]) -> bool:
        if any(word.has_glob for word in part.words) or self._folders != [self._command.cwd]:
            return False
        return not any(_runs_inline_code(words) for words in may_run)

    def _git_refusal(self, judgement: Judgement) -> str:
        if not judgement.uses_git:
            return ""
        hazards = (self._around.git_hazard(self._real(folder)) for folder in self._folders)
        return next(filter(None, hazards), "")

    def _reads(self, judgement: Judgement) -> Iterator[PathFact]:
        for word in judgement.reads:
            for place in self._places(word):
                # Most of what git is told are revisions; only what is there, or is no place for
                # one, is a path.
                if not judgement.uses_git or place.exists or not place.inside or place.secret:
                    yield PathFact("read", place)

    def _places(self, word: Word) -> Iterator[Place]:
        for folder in self._folders:
            real = self._real(folder)
            if not word.has_glob:
                yield self._around.place(os.path.join(real, word.text))
                continue
            found = self._around.expand(real, word.text)
            if found is None:
                raise Refused(f"{word.text} stands for too many files to look at")
            yield from (self._around.place(path) for path in found)

    def _move(self, part: Part, judgement: Judgement, *, is_piped: bool) -> str:
        """Follow a `cd`; the answer says why it may not run unasked."""
        if part.words[0].text != "cd":
            return ""
        if judgement.moves_to is None or is_piped:
            self._altered_by = "cd"
            return "nobody can tell where this `cd` leads"
        target = judgement.moves_to.text
        moved = [os.path.normpath(os.path.join(folder, target)) for folder in self._folders]
        stays = part.joint in ("&&", "||")
        self._folders = list(dict.fromkeys((self._folders if stays else []) + moved))
        if len(self._folders) > _MAX_FOLDERS:
            return "it goes through too many folders"
        places = [self._around.place(folder) for folder in moved]
        if not all(place.inside and not place.forbidden for place in places):
            return "it leaves the workspace"
        if not all(self._around.is_folder(place.real) for place in places):
            self._folders = list(dict.fromkeys([*self._folders, self._command.cwd]))
            return "it goes to a folder that is not there"
        return ""

    def _changes(self, part: Part) -> Iterator[PathFact]:
        for op, word in changed_files(part.words):
            try:
                places = tuple(self._places(word))
            except Refused:
                places = (self._around.place("/"),)
            yield from (PathFact(op, place) for place in places)

    def _mentioned(self, commands: Iterable[tuple[str, ...]]) -> tuple[Place, ...]:
        return _mentioned(commands, [self._real(one) for one in self._folders], self._around)

    def _real(self, folder: str) -> str:
        return self._around.place(folder).real


def _opaque(command: Command, reason: str, around: Surroundings) -> CommandFact:
    """A command line that cannot be taken apart: it asks, and denies look wherever they can."""
    loose = read_loosely(command.text)
    destroys = _destruction(loose, command.text, [command.cwd], around.home)
    device = next((target for target in loose.targets if is_device(target)), "")
    changed = [
        word.text
        for words in loose.commands
        for _, word in changed_files([Word(text) for text in words])
    ]
    places = _mentioned([*loose.commands, loose.targets], [command.cwd], around)
    touched = _mentioned([changed, loose.targets], [command.cwd], around)
    return CommandFact(
        text=command.text,
        refusal=f"it cannot be judged: {reason}",
        may_run=_as_words(loose.commands),
        raw_words=tuple(map(Word, raw_words(command.text))),
        destroys=destroys or (f"it would write to the device {device}" if device else ""),
        reads=places,
        touches=touched,
    )


def _destruction(loose: LooseReading, text: str, folders: Sequence[str], home: str) -> str:
    commands = list(loose.commands)
    if loose.is_torn:
        raw = raw_words(text)
        commands += [raw[at : at + _RAW_REACH] for at in range(min(len(raw), _MAX_RAW_STARTS))]
    moved = {
        os.path.normpath(os.path.join(folder, _STARTS_AS_PATH.sub(lambda _: home, target)))
        for words in commands
        if words[0] in ("cd", "pushd")
        for folder in folders
        for target in words[1:] or ("~",)
    }
    found = (destruction(words, folders=[*folders, *moved], home=home) for words in commands)
    why = next(filter(None, found), "")
    return f"it would destroy the machine or the home folder: {why}" if why else ""


def _as_words(commands: Iterable[Sequence[str]]) -> tuple[tuple[Word, ...], ...]:
    return tuple(tuple(map(Word, words)) for words in commands)


def _mentioned(
    commands: Iterable[Sequence[str]], folders: Sequence[str], around: Surroundings
) -> tuple[Place, ...]:
    """Every place that a word could name; a place that does not exist cannot be read."""
    texts = dict.fromkeys(
        piece
        for words in commands
        for word in words
        for piece in (word, word.partition("=")[2])
        if piece and not piece.startswith("-") and len(piece) < 4096 and "\0" not in piece
    )
    expanded = (_STARTS_AS_PATH.sub(lambda _: around.home, text, count=1) for text in texts)
    paths = [os.path.join(folder, text) for text in expanded for folder in folders]
    return tuple(dict.fromkeys(around.place(path) for path in paths[:_MAX_MENTIONS]))


def _runs_inline_code(words: Sequence[str]) -> bool:
    name = words[0].rsplit("/", 1)[-1]
    if name in ("eval", "source", "."):
        return True
    if name in ("awk", "gawk", "mawk"):
        return True
    return bool(_INTERPRETERS.fullmatch(name)) and any(
        _INLINE.fullmatch(word) for word in words[1:]
    )
