"""What Tab completes: commands, their arguments, and the files after an `@`."""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from dirge_py.lib.text import clean
from dirge_py.slash.registry import Registry

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation

_FILE_WORD = re.compile(r"(?:^|(?<=\s))@(\S*)\Z")
_COMMAND_WORD = re.compile(r"\A/([^\s/]*)\Z")
_ARGUMENT = re.compile(r"\A/(\S+)\s+(.*)\Z", re.DOTALL)
_MOST = 100


class LineCompleter(Completer):
    """Reads the registry, and one folder at a time: nothing is walked or kept."""

    def __init__(
        self, registry: Registry, conversation: "Callable[[], Conversation | None]"
    ) -> None:
        self._registry = registry
        self._conversation = conversation

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterator[Completion]:
        before = document.text_before_cursor
        if match := _COMMAND_WORD.match(before):
            for name, summary in self._registry.complete(match[1]):
                yield Completion(f"/{name} ", -len(match[1]) - 1, f"/{name}", clean(summary))
        elif match := _FILE_WORD.search(before):
            for path in self._files(match[1]):
                yield Completion(path, -len(match[1]), clean(path))
        elif match := _ARGUMENT.match(before):
            for word in self._arguments(match[1]):
                if word.startswith(match[2]):
                    yield Completion(word, -len(match[2]), clean(word))

    def _arguments(self, name: str) -> list[str]:
        command, conversation = self._registry.find(name), self._conversation()
        if command is None or command.complete is None or conversation is None:
            return []
        return list(command.complete(conversation))[:_MOST]

    def _files(self, typed: str) -> Iterator[str]:
        conversation = self._conversation()
        folder, _, begun = typed.rpartition("/")
        root = conversation.cwd if conversation is not None else Path.cwd()
        try:
            entries = sorted(os.scandir(root / folder), key=lambda entry: entry.name)
        except OSError:
            return
        shown = [e for e in entries if begun.startswith(".") or not e.name.startswith(".")]
        for entry in [e for e in shown if e.name.startswith(begun)][:_MOST]:
            path = f"{folder}/{entry.name}" if "/" in typed else entry.name
            yield path + ("/" if entry.is_dir() else "")
