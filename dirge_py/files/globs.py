"""Glob patterns over relative paths: `*`, `?`, `[…]`, `{a,b}`, and `**` for any folders."""

import re
from collections.abc import Callable

from dirge_py.types.errors import FileError

MAX_ALTERNATIVES = 64


def path_matcher(pattern: str) -> Callable[[str], bool]:
    """A test for relative paths. A pattern without `/` is tried on the last component alone.

    Raises:
        FileError: its braces stand for too many patterns.
    """
    alternatives = [re.compile(_expression(each)) for each in _expanded(pattern.lstrip("/"))]
    if "/" not in pattern.strip("/"):
        return lambda path: _fits(alternatives, path.rpartition("/")[2])
    return lambda path: _fits(alternatives, path)


def mentions_hidden(pattern: str) -> bool:
    """Whether a component of the pattern asks for names that begin with a dot."""
    return any(part.startswith((".", "{.", "[.]")) for part in pattern.split("/"))


def _fits(alternatives: list[re.Pattern[str]], text: str) -> bool:
    return any(each.fullmatch(text) for each in alternatives)


_INNERMOST_BRACES = re.compile(r"\{([^{}]*)\}")


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


_TOKEN = re.compile(r"\*+|\?|\[!?\]?[^\]]*\]|\\.|.", re.DOTALL)


def _component(part: str) -> str:
    """One component. What stands between two stars is matched at its first place and kept there.

    That is never wrong for a star, and without it a row of stars would take exponential time.
    """
    before_star, *between = _split_at_stars([_one(token) for token in _TOKEN.findall(part)])
    if not between:
        return before_star
    *middle, last = between
    return before_star + "".join(f"(?>[^/]*?{each})" for each in middle if each) + "[^/]*" + last


def _split_at_stars(tokens: list[str]) -> list[str]:
    runs = [""]
    for token in tokens:
        if token == "*":
            runs.append("")
        else:
            runs[-1] += token
    return runs


def _one(token: str) -> str:
    if token.startswith("*"):
        return "*"
    if token == "?":
        return "[^/]"
    if len(token) > 1 and token.startswith("["):
        inside = re.sub(r"([\\\[&~|^])", r"\\\1", token[1:-1].removeprefix("!"))
        return f"(?!/)[{'^' if token[1] == '!' else ''}{inside}]"
    return re.escape(token[1:] if len(token) > 1 else token)
