"""Lines typed at a terminal: edited with prompt_toolkit, what is said meanwhile printed above."""

import asyncio
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.application import Application, create_app_session
from prompt_toolkit.completion import Completer
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.input.typeahead import get_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.patch_stdout import StdoutProxy
from prompt_toolkit.shortcuts import CompleteStyle

from dirge_py.line.source import Interrupted

_SET_ASIDE = "\0set aside"
_INTERRUPTED = "\0interrupted"
_BETWEEN_WRITES_S = 0.1


class TerminalLines:
    """A `LineSource` at a terminal. A context: while it is open, stdout is printed above the line.

    `label` is what stands before the line, asked for at each drawing. `interrupt` is called for a
    Ctrl+C on an empty line; it says whether to leave.
    """

    is_script = False

    def __init__(
        self,
        *,
        label: Callable[[], str],
        interrupt: Callable[[], bool],
        completer: Completer,
        earlier: Iterable[str] = (),
        input: Input | None = None,  # noqa: A002 - prompt_toolkit's word
        output: Output | None = None,
    ) -> None:
        self._interrupt = interrupt
        self._input = input or create_input()
        # No questions to the terminal about its cursor, and no colours: neither is needed here.
        self._output = output or Vt100_Output.from_pty(
            sys.stdout, default_color_depth=ColorDepth.DEPTH_1_BIT, enable_cpr=False
        )
        self._history = InMemoryHistory()
        for prompt in earlier:
            self._history.append_string(prompt)
        self._open = ExitStack()
        self._label = label
        self._completer = completer
        self._draft = ""
        self._is_open = True
        self._is_free = asyncio.Event()
        self._is_free.set()
        self._one_at_a_time = asyncio.Lock()
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
            enable_history_search=False,
            enable_suspend=True,
            color_depth=ColorDepth.DEPTH_1_BIT,
            include_default_pygments_style=False,
            prompt_continuation="  ",
        )
        self._proxy = self._open.enter_context(StdoutProxy(_BETWEEN_WRITES_S))
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def proxy(self) -> StdoutProxy:
        """What to write to so that it is printed above the line."""
        return self._proxy

    @property
    def columns(self) -> int:
        return self._output.get_size().columns

    # -- LineSource

    async def line(self) -> str | None:
        while self._is_open:
            await self._is_free.wait()
            draft, self._draft = self._draft, ""
            text = await self._prompt(self._label, draft)
            if text is None or text == _INTERRUPTED:
                return None
            if text != _SET_ASIDE:
                if text.strip():
                    self._history.append_string(text)
                return text
        return None

    async def answer(self, label: str) -> str | None:
        self._is_free.clear()
        self._end(_SET_ASIDE)
        try:
            async with self._one_at_a_time:
                self._draft += self._typed_ahead()
            text = await self._prompt(lambda: label, "")
        finally:
            self._is_free.set()
        if text == _INTERRUPTED:
            raise Interrupted
        return None if text == _SET_ASIDE else text

    def put_back(self, line: str) -> None:
        self.put(line)

    def put(self, text: str) -> None:
        app = self._app
        if app is None or not self._is_free.is_set():
            self._draft = _joined(text, self._draft)
            return
        app.current_buffer.text = _joined(text, app.current_buffer.text)
        app.current_buffer.cursor_position = len(app.current_buffer.text)

    @property
    def draft(self) -> str:
        app = self._app
        is_prompt = app is not None and self._is_free.is_set()
        return app.current_buffer.text if app is not None and is_prompt else self._draft

    def refresh(self) -> None:
        if self._app is not None:
            self._app.invalidate()

    def stop(self) -> None:
        self._draft = self.draft
        self._is_open = False
        self._end(_SET_ASIDE)

    # -- inside

    @property
    def _app(self) -> Application[Any] | None:
        app = self._session.app if self._session is not None else None
        return app if app is not None and app.is_running and not app.is_done else None

    def _end(self, result: str) -> None:
        """End the prompt that is open; what was typed in it becomes the draft."""
        app = self._app
        if app is not None:
            self._draft = _joined(self._draft, app.current_buffer.text)
            app.current_buffer.reset()
            app.exit(result=result)

    async def _prompt(self, label: Callable[[], str], default: str) -> str | None:
        assert self._session is not None
        if not self._is_open:
            return None
        async with self._one_at_a_time:
            task = asyncio.ensure_future(
                self._session.prompt_async(
                    label,
                    default=default,
                    set_exception_handler=False,
                    handle_sigint=False,
                )
            )
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError:
                self._draft_of_nobody()
                await asyncio.wait({task})
                raise
        try:
            return task.result()
        except EOFError:
            return None

    def _draft_of_nobody(self) -> None:
        """A question was taken down: what was being answered is no draft."""
        app = self._app
        if app is not None:
            app.current_buffer.reset()
            app.exit(result=_SET_ASIDE)

    def _typed_ahead(self) -> str:
        """Keys that came with the last ones and were not looked at: they answer nothing."""
        return "".join(key.data for key in get_typeahead(self._input) if key.data.isprintable())

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("enter")
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.validate_and_handle()

        @keys.add("escape", "enter")
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("c-c")
        def _(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            if not self._is_free.is_set():
                event.app.exit(result=_INTERRUPTED)
            elif buffer.text:
                self._history.append_string(buffer.text)
                buffer.reset()
            elif self._interrupt():
                event.app.exit(result=_INTERRUPTED)

        return keys


def _joined(first: str, second: str) -> str:
    return "\n".join(part for part in (first, second) if part)
