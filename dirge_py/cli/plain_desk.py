"""Questions in a plain terminal, one line each: what `dirge config init` asks with."""

import asyncio
import getpass
import sys
from collections.abc import Collection, Coroutine, Sequence
from typing import Any, TypeVar

from dirge_py.lib.text import clean
from dirge_py.slash.base import Choice, Tone

_MOST_LINES = 30

Result = TypeVar("Result")


class PlainDesk:
    """The `talk.setting_up.Desk` of a terminal that is written on line by line."""

    async def pick(self, title: str, choices: Sequence[Choice], current: str) -> str | None:
        """By number; words narrow the list, an empty line takes the marked one. None at Ctrl+D."""
        numbered = list(enumerate(choices, start=1))
        shown = numbered
        usual = next((n for n, choice in numbered if choice.id == current), 1)
        tell(title)
        while True:
            _tell_lines(shown, usual)
            number = usual if len(shown) == len(numbered) else shown[0][0]
            answer = _typed(f"Number, or words that narrow [{number}]: ")
            if answer is None:
                return None
            if not answer or (answer.isdecimal() and 0 < int(answer) <= len(numbered)):
                return choices[int(answer or number) - 1].id
            words = answer.lower().split()
            shown = [(n, choice) for n, choice in numbered if _has(choice, words)]
            if len(shown) == 1:
                tell(f"{shown[0][1].label}")
                return shown[0][1].id
            if not shown:
                tell(f"Nothing fits {answer!r}.")
                shown = numbered

    async def ask_line(self, title: str, *, value: str = "", hidden: bool = False) -> str | None:
        """One line; an empty one is `value`. None at Ctrl+D."""
        if not hidden:
            answer = _typed(f"{title} [{value}]: " if value else f"{title}: ")
            return answer if answer is None else answer or value
        try:
            return getpass.getpass(f"{title}: ")
        except EOFError:
            return None


def tell(text: str, *, tone: Tone = "plain") -> None:
    """Write a line or more for the person."""
    if text:
        sys.stdout.write(clean(f"{text}\n"))
        sys.stdout.flush()


def at_once(work: Coroutine[Any, Any, Result]) -> Result:
    """What `work` returns; Ctrl+C ends it also while a line is typed, unlike `asyncio.run`."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(work)
    finally:
        loop.run_until_complete(_end(asyncio.all_tasks(loop)))
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


async def _end(tasks: "Collection[asyncio.Task[Any]]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _tell_lines(shown: Sequence[tuple[int, Choice]], usual: int) -> None:
    for number, choice in shown[:_MOST_LINES]:
        mark = "*" if number == usual else " "
        tell(f"{mark}{number:>3}  {choice.label}  {choice.detail}".rstrip())
    if len(shown) > _MOST_LINES:
        tell(f"      and {len(shown) - _MOST_LINES} more")


def _typed(prompt: str) -> str | None:
    try:
        return input(prompt).strip()
    except EOFError:
        tell("\n")
        return None


def _has(choice: Choice, words: Sequence[str]) -> bool:
    text = f"{choice.label} {choice.detail}".lower()
    return all(word in text for word in words)
