"""Files that a conversation has had to do with: named by a call, or attached."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dirge_py.types.messages import AssistantMessage, Message, UserMessage

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation

_NAMES = ("path", "file_path", "file")


class Touched:
    """Kept up with one conversation at a time; only what is new since the last look is read."""

    def __init__(self) -> None:
        self._of: Conversation | None = None
        self._read = 0
        self._paths: set[str] = set()

    def paths(self, conversation: "Conversation") -> set[str]:
        """Their paths, relative to the folder of the conversation."""
        messages = conversation.messages
        if conversation is not self._of or len(messages) < self._read:
            self._of, self._read, self._paths = conversation, 0, set()
        for message in messages[self._read :]:
            for named in _named(message):
                path = Path(conversation.cwd, os.path.expanduser(named))
                if path.is_relative_to(conversation.cwd):
                    self._paths.add(str(path.relative_to(conversation.cwd)))
        self._read = len(messages)
        return self._paths


def _named(message: Message) -> list[str]:
    if isinstance(message, UserMessage):
        return list(message.attached)
    if not isinstance(message, AssistantMessage):
        return []
    arguments = [call.arguments for call in message.calls if isinstance(call.arguments, Mapping)]
    values = [given.get(name) for given in arguments for name in _NAMES]
    return [value for value in values if isinstance(value, str) and "\0" not in value]
