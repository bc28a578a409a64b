"""The strict lexer: splits a plain command line into words, and rejects all other syntax.

It reads the small part of bash in which a word is exactly what is written: no expansion but file
name globs, no control structure, no redirection that matters. Comments are skipped. Everything else
is `NotPlain`.

The marks below are for the readers that never refuse: they say which characters of a word still
have a meaning for the shell. A `$` that expands, an unquoted `*` and the like stand for themselves;
where quotes or a backslash removed their meaning, a mark, a private-use character, stands instead.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import dropwhile
from typing import Literal

from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass

MAX_BYTES = 16 * 1024
MAX_PARTS = 64
MAX_WORDS = 512
Joint = Literal["", "&&", "||", ";", "|", "\n"]


@dataclass(frozen=True, slots=True)
class Word:
    """One argument in the form that the program gets."""

    text: str
    """The text of the argument."""
    has_glob: bool = False
    """Whether the shell may expand it to file names."""
    is_single: bool = False
    """Whether it is one argument even then: the value of a loop's variable."""
    is_no_option: bool = False
    """Whether none of these file names begins with a sign such as `-`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One simple command of a command line."""

    words: tuple[Word, ...]
    """Its words."""
    joint: Joint = ""
    """The operator between it and the previous command."""
    text: str = ""
    """Its text as written."""
    redirects: tuple[str, ...] = ()
    """Its redirections, as written."""
    inputs: tuple[Word, ...] = ()
    """The files that it gets as input."""

    @property
    def argv(self) -> tuple[str, ...]:
        return tuple(word.text for word in self.words)


def line_of_words(words: Sequence[str]) -> str:
    """Return the command line of a list of words, such as `["bash", "-lc", "make test"]`."""
    match words:
        case ["bash" | "/bin/bash", "-lc" | "-c", script] | [script]:
            return script
    return shlex.join(words)


def without_leading_comments(command: str) -> str:
    """Return the command from its first line that runs something; unchanged if there is none."""
    begun = dropwhile(_is_comment, command.split("\n"))
    return "\n".join(begun) or command


def _is_comment(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def word_set(names: str) -> frozenset[str]:
    """Return the set of names that are written as one text."""
    return frozenset(names.split())


class NotPlain(Exception):
    """The text is more than plain commands; the message says why."""


_BARE = r"[A-Za-z0-9_./:@%+=,^~*?\[\]-]"
OPERATOR = late_pattern(r"&&|\|\||;|\||\n")
REDIRECT = late_pattern(
    r"(?:[12]?>&[12]|(?:[12]|&)?>>?[ \t]*/dev/null|<[ \t]*/dev/null)(?=[ \t\n;|&]|\Z)"
)
_WORD = late_pattern(rf"(?:{_BARE}+|'[^']*'|\"[^\"$`\\!]*\")+")
_SEGMENT = late_pattern(rf"({_BARE}+)|'([^']*)'|\"([^\"]*)\"")
_BANG = late_pattern(r"!=?(?=[ \t])")
"""An argument of `[` or `find`."""
_TILDE = late_pattern(r"(?:\A|[:=])~")
_HEAD = late_pattern(r"[A-Za-z0-9_./:][A-Za-z0-9_./:+@,-]*")
_OUTSIDE_CHARSET = late_pattern(r"[^\x20-\x7e\t\n]")
RESERVED = word_set(
    "if then elif else fi for while until do done case esac select function time coproc in"
)


def screen(text: str) -> None:
    """Raise NotPlain for text that parsers may read in different ways, or that could crash one."""
    if len(text) > MAX_BYTES:
        raise NotPlain(f"it is longer than {MAX_BYTES // 1024} KiB")
    found = _OUTSIDE_CHARSET.search(text)
    if found:
        raise NotPlain(f"it contains the character U+{ord(found.group()):04X}")


def lex(text: str) -> tuple[Part, ...]:
    """Return the simple commands of a plain command line, in order. Raises NotPlain."""
    screen(text)
    parts: list[Part] = []
    joint: Joint = ""
    position = 0
    while True:
        part, position = _read_part(text, position, joint)
        if part:
            parts.append(part)
        elif joint in ("&&", "||", "|") or position < len(text):
            raise NotPlain("an operator has no command next to it")
        if len(parts) > MAX_PARTS or sum(len(part.words) for part in parts) > MAX_WORDS:
            raise NotPlain(f"it has more than {MAX_PARTS} commands or {MAX_WORDS} words")
        if position >= len(text):
            break
        found = OPERATOR.match(text, position)
        if not found:
            raise NotPlain(why_strange(text, position))
        joint = found.group()  # type: ignore[assignment]
        # A separator followed by blank lines is still one separator.
        position = skip_blank(text, found.end(), newlines=joint in (";", "\n"))
    if not parts:
        raise NotPlain("it is empty")
    return tuple(parts)


HERE_DOCUMENT = late_pattern(r"(?<!<)<<-?\s*['\"\\]?(\w+)")
"""The beginning of a here-document; the group is its end marker. A guess from the text."""


def without_here_documents(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines that are commands, without those between `<<END` and `END`. A guess."""
    end = ""
    for line in lines:
        if end:
            end = "" if line.strip() == end else end
            continue
        yield line
        found = HERE_DOCUMENT.search(line)
        end = found[1] if found else ""


_QUOTED_OR_SPACE = late_pattern(
    r"""(\$'(?:\\.|[^'\\])*'|'[^']*'|"(?:\\.|[^"\\])*"|\\.)|[ \t]+""", re.DOTALL
)
_NESTING = late_pattern(r"<<|#|`|\$\(")
_REMARK = late_pattern(r"^\s*#.*|(?<=\s)#[^'\"]*\w'\w[^'\"]*$")
_BEFORE_COMMAND = word_set("do then else elif while until if time ! {")


def with_single_spaces(command: str) -> str:
    """Return a command line with one space between its words, and none at its ends.

    Quoted text is unchanged. Where quotes may nest, in substitutions, here-documents and comments,
    only the ends change.
    """
    text = command.strip()
    if _NESTING.search(text):
        return text
    return _QUOTED_OR_SPACE.sub(lambda found: found[1] or " ", text)


def simple_commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each simple command, also of those in `$(…)`. A guess; never raises."""
    lines = without_here_documents(text.replace("\\\n", " ").split("\n"))
    # A comment may hold an apostrophe, which would begin a quotation.
    code = "\n".join(_REMARK.sub("", line) for line in lines)
    for part in re.split(r"\$\(|`", code):
        lexer = shlex.shlex(part, posix=True, punctuation_chars="();<>|&\n")
        lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
        words: list[str] = []
        with suppress(ValueError):  # a quote is not closed
            for word in lexer:
                if word and (set(word) <= set("();|&\n") or word[0] == "\n"):
                    yield words
                    words = []
                else:
                    words.append(word)
        yield words


def starts_program(command: str, name: str) -> bool:
    """Whether a command line starts the program `name` by itself. A guess from its words."""
    # Substitutions become groups: quotes around one must not be torn apart.
    grouped = re.sub(r"\$\(|`", " (", command)
    return name in command and any(
        next((word for word in words if word not in _BEFORE_COMMAND), "").rpartition("/")[2] == name
        for words in simple_commands(grouped)
    )


def _read_part(text: str, start: int, joint: Joint) -> tuple[Part | None, int]:
    position = skip_blank(text, start, newlines=joint != ";" or start == 0)
    begin = end = position
    words: list[Word] = []
    redirects: list[str] = []
    while position < len(text) and not OPERATOR.match(text, position):
        redirect = REDIRECT.match(text, position)
        if redirect and words:
            redirects.append(redirect.group())
            end = redirect.end()
        else:
            word, end = _read_word(text, position, is_head=not words)
            words.append(word)
        if len(words) > MAX_WORDS:
            raise NotPlain(f"it has more than {MAX_WORDS} words")
        position = skip_blank(text, end)
    if not words:
        return None, position
    part = Part(words=tuple(words), joint=joint, text=text[begin:end], redirects=tuple(redirects))
    return part, position


def _read_word(text: str, position: int, *, is_head: bool) -> tuple[Word, int]:
    if not is_head and (sign := _BANG.match(text, position)):
        return Word(sign.group()), sign.end()
    found = _WORD.match(text, position)
    if not found:
        raise NotPlain(why_strange(text, position))
    raw, end = found.group(), found.end()
    follower = text[end : end + 1]
    if follower and follower not in " \t\n;|&<>":
        raise NotPlain(why_strange(text, end))
    if follower in ("<", ">") and raw.isdigit():
        raise NotPlain("it redirects to somewhere other than /dev/null")
    if is_head and raw in RESERVED:
        raise NotPlain(f"it contains `{raw}`")
    if is_head and "=" in raw:
        raise NotPlain("it sets a variable")
    if is_head and raw == "[":
        return Word(raw), end
    if is_head and not _HEAD.fullmatch(raw):
        raise NotPlain("the name of a program is quoted or a pattern")
    value, has_glob = "", False
    for bare, single, double in _SEGMENT.findall(raw):
        if _TILDE.search(bare):
            raise NotPlain("it has a `~` that means a folder")
        has_glob = has_glob or any(char in bare for char in "*?[")
        value += bare or single or double
    return Word(value, has_glob), end


def skip_blank(text: str, position: int, *, newlines: bool = False) -> int:
    """Return where the next word or operator begins, behind blanks and comments."""
    while position < len(text):
        if text[position] in (" \t\n" if newlines else " \t"):
            position += 1
        elif text[position] == "#" and (position == 0 or text[position - 1] in " \t\n;|&"):
            end = text.find("\n", position)
            position = end if end >= 0 else len(text)
        else:
            break
    return position


def why_strange(text: str, position: int) -> str:
    """Return why the character at `position` is not plain, as text for the user."""
    rest = text[position:]
    if rest[0] in "<>" or rest.startswith("&>"):
        return "it redirects to somewhere other than /dev/null"
    meaning = {
        "$": "it expands a variable or substitutes a command (`$`)",
        "`": "it substitutes a command (a backtick)",
        "\\": "it contains a backslash outside single quotes",
        "{": "it contains a brace",
        "}": "it contains a brace",
        "(": "it starts a subshell or function",
        ")": "it starts a subshell or function",
        "&": "it runs something in the background (`&`)",
        "#": "it contains a comment",
        "!": "it contains a `!`",
        "'": "a quote is not closed",
        '"': "double quotes contain `$`, a backtick, a backslash or `!`, or are not closed",
    }
    return meaning.get(rest[0], f"it contains {rest[0]!r}")


_DEAD = {
    char: chr(0xE000 + number) for number, char in enumerate(("$", "*", "?", "[", "{", "`", "~"))
}
QUOTED = "\ue010"
"""A `$` between double quotes: its expansion is no separate word and is not split."""
FED = "\ue011"
"""A separate word: the command reads text that is part of the command line."""
UNRUN = "\ue012"
"""A separate word: these words are text or a pattern of `case`, not certainly a command."""
FOUND = "\ue013"
"""Part of a word: a file that a `find` finds."""
ANYTHING = "$()"
"""A substitution whose content was removed: any number of any words."""
REFERENCE = late_pattern(
    rf"[${QUOTED}](?:\{{[^}}]*\}}?|[A-Za-z_][A-Za-z0-9_]*|[@*#?$!0-9-]|\(\))|`|{FOUND}"
)
_NAME = late_pattern(r"\{?([A-Za-z_][A-Za-z0-9_]*)\}?")
_TO_MARK = str.maketrans(_DEAD)
_PLAIN = str.maketrans({**{mark: char for char, mark in _DEAD.items()}, QUOTED: "$", FOUND: "{}"})
_WITHOUT = str.maketrans(
    dict.fromkeys((*_DEAD.values(), QUOTED, FOUND, FED, UNRUN), "\ufffd")  # marks that are no marks
)


def replace_marks(text: str) -> str:
    """Replace characters in external text that would be taken for marks."""
    return text.translate(_WITHOUT)


def mark_quoted(text: str) -> str:
    """Return the text as if it were between single quotes."""
    return text.translate(_TO_MARK)


def unmarked_words(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words without marks, in the form that rules are compared with."""
    return tuple(word.translate(_PLAIN) for word in words if word not in (FED, UNRUN))


def unmarked(word: str) -> str:
    """Return one word without marks."""
    return word.translate(_PLAIN)


def unquoted_value(value: str) -> str:
    """Return the value of a variable that expands unquoted: patterns in it are active again."""
    for char in "*?[":
        value = value.replace(_DEAD[char], char)
    return value


def variable_of(reference: str) -> str:
    """Return the name if the reference stands for a variable's whole value; else ""."""
    found = _NAME.fullmatch(reference[1:])
    return found.group(1) if found and ("{" in reference) == ("}" in reference) else ""
