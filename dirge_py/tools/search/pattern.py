"""The regular expressions of `grep`: the syntax that ripgrep and Python share.

Both support literals, classes, groups, alternation, greedy and lazy repetition, anchors, the usual
escapes (word, digit, space, boundary) and `(?i)`. Look-around and back-references are rejected, so
that a pattern means the same on every machine. A brace or bracket that can only be literal is
escaped. One difference remains: combining marks are part of a word for ripgrep, `²` for Python.

Glob patterns over relative paths: `*`, `?`, `[…]`, `{a,b}`, and `**` for any folders.
"""

import re
from collections.abc import Callable, Iterator

from dirge_py.lib.lazy import late_pattern
from dirge_py.types.errors import FileError

_TOKEN = late_pattern(
    r"\\(?s:.)"
    r"|\[\^?\]?(?:\\(?s:.)|\[:\w+:\]|[^\]\\])*\]"
    r"|\{\d+(?:,\d*)?\}"
    r"|\(\?(?:P<|P=|<[=!]|[=!>(]|[a-zA-Z-]*[:)])?"
    r"|(?s:.)"
)
_NOT_SHARED = {
    "(?=": "look-ahead",
    "(?!": "look-ahead",
    "(?<=": "look-behind",
    "(?<!": "look-behind",
    "(?P=": "a back-reference",
    "(?(": "a condition",
    "(?>": "an atomic group",
}


def portable_pattern(pattern: str) -> str:
    """Return the pattern in the form that means the same to both. Raises FileError if it can't."""
    translated = "".join(_translate(pattern))
    try:
        re.compile(translated)
    except (re.error, OverflowError, RecursionError) as error:
        raise FileError(
            f"{pattern!r} is not a regular expression: {error}.",
            hint="Escape characters that are meant literally with a backslash.",
        ) from None
    return translated


def _translate(pattern: str) -> Iterator[str]:
    if "\n" in pattern:
        raise FileError(
            "The pattern contains a line break; lines are searched one by one.",
            hint="Search for one line and use context_lines.",
        )
    for match in _TOKEN.finditer(pattern):
        token = match.group()
        if re.fullmatch(r"\\[1-9]", token) or token in _NOT_SHARED:
            raise FileError(
                f"{pattern!r} uses {_NOT_SHARED.get(token, 'a back-reference')}, which `grep` does"
                " not know.",
                hint="Search with a simpler pattern and look at the lines.",
            )
        if token in "{}":
            yield "\\" + token
        elif token.startswith("[") and len(token) > 1:
            yield _class(token)
        else:
            yield _ESCAPES.get(token, token)


# The end of the text is the end of the line here; the two programs spell it differently. Also,
# Python before 3.14 finds no `\B` in an empty line, and treats U+001C to U+001F as blanks.
_BLANKS = r"\t\v\f \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_ESCAPES = {
    r"\s": f"[{_BLANKS}]",
    r"\S": f"[^{_BLANKS}]",
    r"\B": r"(?:\B|^$)",
    r"\Z": "$",
    r"\z": "$",
    r"\A": "^",
    r"\<": r"\b",
    r"\>": r"\b",
}


def guard_pattern(portable_pattern: str) -> str:
    """Return a slower pattern that never matches line breaks or invalid bytes, as in ripgrep."""
    return "".join(
        rf"(?:(?![\r\udc80-\udcff]){token})" if _CHARACTER_SET.fullmatch(token) else token
        for token in _TOKEN.findall(portable_pattern)
    )


_CHARACTER_SET = late_pattern(r"\.|\\[sSwWdD]|\[.+", re.DOTALL)


def _class(token: str) -> str:
    """Return a character class without characters that only one program reads as an operator."""
    opening = re.match(r"\[\^?\]?", token)
    start = opening.end() if opening else 1
    head = token[:start].replace("]", r"\]")
    inside = re.sub(r"\[:(\w+):\]", lambda m: _POSIX.get(m[1], m[0]), token[start:-1])
    inside = re.sub(r"\\(?s:.)", lambda m: _BLANKS if m[0] == r"\s" else m[0], inside)
    inside = re.sub(r"(?<!\\)\[", r"\[", inside)
    inside = re.sub(r"&&|--|~~|\|\|", lambda m: rf"\{m[0][0]}\{m[0][1]}", inside)
    return f"{head}{inside}]"


_POSIX = {
    "alpha": "a-zA-Z",
    "digit": "0-9",
    "alnum": "a-zA-Z0-9",
    "upper": "A-Z",
    "lower": "a-z",
    "space": r"\s",
    "blank": r" \t",
    "xdigit": "0-9a-fA-F",
    "word": r"\w",
}


MAX_ALTERNATIVES = 64


def path_matcher(pattern: str) -> Callable[[str], bool]:
    """Return a test for relative paths; without `/`, `pattern` is tested on the last component."""
    alternatives = [re.compile(_expression(each)) for each in _expanded(pattern.lstrip("/"))]
    is_name = "/" not in pattern.strip("/")

    def is_match(path: str) -> bool:
        text = path.rpartition("/")[2] if is_name else path
        return any(each.fullmatch(text) for each in alternatives)

    return is_match


def mentions_hidden(pattern: str) -> bool:
    """Whether a component of the pattern matches names that begin with a dot."""
    return any(part.startswith((".", "{.", "[.]")) for part in pattern.split("/"))


_INNERMOST_BRACES = late_pattern(r"\{([^{}]*)\}")


def _expanded(pattern: str) -> list[str]:
    done: list[str] = []
    waiting = [pattern]
    while waiting:
        current = waiting.pop()
        braces = _INNERMOST_BRACES.search(current)
        if braces is None:
            done.append(current)
            continue
        before, after = current[: braces.start()], current[braces.end() :]
        waiting += [before + choice + after for choice in braces[1].split(",")]
        if len(done) + len(waiting) > MAX_ALTERNATIVES:
            raise FileError(
                f"{pattern} stands for more than {MAX_ALTERNATIVES} patterns.",
                hint="Use fewer braces.",
            )
    return done


def _expression(pattern: str) -> str:
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    pieces: list[str] = []
    for index, part in enumerate(parts):
        is_last = index == len(parts) - 1
        if part != "**":
            pieces.append(_component(part) + ("" if is_last else "/"))
        elif is_last:
            pieces.append(".+")
        elif index == 0 or parts[index - 1] != "**":
            pieces.append("(?:[^/]+/)*")
    return "(?s:" + "".join(pieces) + ")"


_GLOB_TOKEN = late_pattern(r"\*+|\?|\[!?\]?[^\]]*\]|\\.|.", re.DOTALL)


def _component(part: str) -> str:
    """Return the regex of one component. Text between two stars matches at its first place only.

    That is always correct, and keeps many stars from taking exponential time.
    """
    runs = [""]
    for token in _GLOB_TOKEN.findall(part):
        if token.startswith("*"):
            runs.append("")
        elif token == "?":
            runs[-1] += "[^/]"
        elif len(token) > 1 and token.startswith("["):
            inside = re.sub(r"([\\\[&~|^])", r"\\\1", token[1:-1].removeprefix("!"))
            runs[-1] += f"(?!/)[{'^' if token[1] == '!' else ''}{inside}]"
        else:
            runs[-1] += re.escape(token[1:] if len(token) > 1 else token)
    first, *middle = runs
    last = f"[^/]*{middle.pop()}" if middle else ""
    return first + "".join(f"(?>[^/]*?{each})" for each in middle if each) + last
