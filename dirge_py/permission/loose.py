"""Every command a command line might run, guessed high: what deny rules are compared with.

Unlike `words`, this reader never refuses: it looks into substitutions, control structures, wrappers
(`sudo`, `xargs`, `bash -c`, …) and strings, and rather finds a command too many. Nothing it finds
may ever be used to allow something.
"""

import codecs
import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from dirge_py.permission.words import MAX_BYTES, MAX_PARTS, MAX_WORDS, listed

MAX_COMMANDS = 256
MAX_DEPTH = 6

Command = tuple[str, ...]

WRAPPERS = listed(
    "sudo doas env nohup timeout time nice ionice chrt stdbuf setsid xargs command builtin exec"
    " watch parallel busybox toybox chroot unshare nsenter script strace ltrace gdb su runuser ssh"
    " flock taskset caffeinate unbuffer trap coproc setarch firejail bwrap systemd-run prlimit"
    " setpriv fakeroot proot pkexec sg eatmydata faketime valgrind perf xvfb-run dbus-run-session"
    " direnv tmux screen rlwrap chpst numactl npx uv poetry pipenv"
)
SHELLS = listed("sh bash zsh dash ksh mksh ash fish eval")
_LEADERS = listed("if then elif else while until do ! { } time in function")
_MAX_TAILS = 48
_EXEC_FLAGS = frozenset(("-exec", "-execdir", "-ok", "-okdir"))
_GIT_VALUED = listed(
    "-C -c --git-dir --work-tree --namespace --exec-path --config-env --attr-source --super-prefix"
)
_ALIAS = re.compile(r"alias\.[^=]+=", re.IGNORECASE)

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^\]]*\])?\+?=")
_GLUED = re.compile(r"-[A-Za-z]|--[a-z-]+=")
_IFS = re.compile(r"\$\{IFS[^}]*\}|\$IFS\b")
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_RAW_BOUNDARY = re.compile(r"[\s;&|(){}<>`$]+")


@dataclass(frozen=True, slots=True)
class LooseReading:
    """`targets` are files it might write to.

    `sources` are files it would be fed with. `is_torn`: there may be more, for quotes do not match
    up, it is nested too deeply, or larger than what is taken apart at all.
    """

    commands: tuple[Command, ...]
    targets: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    is_torn: bool = False


def read_loosely(text: str) -> LooseReading:
    """All commands that `text` might run, wrappers opened."""
    found = _Found()
    _read_text(text, found, depth=0)
    commands = tuple(dict.fromkeys(found.commands))
    targets, sources = map(tuple, map(dict.fromkeys, (found.targets, found.sources)))
    return LooseReading(commands, targets, sources, found.is_torn)


def open_command(words: Sequence[str]) -> LooseReading:
    """The command itself and all that it would run in turn, as far as its words tell."""
    found = _Found()
    _open(tuple(words), found, depth=0)
    targets, sources = map(tuple, map(dict.fromkeys, (found.targets, found.sources)))
    return LooseReading(tuple(dict.fromkeys(found.commands)), targets, sources, found.is_torn)


def raw_words(text: str) -> tuple[str, ...]:
    """The text without quotes, backslashes and operators, for what cannot be read any other way."""
    bare = _IFS.sub(" ", text).replace("\\\n", "")
    return tuple(filter(None, _RAW_BOUNDARY.split(re.sub(r"[\\'\"]", "", bare))))


@dataclass(slots=True)
class _Found:
    commands: list[Command] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    is_torn: bool = False


def _read_text(text: str, found: _Found, depth: int) -> None:
    if depth > MAX_DEPTH or len(text) > MAX_BYTES:
        found.is_torn = True
        return
    scanner = _Scanner(_IFS.sub(" ", text))
    # Brackets nested beyond Python's own stack are nothing a person would write.
    with contextlib.suppress(RecursionError):
        scanner.scan("")
        scanner.is_torn |= scanner.depth_left < 0
        found.targets.extend(scanner.targets)
        found.sources.extend(scanner.sources)
        found.is_torn |= scanner.is_torn
        budget = MAX_WORDS
        for words in scanner.commands[:MAX_PARTS]:
            budget -= len(words)
            if budget >= 0:
                _open(words, found, depth)
        found.is_torn |= budget < 0 or len(scanner.commands) > MAX_PARTS
        return
    found.is_torn = True


def _open(words: Command, found: _Found, depth: int) -> None:
    if len(found.commands) > MAX_COMMANDS or depth > MAX_DEPTH:
        found.is_torn = True
        return
    words = _unled(_unbraced(words))
    if not words:
        return
    found.commands.append(words)
    name = words[0].rsplit("/", 1)[-1]
    if name != words[0]:
        found.commands.append((name, *words[1:]))
    if name == "git":
        found.commands.append(("git", *_after_git_options(words[1:])))
        for word in words[1:]:
            if alias := _ALIAS.match(word):
                # `git -c alias.x=push x`, and with a `!` any command.
                what = word[alias.end() :]
                _read_text(what[1:] if what[:1] == "!" else f"git {what}", found, depth + 1)
    for inner in _inner_commands(name, words):
        _open(inner, found, depth + 1)
    if name in WRAPPERS or name in SHELLS:
        for word in words[1:]:
            if re.search(r"[\s;&|`$<>]", word):
                _read_text(word, found, depth + 1)
                # `env -S'git push'`: the text is glued to its option.
                glued = _GLUED.match(word)
                if glued:
                    _read_text(word[glued.end() :], found, depth + 1)


def _inner_commands(name: str, words: Command) -> Iterator[Command]:
    # Which words are options of a wrapper and which of its options take a value need not be known:
    # the wrapped command is one of the tails.
    if name in WRAPPERS or name in SHELLS:
        for start in range(1, min(len(words), _MAX_TAILS)):
            if not words[start].startswith("-") and not _is_wrapper(words[start - 1], start):
                yield words[start:]
    elif name == "find":
        for index, word in enumerate(words[:-1]):
            if word in _EXEC_FLAGS:
                yield words[index + 1 :]


def _is_wrapper(word: str, start: int) -> bool:
    # `sudo sudo sudo …`: the tail behind an inner wrapper is found when that one is opened.
    return start > 1 and word in WRAPPERS


def _unled(words: Command) -> Command:
    start = 0
    while start < len(words) and (words[start] in _LEADERS or _ASSIGNMENT.match(words[start])):
        start += 1
    return words[start:]


def _unbraced(words: Command) -> Command:
    if not any("{" in word for word in words):
        return words
    spread: list[str] = []
    for word in words:
        found = _BRACES.search(word)
        if not found:
            spread.append(word)
            continue
        before, after = word[: found.start()], word[found.end() :]
        spread.extend(f"{before}{choice}{after}" for choice in found.group(1).split(","))
    return tuple(spread)


def _after_git_options(words: Command) -> Command:
    start = 0
    while start < len(words) and words[start].startswith("-"):
        start += 2 if words[start] in _GIT_VALUED else 1
    return words[start:]


class _Scanner:
    """Splits a command line at everything that could end a command, looking into substitutions."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.depth_left = 100
        self.commands: list[Command] = []
        self.targets: list[str] = []
        self.sources: list[str] = []
        self.is_torn = False

    def scan(self, closer: str) -> None:
        """Read commands up to `closer` ("" = the end of the text)."""
        line = _Line(self)
        self.depth_left -= 1
        while self.position < len(self.text) and self.depth_left >= 0:
            char = self.text[self.position]
            self.position += 1
            if closer and char == closer:
                line.end_command()
                self.depth_left += 1
                return
            self._take(char, line)
        line.end_command()
        self.is_torn |= bool(closer)
        self.depth_left += 1 if self.depth_left >= 0 else 0

    def _take(self, char: str, line: "_Line") -> None:
        if char in " \t\r\v\f":
            line.end_word()
        elif char in ";\n|)" or (char == "&" and self._peek() not in ("<", ">")):
            line.end_command()
        elif char == "(":
            line.end_command()
            self.scan(")")
        elif char == "`":
            self.scan("`")
            line.add("`")
        elif char in "<>&":
            self._redirect(line)
        elif char == "'":
            line.add(self._until("'"))
        elif char == '"':
            self._double_quoted(line)
        elif char == "\\":
            escaped = self._peek()
            self.position += 1
            line.add("" if escaped == "\n" else escaped)
        elif char == "$":
            self._dollar(line)
        else:
            line.add(char)

    def _redirect(self, line: "_Line") -> None:
        line.end_word(is_descriptor=True)
        start = self.position - 1
        while self._peek() in ("<", ">", "|", "&") and self._peek():
            self.position += 1
        if self._peek() == "(":
            self.position += 1
            self.scan(")")
            return
        line.target = "write" if ">" in self.text[start : self.position] else "read"

    def _double_quoted(self, line: "_Line") -> None:
        line.add("")
        while self.position < len(self.text):
            char = self.text[self.position]
            self.position += 1
            if char == '"':
                return
            if char == "\\":
                line.add(self._peek())
                self.position += 1
            elif char == "`":
                self.scan("`")
            elif char == "$":
                self._dollar(line, is_quoted=True)
            else:
                line.add(char)
        self.is_torn = True

    def _dollar(self, line: "_Line", *, is_quoted: bool = False) -> None:
        follower = self._peek()
        if follower == "(":
            self.position += 1
            self.scan(")")
            line.add("$()")
        elif follower == "'" and not is_quoted:
            self.position += 1
            line.add(_ansi_decoded(self._until_unescaped_quote()))
        elif follower == '"' and not is_quoted:
            line.add("")
        else:
            # `${…}` is kept as it is; a substitution in it is met while reading on.
            line.add("$")

    def _peek(self) -> str:
        return self.text[self.position : self.position + 1]

    def _until(self, closer: str) -> str:
        end = self.text.find(closer, self.position)
        if end < 0:
            self.is_torn = True
            end = len(self.text)
        held = self.text[self.position : end]
        self.position = end + 1
        return held

    def _until_unescaped_quote(self) -> str:
        found = re.compile(r"(?:[^'\\]|\\.)*", re.DOTALL).match(self.text, self.position)
        end = found.end() if found else self.position
        held = self.text[self.position : end]
        self.is_torn |= end >= len(self.text)
        self.position = end + 1
        return held


class _Line:
    """The command being read: finished words, and the letters of the word under way."""

    def __init__(self, scanner: _Scanner) -> None:
        self._scanner = scanner
        self._words: list[str] = []
        self._letters: list[str] | None = None
        self.target: Literal["", "read", "write"] = ""

    def add(self, letters: str) -> None:
        if self._letters is None:
            self._letters = []
        self._letters.append(letters)

    def end_word(self, *, is_descriptor: bool = False) -> None:
        if self._letters is None:
            return
        word = "".join(self._letters)
        self._letters = None
        if is_descriptor and word.isdigit():
            return
        if self.target == "write" and word != "-" and not word.isdigit():
            self._scanner.targets.append(word)
        elif self.target == "read":
            self._scanner.sources.append(word)
        elif not self.target:
            self._words.append(word)
        self.target = ""

    def end_command(self) -> None:
        self.end_word()
        self.target = ""
        if self._words:
            self._scanner.commands.append(tuple(self._words))
            self._words = []


def _ansi_decoded(text: str) -> str:
    try:
        return codecs.decode(text.encode("latin-1", "backslashreplace"), "unicode_escape")
    except UnicodeDecodeError:
        return text
