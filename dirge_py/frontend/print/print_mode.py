"""`dirge --print`: run a prompt, print what came of it, and leave with its exit code."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeAlias

from dirge_py.conversation.conversation import Conversation
from dirge_py.frontend.print.command import print_command
from dirge_py.frontend.print.printer import Printer, PrintOptions, complain
from dirge_py.frontend.print.prompt import Prompt, message_of
from dirge_py.frontend.print.stdin import BadLine, user_lines
from dirge_py.frontend.print.stopping import stoppable
from dirge_py.frontend.print.writer import Stdout
from dirge_py.slash.registry import Registry
from dirge_py.types.errors import UsageError
from dirge_py.types.messages import UserMessage

Line: TypeAlias = UserMessage | BadLine


async def print_prompt(printer: Printer, prompt: Prompt) -> int:
    """Run a prompt: a command, or a message with its attachments."""
    text = prompt.text
    typed = printer.commands.read(text) if prompt.is_typed else None
    if typed is not None and typed.command is not None:
        if printer.options.answer is not None and typed.command.name != "continue":
            raise UsageError(
                f"--json-schema goes with a prompt, not with the command /{typed.name}.",
                hint="`//` begins a prompt with a slash.",
            )
        if not typed.command.headless:
            raise UsageError(
                f"/{typed.name} needs the terminal UI.", hint="`//` begins a prompt with a slash."
            )
        return await print_command(printer, replace(typed, args=prompt.arguments(typed)))
    if prompt.is_typed and text.startswith("//"):
        text = text[1:]
    message = await message_of(printer.conversation, text, prompt)
    return await stoppable(printer, printer.run(message))


async def print_stream(printer: Printer) -> int:
    """Run the messages that come as JSON lines; one that comes during a run steers it."""
    return await stoppable(printer, _stream(printer))


async def _stream(printer: Printer) -> int:
    conversation = printer.conversation
    exit_code, had_bad_line = 0, False
    task: asyncio.Task[int] | None = None
    async for line in _until(printer.stopped, user_lines()):
        if isinstance(line, BadLine):
            complain(f"a line of stdin was skipped: {line}.")
            had_bad_line = True
        elif conversation.is_running:
            conversation.steer(line)
        else:
            if task is not None:
                exit_code = max(exit_code, await task)
            task = asyncio.ensure_future(printer.run(line))
            # Let the run begin, so that the next line steers it.
            await asyncio.sleep(0)
    if task is not None:
        exit_code = max(exit_code, await task)
    elif not had_bad_line:
        raise UsageError("no message came on stdin.", hint="See --input-format in `dirge --help`.")
    for left in conversation.take_back():
        complain(f"not delivered: {left.message.text}")
    return exit_code or (1 if had_bad_line else 0)


async def _until(stopped: asyncio.Event, lines: AsyncGenerator[Line, None]) -> AsyncIterator[Line]:
    """`lines`, until they or everything ends."""
    stop = asyncio.ensure_future(stopped.wait())
    following: asyncio.Future[Line | None] | None = None
    try:
        while not stop.done():
            following = asyncio.ensure_future(anext(lines, None))
            await asyncio.wait({following, stop}, return_when=asyncio.FIRST_COMPLETED)
            line = following.result() if following.done() else None
            if line is None:
                return
            yield line
    finally:
        stop.cancel()
        if following is not None:
            following.cancel()
            await asyncio.wait({following})
        await lines.aclose()


def _complete(exit_code: int, stdout: Stdout) -> int:
    """The exit code, never 0 when the answer did not get out."""
    if stdout.failure:
        complain(f"the output could not be written: {stdout.failure}.")
        return exit_code or 1
    return exit_code


def print_all(
    open_conversation: Callable[[], Conversation],
    work: Callable[[Printer], Coroutine[Any, Any, int]],
    *,
    options: PrintOptions,
    commands: Registry,
) -> int:
    """Do the work with a conversation and a printer of its own; returns the exit code."""

    async def main() -> int:
        conversation = open_conversation()
        try:
            for notice in conversation.notices:
                complain(notice)
            printer = Printer(conversation, options, commands)
            exit_code = await work(printer)
            printer.end_lines()
            return _complete(exit_code, printer.stdout)
        finally:
            await conversation.close()

    return asyncio.run(main())
