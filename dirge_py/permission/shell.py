"""Turns a command line into facts: each part judged separately, with the files it names.

Only a command that the strict lexer and tree-sitter parse alike is split and can be allowed. A line
with control structures is allowed if every part of it only looks. Everything else is one fact that
asks; `command_scan` finds its commands for the deny rules.

Import this module only when a command has to be judged, because it loads the parser.
"""

import logging
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import tree_sitter
import tree_sitter_bash

from dirge_py.git.repository import work_tree_of
from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.shell_lexer import ANYTHING, NotPlain, Part, Word, lex, word_set
from dirge_py.permission.blocklist import (
    CommandFolders,
    dangerous_if_empty,
    dangerous_tails,
    is_device,
    why_destructive,
)
from dirge_py.permission.command_scan import (
    CommandScan,
    raw_words,
    reads_of_finds,
    reads_of_listers,
    scan_command,
    scan_words,
    unresolved_commands,
    unresolved_paths,
    unresolved_targets,
)
from dirge_py.permission.facts import (
    CallFacts,
    CommandFact,
    Fact,
    PathFact,
    ResolvedPath,
    RuleLimits,
    UnresolvedCommand,
    UnresolvedParts,
)
from dirge_py.permission.git.commands import judge_git, shown_secrets
from dirge_py.permission.git.repository import hooks_at
from dirge_py.permission.launchers import files_named_in_code, runs_inline_code
from dirge_py.permission.path_mentions import (
    MOVERS,
    TURNS_SHELL,
    CwdTracker,
    ShellLookups,
    changed_files,
    enters_unknown_folder,
    files_in_git_objects,
    folders_entered,
    mentioned_paths,
    own_places_touched,
    too_many_paths,
    withheld_from_searches,
    without_cwd_prefix,
    words_to_spell,
)
from dirge_py.permission.patterns import names_in, program_of
from dirge_py.permission.prefix_rules import is_sed_script
from dirge_py.permission.program_options import NotReadOnly, paths_behind_colons
from dirge_py.permission.programs import SHELL_BUILTINS, is_build, judge_program
from dirge_py.permission.recursive_reads import (
    NARROWER,
    RecursiveRead,
    recursive_read_of,
    with_reasons,
)
from dirge_py.permission.shell_structure import lex_structure, spelled_variable
from dirge_py.types.tools import ShellCommand

_LOG = logging.getLogger(__name__)
_SIGNS = "-+(!,:"
"""What an argument begins with if a program may not take it for a file."""
_TAKES_WORDS = frozenset(("xargs", "parallel"))
MAX_CHARS = 128 * 1024
"""Linux starts no program with a longer argument, so a longer command line cannot run at all."""


def read_command(command: ShellCommand, lookups: ShellLookups) -> CallFacts:
    """Return what this command line would do."""
    if len(command.text) > MAX_CHARS:
        reason = f"it is longer than {MAX_CHARS // 1024} KiB: write it into a file first"
        return CallFacts((CommandFact(text=command.text, refusal=reason, forbidden=reason),))
    try:
        parts = lex(command.text)
        if not sees_the_same(command.text, parts):
            _LOG.info("two parsers disagree on a command of %d characters", len(command.text))
            raise NotPlain("two parsers read it in different ways")
    except NotPlain as reason:
        opaque = _opaque(command, str(reason), lookups)
        return _structured(command, opaque, lookups)
    return _Walk(command, parts, lookups).request()


def _structured(command: ShellCommand, opaque: CommandFact, lookups: ShellLookups) -> CallFacts:
    """Return the facts of a line with control structures, which may run if every part only looks.

    `opaque` is the fact about the line as a whole. The deny rules are compared with its
    overestimate in any case, and no rule allows a line in which a part does more than look.
    """
    parts = () if opaque.forbidden else _parts_of_structure(command, lookups)
    if not parts:
        return CallFacts((opaque,))
    facts = _Walk(command, parts, lookups).request().facts
    refusals = (fact.refusal for fact in facts if isinstance(fact, CommandFact) and fact.refusal)
    if refusal := next(refusals, ""):
        return CallFacts((replace(opaque, refusal=refusal),))
    looks = replace(
        opaque,
        refusal="",
        collapses="",
        reads=tuple(place for place in opaque.reads if place.forbidden),
        touches=tuple(place for place in opaque.touches if place.forbidden),
        changes_git=False,
    )
    reads = (fact for fact in facts if isinstance(fact, PathFact))
    return CallFacts((looks, *reads), has_plain_command=True)


def _parts_of_structure(command: ShellCommand, lookups: ShellLookups) -> tuple[Part, ...]:
    """Return all commands of a line with control structures; none if it can't be read for sure."""
    return read_structure(
        command.text, _known_variables(command, lookups), lookups.place(command.cwd).real
    )


def read_structure(text: str, known: Mapping[str, str], folder: str = "/") -> tuple[Part, ...]:
    """Return every command that a line may run in `folder`; none if that isn't certain.

    `known` are the variables with a known value.
    """
    try:
        line = lex_structure(text, known)
    except NotPlain:
        return ()
    if _parsed(text, _CONTROL_NODES) != (list(line.spelled), _sorted(line.redirects)):
        return ()
    for pattern in line.split:
        names = names_in([folder], pattern)
        if names is None or not all(map(_UNSPLIT.fullmatch, names)):
            return ()
    return line.parts


_UNSPLIT = late_pattern(r"[A-Za-z0-9_./@%+=:,^][A-Za-z0-9_./@%+=:,^-]*")
"""A name that stays one word where it is not quoted."""


def _known_variables(command: ShellCommand, lookups: ShellLookups) -> Mapping[str, str]:
    """Return the variables that the shell certainly has, with their values."""
    environment = {name: os.environ.get(name, "") for name in ("HOME", "USER", "LOGNAME", "SHELL")}
    home = environment["HOME"]
    if os.path.realpath(home) != lookups.home:
        home = environment["HOME"] = ""
    return {**environment, "PWD": lookups.place(command.cwd).real, "~HOME": home}


class _Walk:
    """Walks through the parts of one plain command line and follows `cd`."""

    def __init__(
        self, command: ShellCommand, parts: tuple[Part, ...], lookups: ShellLookups
    ) -> None:
        self._command = command
        self._parts = parts
        self._lookups = lookups
        self._folders = CwdTracker(command.cwd, lookups.home, self._real)
        self._altered_by = ""
        self._is_line_scanned = False
        self._listers: list[tuple[str, ...]] = []
        """The commands before the current one in its pipeline: they produce its input."""

    def request(self) -> CallFacts:
        facts: list[Fact] = []
        for index, part in enumerate(self._parts):
            is_piped = any(near.joint == "|" for near in self._parts[index : index + 2])
            if part.joint != "|":
                self._listers = []
            facts.extend(self._facts(part, is_piped=is_piped))
            self._listers.append(part.argv)
        return CallFacts(tuple(dict.fromkeys(facts)), has_plain_command=True)

    def _facts(self, part: Part, *, is_piped: bool) -> Iterator[Fact]:
        self._folders.enter(part.joint)
        if self._altered_by:
            reason = f"it runs after `{self._altered_by}`, which can change what it means"
            yield replace(self._command_fact(part, reason), words=(), once_only=reason)
            self._notice_changes(part)
            return
        reads: tuple[PathFact, ...] = ()
        refusal = ""
        try:
            words = tuple(map(self._with_signs_checked, part.words))
            named, uses_git = judge_program(words), part.argv[0] == "git"
            if part.argv[0] not in SHELL_BUILTINS:
                refusal = self._lookups.program_problem(part.argv[0])
            if uses_git and not refusal:
                refusal = next(filter(None, map(self._lookups.git_hazard, self._reals())), "")
            search = recursive_read_of(part.words)
            reads = tuple(self._reads(part, named, search.excluded if search else ()))
            reads += tuple(self._kept(part, search))
            reads += tuple(PathFact("read", one) for w in part.inputs for one in self._places(w))
            for folder in self._reals() if uses_git else ():
                shown = shown_secrets(part.words, folder, self._lookups.place)
                reads += tuple(PathFact("read", place) for place in shown)
        except NotReadOnly as reason:
            folders = self._reals() if _changes_git(part.argv) else ()
            hooks = next(filter(None, (hooks_at(one, part.argv) for one in folders)), "")
            refusal = f"{reason}; {hooks}" if hooks else str(reason)
        if part.words[0].text == "cd":
            # Also for a refused part: the user or a rule may allow it.
            move_refusal = self._move(part, is_piped=is_piped)
            refusal = refusal or move_refusal
        yield self._command_fact(part, refusal)
        yield from reads
        if not refusal and self._folders.is_moved:
            # It may read the folder that it runs in.
            around = map(self._lookups.place, self._folders.possible)
            yield from (PathFact("read", place) for place in around if not place.inside)
        self._notice_changes(part)
        if refusal:
            for op, word in changed_files(part.words):
                places = self._any_places(word, self._lookups.place("/"))
                yield from (PathFact(op, place) for place in places)
            # The secrets in folders that a command such as `tar` or `cp -r` reads as a whole.
            places = self._kept_if_known(scan_words(part.words).commands)
            yield from (PathFact("read", place) for place in places if place.secret)

    def _with_signs_checked(self, word: Word) -> Word:
        """Return the word, marked if it is a pattern for file names that can be no option."""
        if not word.has_glob:
            return word
        is_safe = word.text[0] not in "*?["
        if not is_safe:
            names = names_in(self._reals(), word.text)
            is_safe = names is not None and not any(name[0] in _SIGNS for name in names)
        return replace(word, is_no_option=is_safe)

    def _notice_changes(self, part: Part) -> None:
        if part.words[0].text not in TURNS_SHELL:
            return
        self._altered_by = part.words[0].text
        commands = scan_words(part.words).commands
        if any(words[0] in MOVERS for words in commands):
            folders = self._folders
            folders.lose(folders_entered(commands, folders.possible, self._lookups.home))

    def _command_fact(self, part: Part, refusal: str) -> CommandFact:
        scan, lookups = self._scan(part), self._lookups
        where = CommandFolders(
            folders=self._folders.possible, home=lookups.home, roots=lookups.roots
        )
        listed = reads_of_listers(self._listers, part.argv) if refusal else None
        read = (*scan.commands, *reads_of_finds(scan.commands), *(listed or ()))
        kept = self._kept_if_known(read) if refusal else ()
        # Redirections inside a quoted command line are in none of its commands.
        redirected = [*scan.targets, *scan.sources]
        stored = files_in_git_objects(scan.commands, self._reals())
        words = [*_words_from(0, scan.commands), *redirected, *stored]
        places = self._mentioned(words) if refusal else ()
        touched: tuple[ResolvedPath, ...] = ()
        if refusal:
            arguments = [*_words_from(1, scan.commands), *redirected]
            # The input of `xargs` comes from the parts before it.
            is_fed = not _TAKES_WORDS.isdisjoint(part.argv)
            text = self._command.text if is_fed else part.text
            own = own_places_touched(scan.commands, self._reals(), text, self._lookups)
            most = too_many_paths(self._lookups.place)
            globs = (word for word in part.words[1:] if word.has_glob)
            matched = (place for word in globs for place in self._any_places(word, most))
            touched = (*self._mentioned(arguments), *matched, *own)
        return CommandFact(
            text=part.text,
            words=part.words,
            refusal=refusal,
            may_run=_as_words(scan.commands),
            raw_words=tuple(map(Word, raw_words(part.text))) if scan.is_torn else (),
            forbidden=_destruction(scan, part.text, where, self._listers),
            collapses=dangerous_if_empty(scan.run, where) if refusal else "",
            unresolved=UnresolvedParts(
                commands=_open(scan, self._folders.possible, self._lookups),
                reads=() if listed is not None else unresolved_paths(scan.open, ()),
                edits=unresolved_targets(scan.open, ()) if refusal else (),
            ),
            is_build=is_build(part.argv),
            limits=RuleLimits(
                is_moved=self._folders.is_moved,
                spelled=self._spelled(part.words) if refusal else (),
            ),
            changes_git=bool(refusal) and any(map(_changes_git, scan.commands)),
            once_only=self._why_once_only(part, scan.commands, places),
            reads=(*places, *kept),
            touches=touched,
        )

    def _spelled(self, words: Sequence[Word]) -> tuple[tuple[int, str], ...]:
        if words[0].text == "cd":
            return ()
        # These are claims of their own.
        files = {word.text for _, word in changed_files(words)}
        found = words_to_spell(words, self._reals(), self._lookups)
        return tuple(
            (at, start)
            for at, start in found
            if files.isdisjoint((words[at].text, words[at].text.partition("=")[2]))
            and not is_sed_script(words, at)
        )

    def _why_once_only(
        self, part: Part, commands: Sequence[Sequence[str]], places: Iterable[ResolvedPath]
    ) -> str:
        """Return why no rule may allow this part again, or ""."""
        if not all(self._lookups.place(folder).inside for folder in self._folders.possible):
            return "it runs in a folder outside the workspace"
        # Only the shell has a command `.`; in `npx eslint .` it is a folder.
        is_shell = part.words[0].text in TURNS_SHELL
        if any(runs_inline_code(words) for words in commands if is_shell or words[0] != "."):
            return "it runs code that is written in the command"
        kept = (place.protected or (place.secret if not place.inside else "") for place in places)
        return next(filter(None, kept), "")

    def _kept(self, part: Part, search: RecursiveRead | None) -> Iterator[PathFact]:
        """Yield the files that a search through folders would read although reading them asks."""
        is_fed = part.joint == "|" and not any(one.startswith("<") for one in part.redirects)
        if search is None or (search.program == "rg" and is_fed and not search.starts):
            return
        for folder in dict.fromkeys(self._reals()):
            self._check_options(part, folder)
            for place in self._starts(search, folder):
                is_linked = os.path.normpath(place.asked) != place.real
                kind = replace(search, is_linked=True) if is_linked else search
                found = self._lookups.kept_beneath(kind, folder, place.real)
                if found is None:
                    raise NotReadOnly(f"it reads more files than dirge can check: {NARROWER}")
                yield from (PathFact("read", one) for one in with_reasons(found, search, folder))

    def _check_options(self, part: Part, folder: str) -> None:
        """Reject an option with a glob: a file's name could take its place."""
        for word in part.words[1:]:
            if word.has_glob and word.text.startswith("-"):
                found = self._lookups.expand(folder, word.text)
                if found is None or len(found) > 1:
                    raise NotReadOnly(f"{word.text} could be read as another option; quote it")

    def _starts(self, search: RecursiveRead, folder: str) -> Iterator[ResolvedPath]:
        """Yield the folders below which a search that runs in `folder` reads."""
        for text in search.unsure:
            if not os.path.lexists(os.path.join(folder, text)):
                raise NotReadOnly(f"{text} may be a commit, whose files dirge cannot check")
        if not search.starts or search.program == "git grep":
            yield self._lookups.place(folder)
        for word in search.starts:
            if word.has_glob and any(one.startswith(".") for one in word.text.split("/")[-1:]):
                raise NotReadOnly(f"{word.text} may also match `..`")
            yield from (one for one in self._places(word) if os.path.isdir(one.real))

    def _scan(self, part: Part) -> CommandScan:
        """Scan the part; once also the whole line, if the part's words may have been redefined."""
        if self._altered_by in ("", *MOVERS) or self._is_line_scanned:
            return scan_words(part.words)
        self._is_line_scanned = True
        return scan_command(self._command.text)

    def _kept_if_known(self, commands: Iterable[Sequence[str]]) -> tuple[ResolvedPath, ...]:
        guesses = ("/", self._lookups.home) if self._folders.is_lost else ()
        return tuple(
            withheld_from_searches(commands, self._reals(), self._lookups, guesses=guesses)
        )

    def _reads(
        self, part: Part, named: Sequence[Word], excluded: Collection[str]
    ) -> Iterator[PathFact]:
        uses_git, wants_files = part.argv[0] == "git", part.argv[0] == "diff"
        for word in named:
            if word.text in excluded or f":{word.text}" in excluded:
                continue
            for place in self._places(word):
                if wants_files and os.path.isdir(place.real):
                    raise NotReadOnly(f"{word.text} is a folder, whose links it would follow")
                # Most operands of git are revisions; only an existing file, or a word that cannot
                # be a revision, is a path.
                if not uses_git or place.exists or not place.inside or place.secret:
                    yield PathFact("read", place)
        from_top = [path for word in named if uses_git for path in paths_behind_colons(word)]
        for folder in self._reals() if from_top else ():
            top = work_tree_of(folder)
            for word in from_top:
                # The file need not exist: git reads it from the repository.
                place = self._lookups.place(os.path.join(top, word.text))
                if place.inside or place.secret:
                    yield PathFact("read", place)

    def _places(self, word: Word) -> Iterator[ResolvedPath]:
        for real in self._reals():
            if not word.has_glob:
                yield self._lookups.place(os.path.join(real, word.text))
                if (text := without_cwd_prefix(word.text)) != word.text:
                    yield self._lookups.place(os.path.join(real, text))
                continue
            found = self._lookups.expand(real, word.text)
            if found is None:
                raise NotReadOnly(f"{word.text} matches too many files to check")
            yield from (self._lookups.place(path) for path in found)

    def _move(self, part: Part, *, is_piped: bool) -> str:
        """Follow a `cd`; return why it may not run without a question, or ""."""
        moved = self._folders.follow(part, is_piped=is_piped)
        if self._folders.is_lost:
            self._altered_by = "cd"
            return "dirge cannot tell where this `cd` goes"
        places = [self._lookups.place(folder) for folder in moved]
        if not all(place.inside and not place.forbidden for place in places):
            return "it leaves the workspace"
        if not all(os.path.isdir(place.real) for place in places):
            return "it goes to a folder that doesn't exist"
        return ""

    def _any_places(self, word: Word, otherwise: ResolvedPath) -> tuple[ResolvedPath, ...]:
        """Return the places that the word names, or the other one if they are too many."""
        try:
            return tuple(self._places(word))
        except NotReadOnly:
            return (otherwise,)

    def _mentioned(self, words: Iterable[str]) -> tuple[ResolvedPath, ...]:
        return mentioned_paths(words, self._reals(), self._lookups)

    def _reals(self) -> list[str]:
        return [self._real(folder) for folder in self._folders.possible]

    def _real(self, folder: str) -> str:
        return self._lookups.place(folder).real


def _opaque(command: ShellCommand, reason: str, lookups: ShellLookups) -> CommandFact:
    """Return the fact about a command line that cannot be parsed: it asks."""
    scan = scan_command(command.text)
    raw = raw_words(command.text)
    where = CommandFolders(folders=[command.cwd], home=lookups.home, roots=lookups.roots)
    folders = folders_entered(scan.commands, [command.cwd], lookups.home)
    named = [*scan.targets, *scan.sources, *(raw if scan.is_torn else ())]
    reals = [lookups.place(folder).real for folder in folders]
    stored = files_in_git_objects(scan.commands, reals)
    places = mentioned_paths([*_words_from(0, scan.commands), *named, *stored], folders, lookups)
    touched = mentioned_paths([*_words_from(1, scan.commands), *named], folders, lookups)
    guesses = ("/", lookups.home) if enters_unknown_folder(scan.commands, lookups.home) else ()
    searching = (*scan.commands, *reads_of_finds(scan.commands))
    kept = withheld_from_searches(searching, reals, lookups, guesses=guesses)
    writing = next((words for words in scan.commands if _changes_git(words)), ())
    hooks = hooks_at(reals[0], writing) if writing else ""
    return CommandFact(
        text=command.text,
        refusal=f"dirge cannot analyze it: {reason}" + (f"; {hooks}" if hooks else ""),
        may_run=_as_words(scan.commands),
        raw_words=tuple(map(Word, raw)),
        forbidden=_destruction(scan, command.text, where),
        collapses=dangerous_if_empty(scan.run, replace(where, folders=tuple(folders))),
        unresolved=UnresolvedParts(
            commands=_open(scan, reals, lookups),
            reads=unresolved_paths(scan.open, scan.open_sources),
            edits=unresolved_targets(scan.open, scan.open_targets),
        ),
        once_only=reason,
        changes_git=bool(writing),
        reads=(*places, *kept),
        touches=(*touched, *own_places_touched(scan.commands, reals, command.text, lookups)),
    )


def _changes_git(words: Sequence[str]) -> bool:
    """Whether git would do more than read; `words` hold no options before the subcommand."""
    if program_of(words) != "git" or len(words) < 2 or words[1].startswith("-"):
        return False
    try:
        judge_git([Word(word) for word in words[1:]])
    except NotReadOnly:
        return True
    return False


def _destruction(
    scan: CommandScan, text: str, where: CommandFolders, listers: Sequence[Sequence[str]] = ()
) -> str:
    # If a shell in the line reads its commands from elsewhere, any text may be run.
    is_run = any(words[0] == ANYTHING for words in scan.open)
    run = scan.commands if is_run else scan.run
    commands: list[Sequence[str]] = [*listers, *run, *scan.spelled]
    known = set(run)
    listed: list[tuple[Sequence[str], Sequence[Sequence[str]]]] = [
        (one, before) for one, before in scan.listed if one in known
    ]
    fed_by = [words for one in listers for words in scan_words(tuple(map(Word, one))).run]
    listed += [(one, fed_by) for one in known if fed_by]
    if scan.is_torn:
        commands += dangerous_tails(raw_words(text))
    entered = folders_entered(scan.run, list(where.folders), where.home)
    where = replace(where, folders=tuple(entered))
    why = why_destructive(commands, where, listed) + _by_empty(scan, commands, where)
    device = next(filter(is_device, scan.targets), "")
    if scan.is_bomb:
        return "it is a fork bomb: it would start processes until the machine stops responding"
    if device and not why:
        return f"it would write to the device {device}"
    destroyed = "the machine, the home folder or a folder above the workspace"
    return f"it would destroy {destroyed}: {why}" if why else ""


def _by_empty(scan: CommandScan, commands: Sequence[Sequence[str]], where: CommandFolders) -> str:
    """Return what to add to the reason if a command destroys only because a variable is empty."""
    emptied = dict(scan.emptied)
    if not emptied or why_destructive([one for one in commands if one not in emptied], where):
        return ""
    names = next((names for one, names in scan.emptied if why_destructive([one], where)), ())
    if not names:
        return ""
    verb, sets = ("counts", "sets it") if len(names) == 1 else ("count", "sets them")
    spelled = " and ".join(f"`${name}`" for name in names)
    return (
        f"; {spelled} {verb} as empty because nothing {sets}: write the path out, or"
        f" `${{{names[0]}:?}}`"
    )


def _open(
    scan: CommandScan, folders: Sequence[str], lookups: ShellLookups
) -> tuple[UnresolvedCommand, ...]:
    names = partial(names_in, folders)
    found = unresolved_commands(scan.open, home=lookups.home, cwd=folders[0], names=names)
    return tuple(dict.fromkeys(found))


def _as_words(commands: Iterable[Sequence[str]]) -> tuple[tuple[Word, ...], ...]:
    return tuple(tuple(map(Word, words)) for words in commands)


def _words_from(start: int, commands: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the words of each command from this index on, and the files that their code names."""
    yield from (word for words in commands for word in words[start:])
    yield from files_named_in_code(commands)


_PARSER = tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))
_STRUCTURE_NODES = frozenset(("program", "list", "pipeline", "redirected_statement", "command"))
_OPERATOR_NODES = frozenset(("&&", "||", "|", ";", "\n", "comment"))
_CONTROL_NODES = _STRUCTURE_NODES | word_set(
    "if_statement elif_clause else_clause for_statement do_group negated_command"
    " if then elif else fi do done !"
)
"""Nodes of lines with control structures, with their keywords."""
_LOOP_SIGNS = frozenset(("for", "in", ";", "\n"))
_TEST_NODES = frozenset(("test_command", "unary_expression", "binary_expression"))
_TEST_SIGNS = frozenset(("[", "]", "test_operator", "!", "=", "==", "!=", "extglob_pattern"))
_REDIRECT_PIECES = frozenset(
    (">", ">>", ">&", "&>", "&>>", "<", "file_descriptor", "word", "number")
)


def sees_the_same(text: str, parts: tuple[Part, ...]) -> bool:
    """Whether tree-sitter finds exactly the commands and redirections that `lex` found in `text`.

    Text that `lex` did not accept may crash the parser, and the process with it.
    """
    redirects = [redirect for part in parts for redirect in part.redirects]
    return _parsed(text, _STRUCTURE_NODES) == ([part.argv for part in parts], _sorted(redirects))


def _parsed(
    text: str, structures: frozenset[str]
) -> tuple[list[tuple[str, ...]], list[str]] | None:
    """Return the commands, loops and redirections in `text`; None if there is anything else."""
    root = _PARSER.parse(text.encode("ascii")).root_node
    found: list[tuple[str, ...]] = []
    redirects: list[str] = []
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type == "command":
            found.append(tuple(map(_argument, node.children)))
        elif node.type == "test_command":
            found.append(tuple(_test_words(node)))
        elif node.type == "file_redirect":
            if any(child.type not in _REDIRECT_PIECES for child in node.children):
                return None
            redirects.append(_node_text(node))
        elif node.type == "for_statement" and node.type in structures:
            *header, body = (child for child in node.children if child.type != "comment")
            words = [child for child in header if child.type not in _LOOP_SIGNS]
            name = _node_text(words[0]) if words[0].type == "variable_name" else "\0"
            found.append(("for", name, *map(_argument, words[1:])))
            stack.append(body)
        elif node.type in structures:
            stack.extend(reversed(node.children))
        elif node.type not in _OPERATOR_NODES:
            return None
        if node.is_missing:
            return None
    return None if root.has_error else (found, _sorted(redirects))


def _sorted(redirects: Iterable[str]) -> list[str]:
    return sorted(map(_blankless, redirects))


def _test_words(node: tree_sitter.Node) -> Iterator[str]:
    """Yield the words of a `[ … ]` with its brackets."""
    for child in node.children:
        if child.type in _TEST_NODES:
            yield from _test_words(child)
        else:
            yield _node_text(child) if child.type in _TEST_SIGNS else _argument(child)


def _argument(node: tree_sitter.Node) -> str:
    """Return the text of an argument; one that no plain command holds if it is not plain."""
    if node.type in ("command_name", "concatenation"):
        return "".join(_argument(child) for child in node.children)
    if node.type in ("word", "number"):
        return _node_text(node)
    if node.type in ("simple_expansion", "expansion"):
        return _variable(node)
    if node.type == "string" and any(child.type in _EXPANSIONS for child in node.children):
        return _string_with_variables(node)
    # The text between the quotes, not the children: they drop leading blanks.
    return _node_text(node)[1:-1] if node.type in ("raw_string", "string") else "\0"


_EXPANSIONS = frozenset(("simple_expansion", "expansion"))


def _variable(node: tree_sitter.Node) -> str:
    """Return what stands for a variable; text that no command holds for any other expansion."""
    kinds = [child.type for child in node.children]
    is_plain = kinds in (
        ["$", "variable_name"], ["$", "special_variable_name"], ["${", "variable_name", "}"],
    )  # fmt: skip
    return spelled_variable(_node_text(node.children[1])) if is_plain else "\0"


def _string_with_variables(node: tree_sitter.Node) -> str:
    text, at, start = b"", 1, node.start_byte
    whole = node.text or b""
    for child in node.children:
        if child.type in _EXPANSIONS:
            text += whole[at : child.start_byte - start] + _variable(child).encode("ascii")
            at = child.end_byte - start
    return (text + whole[at:-1]).decode("ascii")


def _node_text(node: tree_sitter.Node) -> str:
    return (node.text or b"").decode("ascii")


def _blankless(text: str) -> str:
    return text.replace(" ", "").replace("\t", "")
