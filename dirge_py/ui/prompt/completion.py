"""Completion of commands, their arguments and files while typing, in a list above the input."""

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dirge_py.frontend.controller import ChatController
from dirge_py.lib.lazy import late_pattern
from dirge_py.slash.base import Choice
from dirge_py.slash.registry import Registry
from dirge_py.ui.keymap import Keymap
from dirge_py.ui.panels.choices import ChoiceList
from dirge_py.ui.panels.dialog import KeyHint
from dirge_py.ui.prompt.composer import Composer
from dirge_py.ui.prompt.file_index import FileIndex, FileMatcher, TouchedFiles

_MOST = 50
_FILE_WORD = late_pattern(r"(?:^|(?<=\s))@(\S*)\Z")
_COMMAND_WORD = late_pattern(r"\A/(\S*)\Z")
_ARGUMENT = late_pattern(r"\A/(\S+)\s+(.*)\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Completion:
    """One proposal."""

    label: str
    insert: str
    """The inserted text."""
    replaces: int
    """Characters before the cursor that it replaces."""
    detail: str = ""
    """The summary of a command."""
    is_path: bool = False
    """A blank follows it."""
    is_guess: bool = False
    """Nothing begins with the typed text, so Enter only inserts it."""


def complete(
    before: str,
    *,
    registry: Registry,
    arguments: Callable[[str], Sequence[str]],
    files: Sequence[str],
) -> Sequence[Completion]:
    """Return proposals for the text before the cursor, best first; `files` are matching paths."""
    if before.startswith("!"):
        return ()
    if match := _COMMAND_WORD.match(before):
        typed = match[1]
        known = registry.complete(typed) if "/" not in typed else ()
        guess = not registry.begins(typed)
        # Behind a blank the arguments would be offered, and a second Enter would choose one.
        end = "" if guess else " "
        return [
            Completion(f"/{name}", f"/{name}{end}", len(typed) + 1, summary, is_guess=guess)
            for name, summary in known
        ]
    if match := _FILE_WORD.search(before):
        mentions = [(path, f'@"{path}"' if " " in path else f"@{path}") for path in files]
        replaces = len(match[1]) + 1
        return [Completion(path, text, replaces, is_path=True) for path, text in mentions]
    if match := _ARGUMENT.match(before):
        typed = match[2]
        fitting = [word for word in arguments(match[1]) if word.startswith(typed)]
        # A complete word comes first, so that Enter sends it even if longer words match.
        fitting.sort(key=lambda word: word != typed)
        return [Completion(word, word, len(typed)) for word in fitting[:_MOST]]
    return ()


def file_query(before: str) -> str | None:
    """Return the text behind the `@` before the cursor; None without an `@`."""
    match = None if before.startswith("!") else _FILE_WORD.search(before)
    return match[1] if match is not None else None


_MOVE: KeyHint = ("↑↓: move", "↑↓: move")
_SLICE_S = 0.004
"""Seconds of matching files before other events are handled."""


class Completer:
    """Connects a `Composer` with a `ChoiceList`."""

    def __init__(
        self,
        composer: Composer,
        choices: ChoiceList,
        registry: Registry,
        controller: ChatController,
        keymap: Keymap,
    ) -> None:
        self._composer, self._choices, self._keymap = composer, choices, keymap
        self._registry, self._controller = registry, controller
        self._proposals: Sequence[Completion] = ()
        self._index = FileIndex(self._on_files_changed)
        self._touched = TouchedFiles()
        self._matching: FileMatcher | None = None
        self._slices: asyncio.Task[None] | None = None
        self._put: tuple[str, int] | None = None
        self._seen = (False, "")

    def update(self) -> None:
        """Update the proposals for the text before the cursor, unless it is the same as before.

        A typed character changes the text and moves the cursor, and both call this.
        """
        seen = (self._composer.may_propose, self._composer.before_cursor)
        if seen != self._seen:
            self._seen = seen
            self._propose()

    def _propose(self) -> None:
        if not self._composer.may_propose:
            self.close()
            return
        before = self._composer.before_cursor
        if self._put is not None and before == self._put[0]:
            return
        self._put = None
        if self._match(before):
            self._offer(before)

    def _offer(self, before: str) -> None:
        matching = self._matching
        files, arguments = matching.best() if matching is not None else (), self._arguments
        self._proposals = complete(
            before, registry=self._registry, arguments=arguments, files=files
        )
        if len(self._proposals) == 1 and self._is_written(before, self._proposals[0]):
            self._proposals = ()
        pairs = enumerate(self._proposals)
        self._choices.keys = self._key_hints()
        self._choices.offer([Choice(id=str(i), label=p.label, detail=p.detail) for i, p in pairs])
        self._composer.has_proposals = bool(self._proposals)

    def _key_hints(self) -> Sequence[KeyHint]:
        name = self._keymap.name_of
        words = {"complete": "complete", "choose": "choose", "close": "close"}
        return [*((f"{name('list', each)}: {words[each]}",) * 2 for each in words), _MOVE]

    def act(self, action: str) -> bool:
        """Handle a key of the list; return whether the text can be sent."""
        self._finish_matching()
        if action in ("previous", "next"):
            self._choices.move(-1 if action == "previous" else 1)
        elif action == "close":
            self.close()
        elif action == "complete":
            self._cycle()
        elif action == "choose":
            return self._choose()
        return False

    def stop(self) -> None:
        """Stop watching files."""
        self.close()
        self._index.stop()

    def close(self) -> None:
        self._stop_matching()
        self._proposals = ()
        self._put = None
        self._choices.offer(())
        self._composer.has_proposals = False

    def _chosen(self) -> Completion | None:
        choice = self._choices.chosen
        return self._proposals[int(choice.id)] if choice else None

    def _choose(self) -> bool:
        """Insert the proposal; return whether the text is a complete command."""
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
        command = self._registry.find(chosen.label.removeprefix("/"))
        needs_arguments = command is None or (command.usage and not command.usage.startswith("["))
        return before.startswith("/") and not needs_arguments and not chosen.is_guess

    def _cycle(self) -> None:
        """Insert the proposal, at a further Tab the next one; a folder opens."""
        if self._put is not None:
            self._choices.move(1)
        chosen = self._chosen()
        if chosen is None:
            return
        if chosen.is_path and chosen.insert.endswith("/") and self._put is None:
            self._composer.replace_before(chosen.replaces, chosen.insert)
            return
        self._insert(chosen)
        if len(self._proposals) == 1:
            self.close()

    def _insert(self, proposal: Completion) -> None:
        written = self._put[1] if self._put is not None else proposal.replaces
        before, text = self._composer.before_cursor, proposal.insert + " " * proposal.is_path
        self._put = (before[: len(before) - written] + text, len(text))
        self._composer.replace_before(written, text)

    def _is_written(self, before: str, proposal: Completion) -> bool:
        return before.endswith(proposal.insert.rstrip())

    def _arguments(self, name: str) -> Sequence[str]:
        command, conversation = self._registry.find(name), self._controller.conversation
        if command is None or command.complete is None or conversation is None:
            return ()
        return command.complete(conversation)

    def _match(self, before: str) -> bool:
        """Start matching files; return whether that is done already."""
        query, conversation = file_query(before), self._controller.conversation
        self._stop_matching()
        if query is None or conversation is None:
            self._matching = None
            return True
        self._index.want(conversation.cwd)
        files, touched = self._index.files, self._touched.paths(conversation)
        self._matching = FileMatcher(query, files, touched=touched, before=self._matching)
        if self._matching.work(_SLICE_S):
            return True
        self._slices = asyncio.get_running_loop().create_task(self._work(self._matching, before))
        return False

    async def _work(self, matching: FileMatcher, before: str) -> None:
        is_done = False
        while not is_done:
            await asyncio.sleep(0)
            is_done = matching.work(_SLICE_S)
        self._slices = None
        if self._composer.before_cursor == before:
            self._offer(before)

    def _finish_matching(self) -> None:
        if self._slices is not None and self._matching is not None:
            self._stop_matching()
            self._matching.work()
            self._offer(self._composer.before_cursor)

    def _stop_matching(self) -> None:
        if self._slices is not None:
            self._slices.cancel()
            self._slices = None

    def _on_files_changed(self) -> None:
        if self._put is None and file_query(self._composer.before_cursor) is not None:
            self._propose()
