"""`/copy`: an answer, a code block, or the place where the last copy is kept."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dirge_py.slash.base import FrontEnd
from dirge_py.types.errors import UsageError
from dirge_py.types.extensions import Command
from dirge_py.ui.clipboard import last_copy_file

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})[^\n]*\n(.*?)^ {0,3}\1[`~]*[ \t]*$", re.M | re.S)


async def copy(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    if args == "--file":
        file = last_copy_file()
        kept = str(file) if file.exists() else "Nothing was copied yet."
        front.show(kept)
        return
    answers = [m.text for m in conversation.messages if m.role == "assistant" and m.text.strip()]
    if args == "code":
        front.show(front.copy(_last_code(answers)))
        return
    if args and not (args.isdecimal() and int(args)):
        raise UsageError(f"/copy {args}: no such thing.", hint="/copy [N | code | --file]")
    number = int(args or 1)
    if number > len(answers):
        what = f"only {len(answers)} answers" if answers else "no answer to copy yet"
        raise UsageError(f"There is {what}." if not answers else f"There are {what}.")
    front.show(front.copy(answers[-number].strip("\n")))


def code_blocks(markdown: str) -> list[str]:
    """What stands in the fenced blocks of an answer, in order."""
    return [found[2].removesuffix("\n") for found in _FENCE.finditer(markdown)]


def _last_code(answers: Sequence[str]) -> str:
    for answer in reversed(answers):
        if blocks := code_blocks(answer):
            return blocks[-1]
    raise UsageError("No answer has a code block yet.")


def _words(conversation: "Conversation") -> list[str]:
    return ["code", "--file"]


COMMANDS = (
    Command(
        name="copy",
        summary="copy the last answer, the Nth last, or the last code block; --file: where it is",
        usage="[N | code | --file]",
        run=copy,
        complete=_words,
    ),
)
