"""What could be meant by what stands before the cursor: a command, its argument, or a file."""

import re
from collections.abc import Callable, Sequence
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
    is_path: bool = False

    @property
    def opens(self) -> bool:
        """Whether there is more below it to choose from: a folder."""
        return self.is_path and self.insert.endswith("/")

    @property
    def whole(self) -> str:
        """What is inserted when it is the last word."""
        return f"{self.insert} " if self.is_path else self.insert


def propose(
    before: str,
    *,
    registry: Registry,
    arguments: Callable[[str], Sequence[str]],
    files: Sequence[str],
) -> Sequence[Proposal]:
    """Proposals for the text before the cursor, best first; empty when nothing is asked for.

    `arguments` gives the known arguments of a command by its name, `files` are the paths that fit.
    What is typed for the shell is completed by nobody.
    """
    if before.startswith("!"):
        return ()
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
        return [Proposal(path, f"@{_quoted(path)}", len(query) + 1, is_path=True) for path in files]
    if match := _ARGUMENT.match(before):
        typed = match[2]
        fitting = [word for word in arguments(match[1]) if word.startswith(typed)]
        # What is written out comes first: Enter sends it then, whatever longer words there are.
        known = sorted(fitting, key=lambda word: word != typed)
        return [Proposal(word, word, len(typed)) for word in known[:_MOST]]
    return ()


def file_query(before: str) -> str | None:
    """What the text before the cursor asks for among the files; None where it asks for none."""
    match = None if before.startswith("!") else _FILE_WORD.search(before)
    return match[1] if match is not None else None


def _quoted(path: str) -> str:
    return f'"{path}"' if " " in path else path
