"""The line editor at a terminal. No other module imports prompt_toolkit."""

import asyncio
import contextvars
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.application import Application, create_app_session, run_in_terminal
from prompt_toolkit.application.current import get_app_or_none
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.input.typeahead import get_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.shortcuts import CompleteStyle

from dirge_py.conversation.conversation import Conversation
from dirge_py.frontend.line.streams import AnswerInterrupted
from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.text import clean
from dirge_py.slash.registry import Registry

_SET_ASIDE = "\0set aside"
_INTERRUPTED = "\0interrupted"
_BETWEEN_WRITES_S = 0.05
"""The time between two writes, each of which erases the line and draws it again."""
_FILE_WORD = late_pattern(r"(?:^|(?<=\s))@(\S*)\Z")
_COMMAND_WORD = late_pattern(r"\A/([^\s/]*)\Z")
_ARGUMENT = late_pattern(r"\A/(\S+)\s+(.*)\Z", re.DOTALL)
_MOST = 100


class TerminalLines:
    """As `PlainLines`, but edits lines at a terminal, which it controls while the context is open.

    `label` returns the text before the line at each redraw. `interrupt` is called for Ctrl+C on an
    empty line. `commands` and `conversation` are for completion.
    """

    is_script = False

    def __init__(
        self,
        *,
        label: Callable[[], str],
        interrupt: Callable[[], object],
        commands: Registry,
        conversation: Callable[[], Conversation | None],
        input: Input | None = None,  # noqa: A002 - prompt_toolkit's word
        output: Output | None = None,
    ) -> None:
        self._interrupt = interrupt
        self._input = input or create_input()
        self._output = output or _plain_output()
        self._history = InMemoryHistory()
        self._open = ExitStack()
        self._label = label
        self._completer = LineCompleter(commands, conversation)
        self._draft = ""
        self._is_open = True
        self._is_free = asyncio.Event()
        self._is_free.set()
        self._one_at_a_time = asyncio.Lock()
        self._is_answering = False
        self.has_set_aside = False
        self._session: PromptSession[str] | None = None

    def __enter__(self) -> "TerminalLines":
        self._open.enter_context(create_app_session(input=self._input, output=self._output))
        self._session = PromptSession(
            history=self._history,
            completer=self._completer,
            complete_while_typing=False,
            complete_style=CompleteStyle.READLINE_LIKE,
            multiline=True,
            key_bindings=self._keys(),
            enable_suspend=True,
            color_depth=ColorDepth.DEPTH_1_BIT,
            include_default_pygments_style=False,
            prompt_continuation="  ",
        )
        self._above = _Above(self._output)
        self._open.callback(self._above.flush)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def write(self, text: str) -> None:
        """Print above the line."""
        self._above.write(text)

    @property
    def is_gone(self) -> bool:
        return isinstance(self._output, _Terminal) and self._output.is_gone

    @property
    def columns(self) -> int:
        return self._output.get_size().columns

    async def line(self) -> str | None:
        while self._is_open:
            await self._is_free.wait()
            draft, self._draft = self._draft, ""
            text = await self._prompt(self._label, draft)
            if text is None or text == _INTERRUPTED:
                return None
            if text != _SET_ASIDE:
                self.remember([text])
                return text
        return None

    async def answer(self, label: str) -> str | None:
        before = self._draft
        self._is_free.clear()
        self._end(_SET_ASIDE)
        try:
            async with self._one_at_a_time:
                # Unprocessed keys that came with the last ones must not answer the question.
                ahead = (key.data for key in get_typeahead(self._input))
                self._draft += "".join(text for text in ahead if text.isprintable())
            self.has_set_aside = len(self._draft) > len(before)
            text = await self._prompt(lambda: label, "", is_answer=True)
        finally:
            self._is_free.set()
        if text == _INTERRUPTED:
            raise AnswerInterrupted
        return None if text == _SET_ASIDE else text

    def remember(self, prompts: Iterable[str]) -> None:
        """Offer earlier prompts, oldest first."""
        for prompt in prompts:
            if prompt.strip() and self._history.get_strings()[-1:] != [prompt]:
                self._history.append_string(prompt)

    def put(self, text: str) -> None:
        """Insert `text` at the beginning of the input."""
        app = self._app
        if app is None or not self._is_free.is_set():
            self._draft = _joined(text, self._draft)
            return
        app.current_buffer.text = _joined(text, app.current_buffer.text)
        app.current_buffer.cursor_position = len(app.current_buffer.text)

    put_back = put

    @property
    def draft(self) -> str:
        app = self._app
        return app.current_buffer.text if app and self._is_free.is_set() else self._draft

    @property
    def is_asking(self) -> bool:
        """Whether the current input answers a question."""
        return self._app is not None and self._is_answering

    def refresh(self) -> None:
        if self._app is not None:
            self._app.invalidate()

    def stop(self) -> None:
        self._is_open = False
        self._end(_SET_ASIDE)

    @property
    def _app(self) -> Application[Any] | None:
        app = self._session.app if self._session is not None else None
        return app if app and app.is_running and not app.is_done else None

    def _end(self, result: str) -> None:
        """End the open line; its text becomes the draft, unless it answers a question."""
        app = self._app
        if app is not None:
            if not self._is_answering:
                self._draft = _joined(self._draft, app.current_buffer.text)
            app.current_buffer.reset()
            app.erase_when_done = True
            app.exit(result=result)

    async def _prompt(
        self, label: Callable[[], str], default: str, *, is_answer: bool = False
    ) -> str | None:
        assert self._session is not None
        is_abandoned = False

        def begun() -> None:
            # It may have ended before it began.
            if is_abandoned or not self._is_open or not (is_answer or self._is_free.is_set()):
                self._end(_SET_ASIDE)

        async with self._one_at_a_time:
            self._above.flush()
            self._session.app.erase_when_done = False
            self._is_answering = is_answer
            prompt = self._session.prompt_async(
                label,
                default=default,
                pre_run=begun,
                set_exception_handler=False,
                handle_sigint=False,
            )
            task = asyncio.ensure_future(prompt)
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError:
                is_abandoned = True
                self._end(_SET_ASIDE)
                await asyncio.wait({task})
                raise
            finally:
                self._is_answering = False
        try:
            return task.result()
        except EOFError:
            return None

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("enter")
        def _(event: KeyPressEvent) -> None:
            # Don't let the buffer accept it, which would add answers to the prompt history.
            event.app.exit(result=event.current_buffer.text)

        @keys.add("escape", "enter")
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("c-c")
        def _(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            if not self._is_free.is_set():
                event.app.exit(result=_INTERRUPTED)
            elif buffer.text:
                self.remember([buffer.text])
                buffer.reset()
            else:
                self._interrupt()

        return keys


def _joined(first: str, second: str) -> str:
    return "\n".join(part for part in (first, second) if part)


class _Above:
    """Prints above the edited line, many pieces at once. `flush` prints what is pending."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._pieces: list[str] = []
        self._timer: asyncio.TimerHandle | None = None
        # The writer may run in another context, in which no line is edited.
        self._context = contextvars.copy_context()

    def write(self, text: str) -> None:
        self._pieces.append(text)
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(_BETWEEN_WRITES_S, self._print, context=self._context)

    def flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._context.run(self._print)

    def _print(self) -> None:
        self._timer = None
        text, self._pieces = "".join(self._pieces), []
        app = get_app_or_none()

        def write() -> None:
            self._output.enable_autowrap()
            self._output.write(text)
            self._output.flush()

        if app is not None and app.is_running:
            run_in_terminal(write)
        else:
            write()


class _Terminal(Vt100_Output):
    """An output that ignores writes once the terminal is gone."""

    is_gone = False

    def flush(self) -> None:
        try:
            super().flush()
        except OSError:
            self.is_gone = True


def _plain_output() -> Output:
    """An output without colours, and without requests for the cursor position."""
    plain = ColorDepth.DEPTH_1_BIT
    output = _Terminal.from_pty(sys.stdout, os.environ.get("TERM"), default_color_depth=plain)
    output.enable_cpr = False
    return output


class LineCompleter(Completer):
    """Completes commands, their arguments, and @files: reads one folder at a time."""

    def __init__(self, registry: Registry, conversation: Callable[[], Conversation | None]) -> None:
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
            command, conversation = self._registry.find(match[1]), self._conversation()
            if command is None or command.complete is None or conversation is None:
                return
            for word in list(command.complete(conversation))[:_MOST]:
                if word.startswith(match[2]):
                    yield Completion(word, -len(match[2]), clean(word))

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
