"""Sends a run back that edited code and did not see it pass."""

import os
from collections.abc import Sequence

from dirge_py.guards.gate import excerpt, gate, nudge
from dirge_py.guards.verification import Verification
from dirge_py.types.hooks import Bundle, TurnInfo
from dirge_py.types.messages import Message

SHOWN_FILES = 5
COMMAND_CHARS = 120


def verifier(verification: Verification, most: int = 1) -> Bundle:
    """A gate that speaks when code was edited and nothing has checked it since, or a check failed.

    `verification` is fed by hooks of its own (`tracking`): others read it, too.
    """

    def ask(_info: TurnInfo) -> Sequence[Message]:
        match verification.status:
            case "red":
                return nudge(_red(verification))
            case "unverified":
                return nudge(_unverified(verification))
            case _:
                return ()

    return gate("verifier", ask, most=most)


def _red(verification: Verification) -> str:
    return (
        f"You edited {_files(verification)}, and the last check of it failed: "
        f"`{excerpt(verification.command, COMMAND_CHARS)}`. Fix what broke and run it again. "
        "If it failed before your change already, say so and how you know."
    )


def _unverified(verification: Verification) -> str:
    earlier = ""
    if verification.has_failed:
        command = excerpt(verification.command, COMMAND_CHARS)
        earlier = f" (`{command}` failed before your last edit)"
    return (
        f"You edited {_files(verification)}, and nothing has built, tested or linted it since"
        f"{earlier}. Run the check that fits. If there is none, or it cannot run here, say so and "
        "why."
    )


def _files(verification: Verification) -> str:
    shown = verification.edited[:SHOWN_FILES]
    more = len(verification.edited) - len(shown)
    names = ", ".join(f"`{_shorter(path)}`" for path in shown)
    return f"{names} and {more} more" if more else names


def _shorter(path: str) -> str:
    """As the model most likely wrote it: from the folder we work in, if it lies below."""
    return path.removeprefix(os.getcwd() + os.sep)
