"""Finds every command that a command line might run, for the deny rules.

Unlike `shell_lexer`, this reader accepts any text: it looks into substitutions, control structures,
wrappers (`sudo`, `xargs`, `bash -c`, …) and strings, and reports too many commands rather than too
few. Never use its results to allow anything.

For commands that would destroy something it also guesses the values of their unknown words from the
command line: a variable may hold any value that the line assigns to it, a parameter any argument of
a function or shell in the line, and input may be any text in the line. `unresolved_commands` yields
the forms that a command with such words can have.
"""

import contextlib
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, dropwhile, islice, pairwise

from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.shell_lexer import (
    ANYTHING,
    FED,
    FOUND,
    MAX_BYTES,
    MAX_PARTS,
    MAX_WORDS,
    QUOTED,
    REFERENCE,
    UNRUN,
    Word,
    mark_quoted,
    replace_marks,
    unmarked,
    unmarked_words,
    unquoted_value,
    variable_of,
    word_set,
)
from dirge_py.permission.blocklist import is_fork_bomb
from dirge_py.permission.command_splitter import (
    ASSIGNMENT,
    CommandSplitter,
    ShellVariables,
    SplitCommand,
    is_unresolved,
    with_folders_spelled,
)
from dirge_py.permission.facts import UnresolvedCommand, UnresolvedWord
from dirge_py.permission.launchers import READERS, REMOVERS, SHELLS, find_starts, inner_commands
from dirge_py.permission.patterns import MANY, ONE, program_of

_RELEVANT = REMOVERS | word_set(
    "chmod chown chgrp chattr setfacl chcon mv cp install tee ln dd find rsync tar bsdtar zip 7z"
    " git wipefs shred mkfs blkdiscard"
)
_WORDS_BEFORE_PROGRAM = word_set("if then elif else while until do ! { time command builtin")
_FUNCTION = late_pattern(r"(?<![\w.:-])([\w.:-]+)\s*\(\s*\)|\bfunction\s+([\w.:-]+)")
_ARRAY = late_pattern(r"(?<!\w)([A-Za-z_]\w*)\+?=\(([^()]*)\)")
_INNERMOST = late_pattern(r"\$\{[^{}]*\}|\$(?:[A-Za-z_]\w*|[0-9@*])|\$\(\)|`")
_PARAMETER = late_pattern(r"\$\{?([A-Za-z_]\w*|[0-9]+|[@*])(.*?)\}?", re.DOTALL)
_DEFAULT = late_pattern(r"(?:\[[^\]]*\])?:?[-=+](.*)", re.DOTALL)
_MOST_TEXTS = 256
_MOST_FORMS = 64


class RemovalGuesses:
    """Tracks the values that the commands of one line give to variables, parameters and input."""

    def __init__(self, text: str) -> None:
        self._functions = {one or other for one, other in _FUNCTION.findall(text)}
        self._variables: dict[str, dict[str, None]] = {}
        self._parameters: dict[str, None] = {}
        self._inputs: dict[str, None] = {}
        for name, inner in _ARRAY.findall(text):
            for value in re.sub(r"['\"\\]", "", inner).split()[:_MOST_TEXTS]:
                self._hold(name, value)

    def record(self, words: SplitCommand) -> None:
        """Record the values that this command gives to others."""
        if UNRUN in words:
            for text in unmarked_words(words)[:_MOST_TEXTS]:
                self._inputs.update(dict.fromkeys((text, *text.split()[:_MOST_TEXTS])))
            return
        words = unmarked_words(words)
        for word in words:
            if found := ASSIGNMENT.match(word):
                name, _, plus = found.groups()
                for start in (*(self._variables.get(name, ()) if plus else ()), ""):
                    self._hold(name, start + word[found.end() :])
        own = dropwhile(lambda one: one in _WORDS_BEFORE_PROGRAM or ASSIGNMENT.match(one), words)
        name, *rest = tuple(own) or ("",)
        if name == "set" or name in SHELLS or name in self._functions:
            self._parameters.update(dict.fromkeys(one for one in rest if not one.startswith("-")))
        elif name in ("for", "select") and rest:
            for value in rest[2:] if "in" in rest[1:2] else ("$@",):
                self._hold(rest[0], value)
        elif name in ("read", "mapfile", "readarray"):
            for variable in (*rest, "REPLY", "MAPFILE"):
                self._hold(variable, ANYTHING)
        elif name == "printf" and rest[:1] == ["-v"] and len(rest) > 1:
            for value in rest[2:]:
                self._hold(rest[1], value)

    def spelled(self, commands: Iterable[SplitCommand]) -> Iterator[SplitCommand]:
        """Return commands that remove or overwrite, with possible values for unknown words."""
        for words in commands:
            name = program_of(words)
            if name not in _RELEVANT and not name.startswith(("mkfs.", "newfs")):
                continue
            for at, word in enumerate(words[1:], start=1):
                for form in self._forms(word):
                    yield (*words[:at], form, *words[at + 1 :])

    def _hold(self, name: str, value: str) -> None:
        values = self._variables.setdefault(name, {})
        if len(values) < _MOST_TEXTS:
            values[value] = None

    def _forms(self, word: str) -> tuple[str, ...]:
        forms: dict[str, None] = {}
        waiting = [word]
        while waiting and len(forms) < _MOST_FORMS:
            text = waiting.pop()
            for reference in dict.fromkeys(_INNERMOST.findall(text)):
                for value in self._values(reference):
                    form = text.replace(reference, value)
                    if form not in forms and form != word and len(form) < 4096:
                        forms[form] = None
                        waiting.append(form)
        return tuple(forms)

    def _values(self, reference: str) -> Iterable[str]:
        if reference in (ANYTHING, "`"):
            return self._inputs
        parameter = _PARAMETER.fullmatch(reference)
        if not parameter:
            return ()
        name, rest = parameter.groups()
        is_parameter = name.isdigit() or name in ("@", "*")
        values = self._parameters if is_parameter else self._variables.get(name, {})
        default = _DEFAULT.fullmatch(rest)
        return (*values, default.group(1)) if default else values


MAX_COMMANDS = 256
MAX_DEPTH = 8
MAX_WORK = 1_500
"""How many texts are read for one command line, nested ones included; long texts count more."""
_LEADERS = word_set("if then elif else while until do ! { } time in function")
_IFS = late_pattern(r"\$\{IFS[^}]*\}")
_BARE_IFS = late_pattern(r"\$IFS\b")
_BRACES = late_pattern(r"(?<!\$)\{([^{}]*,[^{}]*)\}")
_MOST_SPREAD = 64
_MOST_SPELLED = 512
_RAW_BOUNDARY = late_pattern(r"[\s;&|(){}<>`$]+")
_WITH_MEANING = late_pattern(r"[$`*?\[{\ue010\ue013]")
_NAMES_PROGRAMS = ("BASH_ALIASES", "BASH_CMDS")


@dataclass(frozen=True, slots=True)
class CommandScan:
    """Every command that one command line might run, overestimated.

    Words whose value is known only at run time carry the marks of `shell_lexer`.
    """

    commands: tuple[SplitCommand, ...]
    """All commands, including those that are only part of a text."""
    run: tuple[SplitCommand, ...] = ()
    """The commands without those that are only part of a text."""
    open: tuple[SplitCommand, ...] = ()
    """The commands of `run` with words whose value is known only at run time."""
    targets: tuple[str, ...] = ()
    """Files that the commands might write to."""
    sources: tuple[str, ...] = ()
    """Files that commands would get as input."""
    open_targets: tuple[str, ...] = ()
    """Targets with parts that are known only at run time."""
    open_sources: tuple[str, ...] = ()
    """Sources with parts that are known only at run time."""
    is_torn: bool = False
    """Whether there may be more: quotes do not match, it is nested too deeply, or too long."""
    is_bomb: bool = False
    """Whether a function starts itself twice without end."""
    listed: tuple[tuple[SplitCommand, tuple[SplitCommand, ...]], ...] = ()
    """Commands, each with those in its pipeline or substitutions that may feed its arguments."""
    emptied: tuple[tuple[SplitCommand, tuple[str, ...]], ...] = ()
    """Commands, each with the variables in it that count as empty."""
    spelled: tuple[SplitCommand, ...] = ()
    """Removals, with possible values for their unknown words."""


def scan_command(text: str) -> CommandScan:
    """Return all commands that `text` might run, including those inside wrappers."""
    return _twice(text, partial(_read_text, replace_marks(text), depth=0))


def scan_words(words: Sequence[Word]) -> CommandScan:
    """Return the command itself and everything that it would run, as far as its words show."""
    literal = ((word, mark_quoted(replace_marks(word.text))) for word in words)
    marked = tuple(unquoted_value(text) if word.has_glob else text for word, text in literal)
    return _twice(" ".join(word.text for word in words), partial(_open, marked, depth=0))


def _twice(text: str, read: Callable[["_ScanState"], None]) -> CommandScan:
    variables = ShellVariables(text)
    state = _ScanState(variables, RemovalGuesses(text))
    read(state)
    if variables.is_late:
        state = _ScanState(variables, state.guesses)
        read(state)
    return state.result()


def raw_words(text: str) -> tuple[str, ...]:
    """Return the text without quotes, backslashes and operators, for text that cannot be parsed."""
    bare = _without_ifs(text).replace("\\\n", "")
    return tuple(filter(None, _RAW_BOUNDARY.split(re.sub(r"[\\'\"]", "", bare))))


def _without_ifs(text: str) -> str:
    # Only up to the last bracket: a search beyond it would fail from every start.
    end = text.rfind("}") + 1
    return _BARE_IFS.sub(" ", _IFS.sub(" ", text[:end]) + text[end:])


class _ScanState:
    """What a scan has found so far, and how much it may still read.

    Dictionaries serve as ordered sets; their keys are as in `CommandScan`.
    """

    def __init__(self, variables: ShellVariables, guesses: RemovalGuesses) -> None:
        self.variables = variables
        """The values of the variables at the current position of the scan."""
        self.guesses = guesses
        """The values that the commands give to variables, parameters and input."""
        self.every: dict[SplitCommand, None] = {}
        self.run: dict[SplitCommand, None] = {}
        self.open: dict[SplitCommand, None] = {}
        self.listed: dict[tuple[SplitCommand, tuple[SplitCommand, ...]], None] = {}
        self.emptied: dict[SplitCommand, tuple[str, ...]] = {}
        self.targets: list[str] = []
        self.sources: list[str] = []
        self.is_torn = self.is_bomb = False
        self.order: list[SplitCommand] = []
        """All commands in the order in which they were found, including repetitions."""
        self.substituted: list[SplitCommand] = []
        """The commands in substitutions: a variable may hold their output."""
        self.before: tuple[SplitCommand, ...] = ()
        """The commands whose output the current one might get as arguments."""
        self.aliases: dict[str, str] = {}
        """The text of each alias."""
        self.work_left = MAX_WORK
        """How much the scan may still read; below zero it has stopped."""
        self._read: dict[Hashable, int] = {}
        """The texts that were read, with their context and the lowest depth."""

    def add(self, words: SplitCommand, *, is_guess: bool, is_unrun: bool) -> None:
        """Add a command with its marks; `is_unrun`: it is only part of a text."""
        spelled = unmarked_words(words)
        self.every[spelled] = None
        self.order.append(spelled)
        if self.before:
            self.listed[spelled, self.before] = None
        if not is_unrun:
            self.run[spelled] = None
        if not is_guess and not is_unrun and any(map(_WITH_MEANING.search, words)):
            self.open[words] = None

    def may_run_anything(self) -> None:
        """Record that an unknown command runs."""
        self.open[(ANYTHING,)] = None

    def should_read(self, what: SplitCommand | str, depth: int, *, is_guess: bool) -> bool:
        """Whether to read this text: it was not read before, and the work limit allows it.

        Nested launchers reach the same words in many ways. A text that was read in the same
        context, at no greater depth, is not read again. One that is skipped because of a limit may
        run anything, unless it is only a guess that it is a command.
        """
        if self.work_left < 0:
            return False
        key = (what, is_guess, len(self.aliases), self.variables.state, self.before)
        if self._read.get(key, depth + 1) <= depth:
            return False
        self._read[key] = depth
        self.work_left -= 1 + len(what) // (128 if isinstance(what, str) else 24)
        if self.work_left >= 0 and depth <= MAX_DEPTH:
            return True
        self.is_torn = True
        if not is_guess or self.work_left < 0:
            self.may_run_anything()
        return False

    def result(self) -> CommandScan:
        removals = islice(self.guesses.spelled(self.run), _MOST_SPELLED)
        return CommandScan(
            commands=tuple(self.every),
            run=tuple(self.run),
            open=tuple(self.open),
            targets=tuple(dict.fromkeys(map(unmarked, self.targets))),
            sources=tuple(dict.fromkeys(map(unmarked, self.sources))),
            open_targets=tuple(filter(_WITH_MEANING.search, dict.fromkeys(self.targets))),
            open_sources=tuple(filter(_WITH_MEANING.search, dict.fromkeys(self.sources))),
            is_torn=self.is_torn,
            is_bomb=self.is_bomb,
            listed=tuple(self.listed),
            emptied=tuple(self.emptied.items()),
            spelled=tuple(dict.fromkeys(removals)),
        )


def _read_text(text: str, state: _ScanState, *, depth: int, is_guess: bool = False) -> None:
    state.is_bomb |= is_fork_bomb(text)
    if len(text) > MAX_BYTES:
        state.is_torn = True
        return
    if not state.should_read(text, depth, is_guess=is_guess):
        return
    splitter = CommandSplitter(_without_ifs(text))
    # Commands that people write don't nest brackets deeper than Python's stack.
    with contextlib.suppress(RecursionError):
        splitter.scan("")
        splitter.is_torn |= splitter.depth_left < 0
        for files, names in ((state.targets, splitter.targets), (state.sources, splitter.sources)):
            for name in names:
                files += chain.from_iterable(state.variables.spread((name,)))
        state.is_torn |= splitter.is_torn
        budget = MAX_WORDS
        outer, starts = state.before, [len(state.order)]
        for at, words in enumerate(splitter.commands[:MAX_PARTS]):
            budget -= len(words)
            if budget >= 0:
                before = (*outer, *state.order[starts[splitter.pipelines[at]] :])
                state.variables.record(words)
                # A variable may hold the output of any substitution.
                references = (one for word in words for one in REFERENCE.findall(word))
                held = state.substituted if any(map(variable_of, references)) else ()
                state.before = tuple(dict.fromkeys((*before, *held)))
                for spread in state.variables.spread(words):
                    _open(spread, state, depth=depth, is_guess=is_guess)
                if empty := state.variables.empty_in(words):
                    state.emptied.update(dict.fromkeys(state.order[starts[-1] :], empty))
            if at in splitter.substituted:
                state.substituted += state.order[starts[-1] :]
            starts.append(len(state.order))
        state.before = outer
        state.is_torn |= budget < 0 or len(splitter.commands) > MAX_PARTS
        return
    state.is_torn = True


def _open(words: SplitCommand, state: _ScanState, *, depth: int, is_guess: bool = False) -> None:
    if len(state.every) > MAX_COMMANDS:
        state.is_torn = True
        return
    if not state.should_read(words, depth, is_guess=is_guess):
        return
    state.guesses.record(words)
    is_fed, is_unrun = FED in words, UNRUN in words
    words = tuple(word for word in words if word not in (FED, UNRUN))
    if words and words[0].startswith(_NAMES_PROGRAMS) and not is_unrun:
        state.may_run_anything()
    words = _unbraced(words)
    while words and (words[0] in _LEADERS or ASSIGNMENT.match(words[0])):
        words = words[2 if words[0] == "function" or words[:2] == ("time", "-p") else 1 :]
    if not words:
        return
    state.add(words, is_guess=is_guess, is_unrun=is_unrun)
    name = program_of(words)
    if name != words[0]:
        words = (name, *words[1:])
        state.add(words, is_guess=is_guess, is_unrun=is_unrun)
    _note_aliases(words, state)
    if name in state.aliases:
        text = " ".join((state.aliases[name], *map(unmarked, words[1:])))
        _read_text(text, state, depth=depth + 1, is_guess=is_guess)
    for inner in inner_commands(name, words, is_fed=is_fed):
        if state.work_left < 0:
            return
        doubt = is_guess or inner.is_guess or is_unrun
        if inner.text:
            _read_text(inner.text, state, depth=depth + 1, is_guess=doubt)
        elif inner.words != words:
            marked = (*inner.words, UNRUN) if is_unrun else inner.words
            _open(marked, state, depth=depth + 1, is_guess=doubt)


def _note_aliases(words: SplitCommand, state: _ScanState) -> None:
    if words[0] == "hash" and words[1:2] == ("-p",) and len(words) > 3:
        state.aliases[words[3]] = words[2]
    for word in words[1:] if words[0] == "alias" else ():
        name, equals, value = word.partition("=")
        if equals:
            state.aliases[unmarked(name)] = unmarked(value)
            if is_unresolved(name):
                state.may_run_anything()


def _unbraced(words: SplitCommand) -> SplitCommand:
    if not any("{" in word for word in words):
        return words
    spread = list(words)
    at = 0
    while at < len(spread) and len(spread) < len(words) + _MOST_SPREAD:
        found = _BRACES.search(spread[at])
        if not found:
            at += 1
            continue
        before, after = spread[at][: found.start()], spread[at][found.end() :]
        spread[at : at + 1] = [f"{before}{one}{after}" for one in found.group(1).split(",")]
    return tuple(spread)


_REFERENCE = "\ue022"
_MOST_WORDS = 64
_MOST_NAMES = 64
_WRITERS = REMOVERS | word_set(
    "rmdir mkdir touch truncate tee mv cp install ln chmod chown chgrp dd sed rsync patch unzip"
)
_LISTERS = word_set("find fd fdfind ls rg git")
_FILTERS = word_set("grep egrep head tail sort uniq")
_RANGE = late_pattern(r"(?<!\$)\{[^{}]*\.\.[^{}]*\}")
_SEARCHERS = word_set("grep egrep fgrep zgrep rg ag ack sed awk gawk mawk jq yq")
_COUNTED = {
    **dict.fromkeys(("head", "tail"), word_set("-n -c --lines --bytes")),
    **dict.fromkeys(("grep", "egrep", "fgrep", "rg"), word_set("-e -m -A -B -C")),
}

Names = Callable[[str], Sequence[str] | None]
"""Returns the names that match a pattern in the current folder, relative to it; None: too many."""


def unresolved_commands(
    commands: Sequence[SplitCommand], *, home: str, cwd: str, names: Names
) -> Iterator[UnresolvedCommand]:
    """Yield the commands whose words are not all known, in the forms they can have."""
    for words in commands:
        placed = [with_folders_spelled(word, home, cwd) for word in words[:_MOST_WORDS]]
        shown = next((word for word in placed if _is_open(word)), "")
        if not shown:
            continue
        rest = (one for word in placed[1:] for one in _argument(word, names))
        forms = (*_head(placed[0]), *rest)
        yield UnresolvedCommand(forms, unmarked(shown), is_program=_is_open(placed[0]))


def unresolved_paths(commands: Sequence[SplitCommand], sources: Sequence[str]) -> tuple[str, ...]:
    """Return unknown file names: words of commands that read files, and their input files."""
    return _unknown_files((words for words in commands if program_of(words) in READERS), sources)


def unresolved_targets(commands: Sequence[SplitCommand], targets: Sequence[str]) -> tuple[str, ...]:
    """Return unknown file names: words of commands that change files, and output redirections."""
    return _unknown_files(filter(_writes, commands), targets)


def _writes(words: SplitCommand) -> bool:
    name = program_of(words)
    return name in _WRITERS and (name != "sed" or any(word.startswith("-i") for word in words))


def _unknown_files(
    commands: Iterable[SplitCommand], redirections: Sequence[str]
) -> tuple[str, ...]:
    operands = chain.from_iterable(map(_unknown_operands, commands))
    return tuple(dict.fromkeys(map(unmarked, (*filter(is_unresolved, redirections), *operands))))


def reads_of_finds(commands: Sequence[SplitCommand]) -> tuple[SplitCommand, ...]:
    """Return a command that reads all files of a `find`, for each `find` whose files are read."""
    return tuple(
        ("grep", "-r", "x", *find_starts(words))
        for words in commands
        if program_of(words) == "find" and _has_files_read(words)
    )


def _has_files_read(words: SplitCommand) -> bool:
    runs = (words[at + 1 :] for at, one in enumerate(words) if one.startswith(("-exec", "-ok")))
    texts = chain.from_iterable(runs)
    return any(program_of([one]) in READERS for text in texts for one in text.split())


def reads_of_listers(
    listers: Sequence[SplitCommand], words: SplitCommand
) -> tuple[SplitCommand, ...] | None:
    """Return a command that reads all files that an `xargs` reads, or None.

    `listers` are the commands before it in its pipeline, in order.
    """
    if program_of(words) != "xargs" or READERS.isdisjoint(words) or not listers:
        return None
    first, *filters = listers
    if first[0] not in _LISTERS or any(one[0] not in _FILTERS for one in filters):
        return None
    operands = [word for word in first[1:] if not word.startswith("-")]
    # `ls` omits the folder from the names; the others take a pattern or a subcommand first.
    folders = [*operands, "."] if first[0] == "ls" else operands[1:] or ["."]
    return (("grep", "-r", "x", *(find_starts(first) if first[0] == "find" else folders)),)


def _unknown_operands(words: SplitCommand) -> Iterator[str]:
    name = program_of(words)
    counted = _COUNTED.get(name, frozenset())
    is_first = name in _SEARCHERS and not any(word in ("-e", "-f") for word in words)
    for before, word in pairwise(words):
        is_option = word.startswith("-") and QUOTED in word and "=" not in word
        is_unknown = is_unresolved(word) or _RANGE.search(word)
        if not is_unknown and not (word.startswith("-") or before in counted):
            is_first = False
        if not is_unknown or FOUND in word:
            continue
        is_value = before in counted and QUOTED in word
        if is_option or is_value or (is_first and QUOTED in word and "$" not in word):
            is_first = is_first and (is_option or is_value)
            continue
        yield word


def _is_open(word: str) -> bool:
    return is_unresolved(word) or _form(word) != unmarked(word)


def _head(word: str) -> tuple[UnresolvedWord, ...]:
    """Return the forms of the word that names the program, without its folder."""
    before, is_split = _first_part(word)
    form = _form(before)
    after = form.rpartition(_REFERENCE)[2]
    # An unknown value may contain slashes, too; a pattern stays within one folder.
    name = after.rpartition("/")[2] if _REFERENCE not in form or "/" in after else MANY + after
    name = name.replace(_REFERENCE, MANY)
    if not is_split:
        return (UnresolvedWord(name),)
    rest = UnresolvedWord(is_rest=True)
    return (UnresolvedWord(MANY), rest) if name else (rest,)


def _argument(word: str, names: Names) -> tuple[UnresolvedWord, ...]:
    before, is_split = _first_part(word)
    form = _form(before)
    if is_split:
        start = (UnresolvedWord(form.replace(_REFERENCE, MANY) + MANY),) if form else ()
        return (*start, UnresolvedWord(is_rest=True))
    if _REFERENCE in form or form == unmarked(word):
        return (UnresolvedWord(form.replace(_REFERENCE, MANY)),)
    if "{" in word:
        return (UnresolvedWord(form),)
    found = names(unmarked(word))
    if found is None or len(found) > _MOST_NAMES:
        return (UnresolvedWord(is_rest=True),)
    return tuple(map(UnresolvedWord, found or (unmarked(word),)))


def _first_part(word: str) -> tuple[str, bool]:
    """Return the text before a part that could become several words, and whether there is one."""
    for found in REFERENCE.finditer(word):
        is_list = "@" in found.group()
        if not found.group().startswith((QUOTED, FOUND)) or is_list:
            return word[: found.start()], True
    return word, False


def _form(word: str) -> str:
    if word in ("[", "[["):
        return word
    form = REFERENCE.sub(_REFERENCE, word)
    form = form.replace("*", MANY).replace("?", ONE)
    for opening, closing in ("[]", "{}"):
        start, end = form.find(opening), form.rfind(closing)
        if 0 <= start < end and (opening == "[" or ".." in form[start:end]):
            form = form[:start] + MANY + form[end + 1 :]
    return unmarked(form)
