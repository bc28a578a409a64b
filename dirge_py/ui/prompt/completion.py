"""What could be meant by what stands before the cursor: a command, its argument, or a file."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from dirge_py.slash.registry import Registry

_MOST = 50
_FILE_WORD = re.compile(r"(?:^|(?<=\s))@(\S*)\Z")
_COMMAND_WORD = re.compile(r"\A/(\S*)\Z")
_ARGUMENT = re.compile(r"\A/(\S+)\s+(.*)\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Proposal:
    """`insert` replaces the last `replaces` characters before the cursor."""

    label: str
    insert: str
    replaces: int
    detail: str = ""


def propose(
    before: str,
    *,
    registry: Registry,
    arguments: Callable[[str], Sequence[str]],
    files: Sequence[str],
) -> Sequence[Proposal]:
    """Proposals for the text before the cursor, best first; empty when nothing is asked for.

    `arguments` gives the known arguments of a command by its name.
    """
    if match := _COMMAND_WORD.match(before):
        typed = match[1]
        if "/" in typed:
            return ()
        return [
            Proposal(f"/{name}", f"/{name} ", len(typed) + 1, summary)
            for name, summary in registry.complete(typed)
        ]
    if match := _FILE_WORD.search(before):
        query = match[1]
        return [
            Proposal(path, f"@{_quoted(path)} ", len(query) + 1)
            for path in best_matches(query, files)
        ]
    if match := _ARGUMENT.match(before):
        typed = match[2]
        fitting = [word for word in arguments(match[1]) if word.startswith(typed)]
        # What is written out comes first: Enter sends it then, whatever longer words there are.
        known = sorted(fitting, key=lambda word: word != typed)
        return [Proposal(word, word, len(typed)) for word in known[:_MOST]]
    return ()


def wants_files(before: str) -> bool:
    """Does the text before the cursor ask for a file?"""
    return _FILE_WORD.search(before) is not None


def best_matches(query: str, paths: Iterable[str]) -> list[str]:
    """Paths that hold the letters of `query` in order, the tightest and shortest first."""
    wanted = query.lower()
    scored = [
        (score, len(path), path)
        for path in paths
        if (score := _score(wanted, path.lower())) is not None
    ]
    return [path for _, _, path in sorted(scored)[:_MOST]]


def _score(wanted: str, path: str) -> int | None:
    """Lower is better; None when the letters are not there."""
    if not wanted:
        return path.count("/")
    name_at = path.rstrip("/").rfind("/") + 1
    if (at := path.find(wanted, name_at)) >= 0:
        return at - name_at
    if (at := path.find(wanted)) >= 0:
        return 100 + at
    at, gaps = -1, 0
    for letter in wanted:
        found = path.find(letter, at + 1)
        if found < 0:
            return None
        gaps += found - at - 1
        at = found
    return 1000 + gaps


def _quoted(path: str) -> str:
    return f'"{path}"' if " " in path else path
