"""Words about a command that the person ran with `!`: for the model, and back for the screen."""

import re
from typing import TYPE_CHECKING

from dirge_py.lib.text import clean
from dirge_py.processes.output import excerpt
from dirge_py.types.messages import UserMessage, user_text

if TYPE_CHECKING:
    from dirge_py.processes.running_command import CommandResult

_WORDS = re.compile(r"The person ran `(.*?)` \(([^()\n]*)\):\n(.*)", re.DOTALL)
_NOTHING = "(no output)"


def format_shell_message(command: str, finished: "CommandResult") -> UserMessage:
    """What a command came to, as a message of the origin `shell`."""
    if finished.aborted:
        how = "stopped by the person"
    elif finished.signal is not None:
        how = f"ended by signal {finished.signal}"
    else:
        how = f"exit {finished.exit_code}"
    output = clean(excerpt(finished.output)).strip("\n") or _NOTHING
    return user_text(f"The person ran `{command}` ({how}):\n{output}", "shell")


def parse_shell_message(text: str) -> tuple[str, str, str]:
    """The command, how it ended, and its output, of the text of such a message."""
    found = _WORDS.fullmatch(text)
    if found is None:
        command, _, output = text.partition("\n")
        return command, "", output
    return found[1], found[2], "" if found[3] == _NOTHING else found[3]
