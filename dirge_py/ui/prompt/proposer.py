"""Proposals while typing: reads the composer, fills the list above it, puts the choice in."""

import asyncio
import importlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dirge_py.slash.base import Choice
from dirge_py.slash.registry import Registry
from dirge_py.ui.panels.choices import ChoiceList
from dirge_py.ui.prompt.completion import Proposal, propose, wants_files
from dirge_py.ui.prompt.composer import Composer

if TYPE_CHECKING:
    from dirge_py.conversation import Conversation

_FILES_KEPT_S = 10.0
"""After this the list of files is made again when somebody asks for it."""


class Proposer:
    """Connects a `Composer` with a `ChoiceList`."""

    def __init__(
        self,
        composer: Composer,
        choices: ChoiceList,
        registry: Registry,
        conversation: "Callable[[], Conversation | None]",
    ) -> None:
        self._composer = composer
        self._choices = choices
        self._registry = registry
        self._conversation = conversation
        self._proposals: Sequence[Proposal] = ()
        self._files: Sequence[str] = ()
        self._files_at = 0.0
        self._listing: asyncio.Task[None] | None = None
        self._put: tuple[str, int] | None = None

    def look(self) -> None:
        """The text or the cursor changed: propose anew, unless we changed it ourselves."""
        before = self._composer.before_cursor
        if self._put is not None and before == self._put[0]:
            return
        self._put = None
        if wants_files(before):
            self._want_files()
        self._proposals = propose(
            before, registry=self._registry, arguments=self._arguments, files=self._files
        )
        if len(self._proposals) == 1 and self._is_written(before, self._proposals[0]):
            self._proposals = ()
        self._choices.offer(
            [
                Choice(id=str(i), label=p.label, detail=p.detail)
                for i, p in enumerate(self._proposals)
            ]
        )
        self._composer.has_proposals = bool(self._proposals)

    def act(self, action: str) -> bool:
        """A list key was pressed; returns whether the text is ready to be sent as it is."""
        if action in ("previous", "next"):
            self._choices.move(-1 if action == "previous" else 1)
        elif action == "close":
            self.close()
        elif action == "complete":
            self._cycle()
        elif action == "choose":
            return self._choose()
        return False

    def close(self) -> None:
        self._proposals = ()
        self._put = None
        self._choices.offer(())
        self._composer.has_proposals = False

    def _chosen(self) -> Proposal | None:
        choice = self._choices.chosen
        return self._proposals[int(choice.id)] if choice else None

    def _choose(self) -> bool:
        """Enter: a command that is written out is sent, anything else is put in."""
        chosen = self._chosen()
        before = self._composer.before_cursor
        if chosen is None or (
            before.startswith("/")
            and self._registry.read(before.strip())
            and self._is_written(before, chosen)
        ):
            self.close()
            return True
        self._insert(chosen)
        self.close()
        return before.startswith("/") and not self._takes_arguments(chosen)

    def _cycle(self) -> None:
        """Tab: the first time the proposal itself, then the ones after it."""
        if self._put is not None:
            self._choices.move(1)
        chosen = self._chosen()
        if chosen is not None:
            self._insert(chosen)
            if len(self._proposals) == 1:
                self.close()

    def _insert(self, proposal: Proposal) -> None:
        written = self._put[1] if self._put is not None else proposal.replaces
        before = self._composer.before_cursor
        self._put = (before[: len(before) - written] + proposal.insert, len(proposal.insert))
        self._composer.replace_before(written, proposal.insert)

    def _is_written(self, before: str, proposal: Proposal) -> bool:
        return before.endswith(proposal.insert.rstrip())

    def _takes_arguments(self, proposal: Proposal) -> bool:
        command = self._registry.find(proposal.label.removeprefix("/"))
        return command is None or bool(command.usage and not command.usage.startswith("["))

    def _arguments(self, name: str) -> Sequence[str]:
        command, conversation = self._registry.find(name), self._conversation()
        if command is None or command.complete is None or conversation is None:
            return ()
        return command.complete(conversation)

    def _want_files(self) -> None:
        is_fresh = self._files and time.monotonic() - self._files_at < _FILES_KEPT_S
        conversation = self._conversation()
        if is_fresh or conversation is None or self._listing is not None:
            return
        self._listing = asyncio.get_running_loop().create_task(self._list(conversation.cwd))

    async def _list(self, root: Path) -> None:
        try:
            self._files = await asyncio.to_thread(_list_files, root)
        finally:
            self._files_at = time.monotonic()
            self._listing = None
        if wants_files(self._composer.before_cursor):
            self.look()


def _list_files(root: Path) -> Sequence[str]:
    # Imported by the first `@`: reading .gitignore files is not needed to show an empty input.
    files = importlib.import_module("dirge_py.ui.prompt.files")
    found: Sequence[str] = files.list_files(root)
    return found
