"""Reads `if`, `for`, variables and input files in a command line, for commands that only look.

The parts that run are returned one after the other, with every value of a loop's variable in its
place; conditions don't matter, as every part is judged. Only variables with a known value are
accepted, and what this reader doesn't know is `NotPlain`. Its result must not be used for a line in
which a part does more than look.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Literal

from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.shell_lexer import (
    MAX_PARTS,
    OPERATOR,
    REDIRECT,
    RESERVED,
    Joint,
    NotPlain,
    Part,
    Word,
    screen,
    skip_blank,
    why_strange,
)

_BARE = late_pattern(r"[A-Za-z0-9_./:@%+=,^*?\[\]-]+")
_HEAD = late_pattern(r"[A-Za-z0-9_./:][A-Za-z0-9_./:+@,-]*")
_VARIABLE = late_pattern(r"\$(?:([A-Za-z_][A-Za-z0-9_]*|\?)|\{([A-Za-z_][A-Za-z0-9_]*)\})")
_IN_DOUBLE = late_pattern(r"[^\"$`\\!]+")
_SINGLE = late_pattern(r"'([^']*)'")
_TILDE = late_pattern(r"~(?=/|[ \t\n;|&]|\Z)")
_INPUT = late_pattern(r"<[ \t]*([A-Za-z0-9_./][A-Za-z0-9_./@%+=,-]*)(?=[ \t\n;|&]|\Z)")
_NETWORK_FILE = late_pattern(r"/+dev/+(?:tcp|udp)(?:/|\Z)")
_SIGN = late_pattern(r"!=?(?=[ \t])")
_KEYWORD = late_pattern(r"[a-z]+(?=[ \t\n;|&<>]|\Z)")
_NAME = late_pattern(r"[A-Za-z0-9_]+(?=[ \t\n;])")
_LOOP_NAME = late_pattern(r"[a-z][a-z0-9_]*")
_NEVER_SET = frozenset((
    "path", "fpath", "cdpath", "manpath", "mailpath", "module_path", "fignore", "argv", "status",
    "prompt", "psvar", "watch", "histchars", "signals", "aliases", "commands", "functions",
))  # fmt: skip
"""Lower-case names that mean something in a shell such as zsh."""
_PLAIN_VALUE = late_pattern(r"[A-Za-z0-9_./:@%+=,^-]*")
_TAKES_STATUS = frozenset(("echo", "[", "test"))
_MOVERS = frozenset(("cd", "pushd", "popd"))
_MOST_VALUES = 64
_MOST_NESTED = 8


@dataclass(frozen=True, slots=True)
class _Piece:
    """A stretch of a word: text, or a variable."""

    text: str
    """The text, or the variable's name."""
    kind: Literal["text", "glob", "variable"] = "text"
    """Text that stays as it is, text that may be a pattern, or a variable."""
    is_quoted: bool = False
    """Whether a variable is in double quotes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loop:
    """A `for` around a command."""

    name: str
    """The variable."""
    values: tuple[Word, ...]
    """Its values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StructuredLine:
    """A command line that was read with its control structures."""

    parts: tuple[Part, ...]
    """Every command that it may run, with known values in place of variables."""
    spelled: tuple[tuple[str, ...], ...]
    """The words of each command and `for` as written; `\\1name\\1` stands for a variable."""
    redirects: tuple[str, ...]
    """Every redirection, as written."""
    split: tuple[str, ...] = ()
    """Patterns whose file names must have no blanks and no patterns in them."""


def spelled_variable(name: str) -> str:
    """Return what stands for a variable in `StructuredLine.spelled`."""
    return f"\1{name}\1"


def lex_structure(text: str, known: Mapping[str, str]) -> StructuredLine:
    """Read a command line; `known` are the variables with a known value. Raises NotPlain."""
    screen(text)
    reader = _StructureReader(text, known)
    reader.read_list(())
    if reader.position < len(text):
        raise NotPlain(why_strange(text, reader.position))
    return StructuredLine(
        parts=tuple(reader.parts),
        spelled=tuple(reader.spelled),
        redirects=tuple(reader.redirects),
        split=tuple(dict.fromkeys(reader.split)),
    )


class _StructureReader:
    """Reads the text once, and collects the commands in it."""

    def __init__(self, text: str, known: Mapping[str, str]) -> None:
        self.text = text
        self.position = 0
        self.parts: list[Part] = []
        self.spelled: list[tuple[str, ...]] = []
        self.redirects: list[str] = []
        self.split: list[str] = []
        self._known = known
        self._loops: list[_Loop] = []
        self._depth = 0
        self._has_moved = False

    def read_list(self, ends: Sequence[str]) -> None:
        """Read commands up to one of the words `ends`, or to the end of the text."""
        joint: Joint = ""
        count = 0
        while True:
            self._skip(newlines=True)
            if self.position >= len(self.text) or self._keyword() in ends:
                if joint in ("&&", "||", "|") or not count:
                    raise NotPlain("an operator has no command next to it")
                return
            self._read_item(joint)
            count += 1
            self._skip()
            found = OPERATOR.match(self.text, self.position)
            if not found:
                if self.position < len(self.text):
                    raise NotPlain(why_strange(self.text, self.position))
                return
            joint = found.group()  # type: ignore[assignment]
            self.position = found.end()

    def _read_item(self, joint: Joint) -> None:
        match self._keyword():
            case "if" | "for" as word:
                self._depth += 1
                if self._depth > _MOST_NESTED:
                    raise NotPlain("it is nested too deeply")
                first = len(self.parts)
                self.position += len(word)
                self._read_if() if word == "if" else self._read_for()
                self._depth -= 1
                if first < len(self.parts):
                    self.parts[first] = replace(self.parts[first], joint=joint)
                self._read_redirects()
            case "!":
                self.position += 1
                self._skip()
                self._read_command(joint)
            case _:
                self._read_command(joint)

    def _read_if(self) -> None:
        self.read_list(("then",))
        self._expect("then")
        self.read_list(("elif", "else", "fi"))
        while self._keyword() == "elif":
            self._expect("elif")
            self.read_list(("then",))
            self._expect("then")
            self.read_list(("elif", "else", "fi"))
        if self._keyword() == "else":
            self._expect("else")
            self.read_list(("fi",))
        self._expect("fi")

    def _read_for(self) -> None:
        self._skip()
        name = self._word_text()
        is_taken = any(loop.name == name for loop in self._loops) or name in self._known
        if not _LOOP_NAME.fullmatch(name) or name in _NEVER_SET or is_taken:
            raise NotPlain(f"the loop sets `{name}`")
        self._skip()
        if self._word_text() != "in":
            raise NotPlain("the loop's values are not written out")
        values: list[Word] = []
        spelled = ["for", name]
        while True:
            self._skip()
            found = OPERATOR.match(self.text, self.position)
            if found or self.position >= len(self.text):
                break
            pieces = self._read_word()
            spelled.append(_as_spelled(pieces))
            values.append(self._expanded(pieces, {}))
        if found is None or found.group() not in (";", "\n") or not values:
            raise NotPlain("the loop's values are not written out")
        if len(values) > _MOST_VALUES:
            raise NotPlain(f"it loops over more than {_MOST_VALUES} values")
        self.position = found.end()
        self._skip(newlines=True)
        self.spelled.append(tuple(spelled))
        self._expect("do")
        self._loops.append(_Loop(name=name, values=tuple(values)))
        self.read_list(("done",))
        self._loops.pop()
        self._expect("done")

    def _read_command(self, joint: Joint) -> None:
        start = self.position
        words: list[Sequence[_Piece]] = []
        redirects: list[str] = []
        inputs: list[Word] = []
        while self.position < len(self.text) and not OPERATOR.match(self.text, self.position):
            redirect = REDIRECT.match(self.text, self.position)
            source = None if redirect else _INPUT.match(self.text, self.position)
            if redirect and words:
                redirects.append(redirect.group())
                self.position = redirect.end()
            elif source and words:
                if _NETWORK_FILE.match(source.group(1)):
                    raise NotPlain("it opens a network connection")
                redirects.append(source.group())
                inputs.append(Word(source.group(1)))
                self.position = source.end()
            else:
                words.append(self._read_word(is_head=not words))
            self._skip()
        if not words:
            raise NotPlain("an operator has no command next to it")
        self.redirects += redirects
        self.spelled.append(tuple(map(_as_spelled, words)))
        self._add_parts(words, joint, self.text[start : self.position], redirects, inputs)

    def _add_parts(
        self,
        words: Sequence[Sequence[_Piece]],
        joint: Joint,
        text: str,
        redirects: Sequence[str],
        inputs: Sequence[Word],
    ) -> None:
        head = _as_spelled(words[0])
        if head in _MOVERS and (self._depth or self._has_moved):
            raise NotPlain("it changes folders more than once, or inside a loop or `if`")
        self._has_moved = self._has_moved or head in _MOVERS
        used = {piece.text for word in words for piece in word if piece.kind == "variable"}
        loops = [loop for loop in self._loops if loop.name in used]
        for values in product(*(loop.values for loop in loops)):
            bound = {loop.name: value for loop, value in zip(loops, values, strict=True)}
            part = Part(
                words=tuple(self._expanded(word, bound, head) for word in words),
                joint=joint,
                text=text.strip(),
                redirects=tuple(redirects),
                inputs=tuple(inputs),
            )
            self.parts.append(part)
            if len(self.parts) > MAX_PARTS:
                raise NotPlain(f"it has more than {MAX_PARTS} commands")

    def _expanded(
        self, pieces: Sequence[_Piece], bound: Mapping[str, Word], head: str = ""
    ) -> Word:
        """Return the word that the program `head` gets."""
        text, has_glob, is_single = "", False, True
        for piece in pieces:
            if piece.kind != "variable":
                text += piece.text
                is_glob = piece.kind == "glob" and any(char in piece.text for char in "*?[")
                has_glob, is_single = has_glob or is_glob, is_single and not is_glob
                continue
            value = bound.get(piece.text)
            if value is None:
                text += self._known_value(piece, text, head)
                continue
            if value.has_glob and not piece.is_quoted:
                self.split.append(value.text)
                if self._has_moved:
                    raise NotPlain(f"`${piece.text}` is not quoted")
            elif not piece.is_quoted and not _PLAIN_VALUE.fullmatch(value.text):
                raise NotPlain(f"`${piece.text}` is not quoted")
            if not value.text and not piece.is_quoted:
                raise NotPlain(f"`${piece.text}` may be empty")
            text += value.text
            has_glob = has_glob or value.has_glob
        return Word(text, has_glob, is_single and has_glob)

    def _known_value(self, piece: _Piece, before: str, head: str) -> str:
        if piece.text == "?":
            # Its value may be another one, and with it the name of a file.
            if head not in _TAKES_STATUS or before:
                raise NotPlain("`$?` is not known before it runs")
            return "0"
        value = self._known.get(piece.text, "")
        if any(loop.name == piece.text for loop in self._loops):
            raise NotPlain(f"`${piece.text}` is not set there")
        if not value or not _PLAIN_VALUE.fullmatch(value):
            raise NotPlain(f"`${piece.text}` is not known before it runs")
        if piece.text == "PWD" and self._has_moved:
            raise NotPlain("`$PWD` changes with `cd`")
        return value

    def _read_word(self, *, is_head: bool = False) -> Sequence[_Piece]:
        text, start = self.text, self.position
        if not is_head and (sign := _SIGN.match(text, start)):
            self.position = sign.end()
            return (_Piece(sign.group()),)
        if is_head:
            return (_Piece(self._read_head()),)
        pieces = list(self._pieces())
        follower = text[self.position : self.position + 1]
        if self.position == start or (follower and follower not in " \t\n;|&<>"):
            raise NotPlain(why_strange(text, self.position))
        if follower in ("<", ">") and text[start : self.position].isdigit():
            raise NotPlain("it redirects to somewhere other than /dev/null")
        return pieces

    def _read_head(self) -> str:
        found = _BARE.match(self.text, self.position)
        raw = found.group() if found else ""
        end = self.position + len(raw)
        follower = self.text[end : end + 1]
        if raw in RESERVED:
            raise NotPlain(f"it contains `{raw}`")
        if (raw != "[" and not _HEAD.fullmatch(raw)) or "=" in raw:
            raise NotPlain(why_strange(self.text, self.position))
        if follower and follower not in " \t\n;|&<>":
            raise NotPlain(why_strange(self.text, end))
        self.position = end
        return raw

    def _pieces(self) -> Iterator[_Piece]:
        text, start = self.text, self.position
        if tilde := _TILDE.match(text, start):
            self.position = tilde.end()
            yield _Piece("~HOME", "variable", is_quoted=True)
        while self.position < len(text):
            at = self.position
            if bare := _BARE.match(text, at):
                self.position = bare.end()
                yield _Piece(bare.group(), "glob")
            elif single := _SINGLE.match(text, at):
                self.position = single.end()
                yield _Piece(single.group(1))
            elif variable := _VARIABLE.match(text, at):
                self.position = variable.end()
                yield _Piece(variable.group(1) or variable.group(2), "variable")
            elif text[at] == '"':
                self.position = at + 1
                yield _Piece("")
                yield from self._double_quoted()
            else:
                return

    def _double_quoted(self) -> Iterator[_Piece]:
        text = self.text
        while self.position < len(text) and text[self.position] != '"':
            if plain := _IN_DOUBLE.match(text, self.position):
                self.position = plain.end()
                yield _Piece(plain.group())
            elif variable := _VARIABLE.match(text, self.position):
                self.position = variable.end()
                name = variable.group(1) or variable.group(2)
                yield _Piece(name, "variable", is_quoted=True)
            else:
                raise NotPlain(why_strange(text, self.position))
        if self.position >= len(text):
            raise NotPlain("a quote is not closed")
        self.position += 1

    def _read_redirects(self) -> None:
        while True:
            self._skip()
            found = REDIRECT.match(self.text, self.position)
            if not found:
                return
            self.redirects.append(found.group())
            self.position = found.end()

    def _skip(self, *, newlines: bool = False) -> None:
        self.position = skip_blank(self.text, self.position, newlines=newlines)

    def _keyword(self) -> str:
        """Return the bare word at this position, which is not read yet."""
        if _SIGN.match(self.text, self.position):
            return self.text[self.position : self.position + 1]
        found = _KEYWORD.match(self.text, self.position)
        return found.group() if found else ""

    def _word_text(self) -> str:
        found = _NAME.match(self.text, self.position)
        if not found:
            raise NotPlain(why_strange(self.text, min(self.position, len(self.text) - 1)))
        self.position = found.end()
        return found.group()

    def _expect(self, word: str) -> None:
        self._skip(newlines=True)
        if self._keyword() != word:
            raise NotPlain(f"`{word}` is missing")
        self.position += len(word)


def _as_spelled(pieces: Sequence[_Piece]) -> str:
    return "".join(
        piece.text
        if piece.kind != "variable"
        else "~"
        if piece.text == "~HOME"
        else spelled_variable(piece.text)
        for piece in pieces
    )
