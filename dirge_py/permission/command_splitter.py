"""Splits a command line at everything that could end a command, and tracks its variables.

`CommandSplitter` looks into substitutions and never refuses: it reports a command too many rather
than one too few. Words carry the marks of `shell_lexer`.

`ShellVariables` knows the values of variables as far as the command line shows them: only
assignments of plain text count, and the values of the home and the working folder. Anything else
that could set a variable makes all of them unknown.
"""

import codecs
import itertools
import os
import re
from collections.abc import Hashable, Iterator, Sequence
from typing import Literal

from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.shell_lexer import (
    ANYTHING,
    FED,
    QUOTED,
    REFERENCE,
    UNRUN,
    mark_quoted,
    unquoted_value,
    variable_of,
    word_set,
)

SplitCommand = tuple[str, ...]
_SCRIPTED = frozenset(("sh", "bash", "zsh", "dash", "ksh", "mksh", "ash", "fish", "ssh", "su"))
_QUOTED = late_pattern(r"[^']*")
_ANSI_QUOTED = late_pattern(r"(?:[^'\\]|\\.)*", re.DOTALL)
_DELIMITER = late_pattern(r"-?[ \t]*((?:[^\s;&|<>()'\"\\]|\\.|'[^'\n]*'|\"[^\"\n]*\")+)")


class CommandSplitter:
    """Splits a text. `is_text`: only its substitutions run; the rest may look like commands."""

    def __init__(self, text: str, *, is_text: bool = False, depth: int = 100) -> None:
        self.text = text
        self.position = 0
        self.depth_left = depth
        self.commands: list[SplitCommand] = []
        self.pipelines: list[int] = []
        """For every command the index of the first one in its pipeline and its substitutions."""
        self.substituted: set[int] = set()
        """The indexes of the commands inside substitutions."""
        self.targets: list[str] = []
        self.sources: list[str] = []
        self.is_torn = False
        self.is_text = is_text
        self._documents: list[tuple[re.Pattern[str], bool, _Line]] = []
        """The end of each here-document that follows, whether it is literal, and its command."""
        self._arithmetic = 0

    def scan(self, closer: str) -> None:
        """Read commands up to `closer` ("" means the end of the text)."""
        line = _Line(self)
        self.depth_left -= 1
        while self.position < len(self.text) and self.depth_left >= 0:
            char = self.text[self.position]
            self.position += 1
            if closer and char == closer and not (closer == ")" and line.ends_pattern()):
                line.end_command()
                self.depth_left += 1
                return
            self._take(char, line)
        line.end_command()
        self.is_torn |= bool(closer)
        self.depth_left += 1 if self.depth_left >= 0 else 0

    def _take(self, char: str, line: "_Line") -> None:
        if char in " \t\r\v\f" or (self.is_text and char in "'\""):
            line.end_word()
        elif char == "#" and line.is_between_words:
            # Read separately, because a quote in a comment opens no string.
            end = self.text.find("\n", self.position)
            end = len(self.text) if end < 0 else end
            self._apart(self.text[self.position : end], is_literal=False)
            self.position = end
        elif char in ";\n|)" or (char == "&" and self._peek() not in ("<", ">")):
            line.end_command(is_pattern=char == ")")
            before = self.text[self.position - 2 : self.position - 1]
            is_pipe = char == "|" and "|" not in (before, self._peek())
            if not is_pipe and not (char == "&" and before == "|"):
                line.begin_pipeline()
            if char == "\n" and self._documents:
                self._read_documents()
        elif char == "(":
            line.open_list()
            self.scan(")")
        elif char == "`":
            self._substitution("`")
            line.add("`")
        elif char in "<>&":
            self._redirect(line)
        elif char == "'":
            line.add(mark_quoted(self._until_quote(_QUOTED)))
        elif char == '"':
            self._double_quoted(line)
        elif char == "\\":
            escaped = self._peek()
            self.position += 1
            line.add("" if escaped == "\n" else mark_quoted(escaped))
        elif char == "$":
            self._dollar(line)
        else:
            line.add(char)

    def _apart(self, text: str, *, is_literal: bool, is_script: bool = False) -> None:
        text = mark_quoted(text) if is_literal and not is_script else text
        inner = CommandSplitter(text, is_text=not is_script, depth=self.depth_left)
        inner.scan("")
        self.pipelines += (len(self.commands) + at for at in inner.pipelines)
        self.substituted |= {len(self.commands) + at for at in inner.substituted}
        self.commands += inner.commands
        self.targets += inner.targets
        self.sources += inner.sources

    def _redirect(self, line: "_Line") -> None:
        line.end_word(is_descriptor=True)
        start = self.position - 1
        while self._peek() in ("<", ">", "|", "&") and self._peek():
            self.position += 1
        if self._peek() == "(":
            self.position += 1
            self._substitution(")")
            return
        operator = self.text[start : self.position]
        if operator == "<<" and not self._arithmetic:
            self._announce(line)
        kinds: dict[str, Literal["text", "string"]] = {"<<": "text", "<<<": "string"}
        line.target = "write" if ">" in operator else kinds.get(operator, "read")

    def _announce(self, line: "_Line") -> None:
        """Record the here-document that begins after this line, if its end marker exists."""
        found = _DELIMITER.match(self.text, self.position)
        if not found:
            return
        end = re.sub(r"['\"\\]", "", found.group(1))
        is_indented = found.group().startswith("-")
        self.position += is_indented
        tabs = r"\t*" if is_indented else ""
        closing = re.compile(rf"^{tabs}{re.escape(end)}$", re.MULTILINE)
        self._documents.append((closing, end != found.group(1), line))

    def _read_documents(self) -> None:
        for closing, is_literal, line in self._documents:
            found = closing.search(self.text, self.position)
            if not found:
                break
            body = self.text[self.position : found.start()]
            is_script = not _SCRIPTED.isdisjoint(line.names)
            self._apart(body, is_literal=is_literal, is_script=is_script)
            self.position = found.end()
        self._documents.clear()

    def _double_quoted(self, line: "_Line") -> None:
        line.add("")
        while self.position < len(self.text):
            char = self.text[self.position]
            self.position += 1
            if char == '"':
                return
            if char == "\\":
                line.add(mark_quoted(self._peek()))
                self.position += 1
            elif char == "`":
                self._substitution("`")
                line.add(f"{QUOTED}()")
            elif char == "$":
                self._dollar(line, is_quoted=True)
            else:
                line.add(mark_quoted(char))
        self.is_torn = True

    def _dollar(self, line: "_Line", *, is_quoted: bool = False) -> None:
        follower = self._peek()
        if follower == "(":
            self.position += 1
            is_arithmetic = self._peek() == "("
            self._arithmetic += is_arithmetic
            self._substitution(")")
            self._arithmetic -= is_arithmetic
            line.add(f"{QUOTED}()" if is_quoted else ANYTHING)
        elif follower == "'" and not is_quoted:
            self.position += 1
            line.add(mark_quoted(_ansi_decoded(self._until_quote(_ANSI_QUOTED))))
        elif follower == '"' and not is_quoted:
            line.add("")
        else:
            # Keep `${…}` as it is; a substitution in it is found as reading continues.
            bracket = "{" if follower == "{" else ""
            self.position += len(bracket)
            line.add((QUOTED if is_quoted else "$") + bracket)

    def _substitution(self, closer: str) -> None:
        """Read a substitution, which runs even inside a text."""
        was_text, self.is_text = self.is_text, False
        documents, self._documents = self._documents, []
        first = len(self.commands)
        self.scan(closer)
        self.substituted.update(range(first, len(self.commands)))
        self.is_text, self._documents = was_text, documents

    def _peek(self) -> str:
        return self.text[self.position : self.position + 1]

    def _until_quote(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.position)
        end = found.end() if found else self.position
        quoted = self.text[self.position : end]
        self.is_torn |= end >= len(self.text)
        self.position = end + 1
        return quoted


class _Line:
    """The command being read: its finished words, and the characters of the current word."""

    def __init__(self, scanner: CommandSplitter) -> None:
        self._scanner = scanner
        self._words: list[str] = []
        self._letters: list[str] | None = None
        self._is_first = True
        self._is_fed = False
        self._cases = 0
        self.begin_pipeline()
        self.names: set[str] = set()
        """The words of the latest command, without folders: the one that gets a here-document."""
        self.target: Literal["", "read", "write", "text", "string"] = ""

    def ends_pattern(self) -> bool:
        """Whether a bracket that closes here ends a pattern of a `case`."""
        self.end_word()
        return self._cases > 0

    def begin_pipeline(self) -> None:
        self._pipeline = len(self._scanner.commands)

    @property
    def is_between_words(self) -> bool:
        return self._letters is None and not self.target

    def add(self, letters: str) -> None:
        if self._letters is None:
            self._letters = []
        self._letters.append(letters)

    def open_list(self) -> None:
        """Handle an opening bracket: an array (`a=(…)`), a pattern (`@(…)`), or a subshell."""
        if self._letters and self._letters[-1][-1:] in tuple("=@+?!*"):
            self._letters.append(ANYTHING)
        self.end_command()

    def end_word(self, *, is_descriptor: bool = False) -> None:
        if self._letters is None:
            return
        word = "".join(self._letters)
        self._letters = None
        if is_descriptor and word.isdigit():
            return
        if self.target == "write":
            if word != "-" and not word.isdigit():
                self._scanner.targets.append(word)
        elif self.target == "read":
            self._scanner.sources.append(word)
        elif self.target in ("text", "string"):
            self._is_fed |= self.target == "text"
            self._note((word, UNRUN))
        else:
            is_first = self._is_first
            self._cases += word == "case" and is_first
            self._cases -= word == "esac" and (is_first or self._words[-1:] == ["in"])
            self._is_first = is_first and word in ("do", "then", "else", "{", "!")
            self._words.append(word)
        self.target = ""

    def _note(self, command: SplitCommand) -> None:
        self._scanner.pipelines.append(self._pipeline)
        self._scanner.commands.append(command)

    def end_command(self, *, is_pattern: bool = False) -> None:
        self.end_word()
        self.target = ""
        if self._words:
            fed = (FED,) if self._is_fed else ()
            self.names = {word.rsplit("/", 1)[-1] for word in self._words}
            unrun = (UNRUN,) if is_pattern or self._scanner.is_text else ()
            self._note((*self._words, *fed, *unrun))
            self._words = []
        self._is_first = True
        self._is_fed = False


def _ansi_decoded(text: str) -> str:
    try:
        return codecs.decode(text.encode("latin-1", "backslashreplace"), "unicode_escape")
    except UnicodeDecodeError:
        return text


ASSIGNMENT = late_pattern(r"([A-Za-z_][A-Za-z0-9_]*)(\[[^\]]*\])?(\+?)=", re.DOTALL)
_DECLARERS = word_set("export declare typeset readonly local")
_SETTERS = word_set("read mapfile readarray getopts unset select printf let coproc")
_FROM_OUTSIDE = ("TMPDIR", "USER", "LOGNAME", "VIRTUAL_ENV")
_SET_BY_PROGRAMS = late_pattern(
    r"BASH.*|DIRGE.*|GIT_.*|.*PAGER|.*EDITOR|VISUAL|.*_PROXY|.*_proxy|COMP_.*|COPROC|DIRSTACK|EPOCH.*"
    r"|E?UID|FUNCNAME|FUNCNEST|GROUPS|HIST.*|HOME|HOST.*|IFS|LANG.*|LC_.*|LINENO|LINES|COLUMNS"
    r"|MACHTYPE|MAPFILE|OLDPWD|OPT.*|OSTYPE|P?PID|PATH|PIPESTATUS|PPID|PS\d|PWD|RANDOM|READLINE.*"
    r"|REPLY|SECONDS|SHELL.*|SHLVL|SRANDOM|TERM|TZ|_"
)
_MOST_VARIANTS = 8
_NOT_UNKNOWN = ("HOME", "PWD")


class ShellVariables:
    """Tracks the values of variables in the order of the text.

    `is_late`: a value was assigned after a use of its variable. It may apply there, too (in a loop,
    in a function), so the text has to be read again.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._values: dict[str, tuple[str, ...] | None] = {
            name: (os.environ[name],) for name in _FROM_OUTSIDE if name in os.environ
        }
        """The possible values of each variable; None: unknown."""
        self._is_open = False
        self._used: dict[str, Sequence[str] | None] = {}
        self._unset: dict[str, bool] = {}

    @property
    def is_late(self) -> bool:
        return any(self._value(name) != value for name, value in self._used.items())

    @property
    def state(self) -> Hashable:
        """Return a value that is equal as long as no variable has changed."""
        return self._is_open, tuple(self._values.items())

    def record(self, words: SplitCommand) -> None:
        """Record the assignments of one command; they apply to the commands after it."""
        start = sum(1 for _ in itertools.takewhile(ASSIGNMENT.match, words))
        for word in words[:start]:
            # In front of a command they apply to that one only.
            self._assign(word, is_known=start == len(words))
        name, rest = (words[start], words[start + 1 :]) if start < len(words) else ("", ())
        if name in ("do", "then", "else", "{", "!", "time", "builtin", "command"):
            self.record(words[start + 1 :])
        elif name in _DECLARERS:
            for word in rest:
                if ASSIGNMENT.match(word):
                    self._assign(word, is_known=True)
                else:
                    self._is_open |= is_unresolved(word) or bool(re.match(r"-[^xrgp]", word))
        elif name == "for" and len(rest) > 1 and rest[1] == "in":
            self._hold(rest[0], rest[2:] or ("",))
        elif name == "for" and rest:
            self._values[rest[0]] = None  # The loop runs over the arguments.
        elif name in ("source", ".") or (name == "eval" and any(map(REFERENCE.search, rest))):
            self._is_open = True
        elif name in _SETTERS and (name != "printf" or "-v" in rest):
            self._values.update(dict.fromkeys(rest))
            self._is_open |= any(map(REFERENCE.search, rest))

    def spread(self, words: SplitCommand) -> Iterator[SplitCommand]:
        """Yield the command with known values in place of its variables, once for every value."""
        choices = [self._choices(word) for word in words]
        count = 1
        for variants in choices:
            count *= len(variants)
        if count > _MOST_VARIANTS:
            choices = [variants if len(variants) == 1 else [(word,)]
                       for word, variants in zip(words, choices, strict=True)]  # fmt: skip
        for chosen in itertools.product(*choices):
            yield tuple(itertools.chain.from_iterable(chosen))

    def _choices(self, word: str) -> list[SplitCommand]:
        if not REFERENCE.search(word):
            return [(word,)]
        references = dict.fromkeys(REFERENCE.findall(word))
        variants: list[list[str]] = [[word]]
        for reference in references:
            name = variable_of(reference)
            values = self._value(name) if name else None
            if name:
                self._used.setdefault(name, values)
            if values is None and name in _NOT_UNKNOWN and name in self._values:
                # Left in the text, `$HOME` and `$PWD` would count as known.
                values = (ANYTHING,)
            if values is None or len(variants) * len(values) > _MOST_VARIANTS:
                continue
            variants = [
                [text for part in parts for text in _substituted(part, reference, value)]
                for parts in variants
                for value in values
            ]
        return [tuple(parts) for parts in variants]

    def empty_in(self, words: SplitCommand) -> tuple[str, ...]:
        """Return the variables in `words` that count as empty, because nothing sets them."""
        names = (variable_of(one) for word in words for one in REFERENCE.findall(word))
        return tuple(dict.fromkeys(one for one in names if one and self._value(one) == ("",)
                                   and one not in self._values))  # fmt: skip

    def _value(self, name: str) -> Sequence[str] | None:
        if self._is_open:
            return None
        if name in self._values:
            return self._values[name]
        return ("",) if self._is_unset(name) else None

    def _is_unset(self, name: str) -> bool:
        """Whether nothing sets this variable: its name occurs only where it is used."""
        if name not in self._unset:
            is_set = name in os.environ or _SET_BY_PROGRAMS.fullmatch(name)
            other = rf"(?<![$\w])(?<!\$\{{){name}(?!\w)"
            self._unset[name] = not is_set and not re.search(other, self._text)
        return self._unset[name]

    def _assign(self, word: str, *, is_known: bool) -> None:
        found = ASSIGNMENT.match(word)
        assert found is not None
        name, index, plus = found.groups()
        if name in ("IFS", "BASH_ALIASES", "BASH_CMDS"):
            self._is_open = True
        if index or plus or not is_known:
            self._values[name] = None
        else:
            self._hold(name, (word[found.end() :],))

    def _hold(self, name: str, texts: Sequence[str]) -> None:
        values = [" ".join(choice) for text in texts for choice in self._choices(text)]
        before = self._values.get(name, ())
        named = [variable_of(one) for value in values for one in REFERENCE.findall(value)]
        is_known = before is not None and all(
            name in _NOT_UNKNOWN and name not in self._values for name in named
        )
        self._values[name] = tuple(dict.fromkeys((*(before or ()), *values))) if is_known else None


def _substituted(text: str, reference: str, value: str) -> list[str]:
    """Return the words of `text` with a value in place of a reference."""

    def put(found: re.Match[str]) -> str:
        return value if found.group() == reference else found.group()

    if reference.startswith(QUOTED):
        value = value.replace("$", QUOTED)
        return [REFERENCE.sub(put, text)]
    value = unquoted_value(value)
    placed = REFERENCE.sub(put, text)
    return placed.split() if not value or re.search(r"\s", value) else [placed]


def is_unresolved(word: str) -> bool:
    """Whether part of the word is known only at run time; `$$`, `$?` and `$#` don't count."""
    return any(
        variable_of(reference) not in _NOT_UNKNOWN and reference[1:] not in ("$", "?", "#")
        for reference in REFERENCE.findall(word)
    )


def with_folders_spelled(word: str, home: str, cwd: str) -> str:
    """Return the word with the home folder and the working folder written out."""

    def place(found: re.Match[str]) -> str:
        return {"HOME": home, "PWD": cwd}.get(variable_of(found.group()), found.group())

    return REFERENCE.sub(place, word)
