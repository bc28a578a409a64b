"""A REPL whose lines are edited at the terminal, which loads prompt_toolkit for it."""

from contextlib import ExitStack
from typing import Any

from dirge_py.frontend.line.completing import LineCompleter
from dirge_py.frontend.line.editor import TerminalLines
from dirge_py.frontend.line.paper import Paper
from dirge_py.frontend.line.repl import Repl
from dirge_py.frontend.line.start import LineStart


def edited(start: LineStart, opened: ExitStack, **options: Any) -> Repl:
    """The REPL; its terminal is open until `opened` is closed. `options` are of `TerminalLines`."""
    lines: list[TerminalLines] = []

    def make(repl: Repl) -> TerminalLines:
        made = TerminalLines(
            label=lambda: repl.label,
            interrupt=repl.interrupt,
            completer=LineCompleter(repl.commands, lambda: repl.talk.conversation),
            **options,
        )
        lines.append(opened.enter_context(made))
        return made

    paper = Paper(lambda text: lines[0].write(text), columns=lambda: lines[0].columns)
    return Repl(start, paper, make, has_keys=True)
