"""`/doctor` and `/terminal-setup`: what keeps dirge from working well here, and mending it."""

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.app import SuspendNotSupported

from dirge_py.lib.lazy import late
from dirge_py.slash.base import FrontEnd
from dirge_py.types.extensions import Command
from dirge_py.types.questions import Question, QuestionOption
from dirge_py.ui.front import TuiFront

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.sdk.doctor.asking import TerminalAnswers, ask_terminal
    from dirge_py.sdk.doctor.examine import examine
    from dirge_py.sdk.doctor.findings import Finding, as_text
    from dirge_py.sdk.doctor.terminal import is_simple
    from dirge_py.sdk.doctor.tmux import append_lines, missing_lines
    from dirge_py.ui.app import DirgeApp
    from dirge_py.ui.key_checks import key_problems
else:
    ask_terminal = late("dirge_py.sdk.doctor.asking", "ask_terminal")
    examine = late("dirge_py.sdk.doctor.examine", "examine")
    as_text = late("dirge_py.sdk.doctor.findings", "as_text")
    is_simple = late("dirge_py.sdk.doctor.terminal", "is_simple")
    append_lines = late("dirge_py.sdk.doctor.tmux", "append_lines")
    missing_lines = late("dirge_py.sdk.doctor.tmux", "missing_lines")
    key_problems = late("dirge_py.ui.key_checks", "key_problems")

_OF_THE_TERMINAL = frozenset(
    (
        *("terminal", "size", "locale", "colours", "screen", "vte", "answers", "keys", "widths"),
        *("synchronized output", "focus reports", "bracketed paste", "clipboard"),
    )
)
_YES = "Append them"


async def doctor(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    assert isinstance(front, TuiFront)
    found = await _examined(front.app, conversation.cwd)
    broken = any(finding.state == "problem" for finding in found)
    front.show(as_text(found), tone="warning" if broken else "plain")


async def terminal_setup(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    assert isinstance(front, TuiFront)
    found = await _examined(front.app, conversation.cwd, is_offline=True)
    lines = missing_lines(found)
    others = [f for f in found if f.fix and not f.tmux_line and f.name in _OF_THE_TERMINAL]
    told = [f"{finding.name}: {finding.words}\n  {finding.fix}" for finding in others]
    if lines:
        told.append("\n".join(["These lines belong into ~/.tmux.conf:", *lines]))
    front.show("\n".join(told) or "Nothing has to be set up in this terminal.")
    if lines and await _agrees(front):
        copy = append_lines(lines, Path.home())
        kept = f" What was there before is in {copy}." if copy else ""
        now = "`tmux source-file ~/.tmux.conf` puts it in force."
        front.show(f"Appended to ~/.tmux.conf. {now}{kept}", tone="good")


async def _agrees(front: FrontEnd) -> bool:
    question = Question(
        question="Append these lines to ~/.tmux.conf? A copy of the file is kept.",
        header="tmux",
        options=(QuestionOption(label="Leave it as it is"), QuestionOption(label=_YES)),
        is_open=False,
    )
    answers = await front.form([question])
    return answers is not None and [answer.chosen for answer in answers] == [(_YES,)]


async def _examined(app: "DirgeApp", cwd: Path, *, is_offline: bool = False) -> "list[Finding]":
    answers = await _answers(app)
    size = (app.size.width, app.size.height)
    options: dict[str, Any] = {"cwd": cwd, "size": size, "key_problems": key_problems}
    options["is_offline"] = is_offline
    return await asyncio.to_thread(lambda: examine(answers, **options))


async def _answers(app: "DirgeApp") -> "TerminalAnswers | None":
    """Ask while the screen is handed over: its own reader would take the answers for keys."""
    app.is_handed_over = True
    try:
        with app.batch_update(), app.suspend():
            assert sys.__stdin__ is not None and sys.__stderr__ is not None
            simple = is_simple(os.environ)
            return ask_terminal(sys.__stdin__.fileno(), sys.__stderr__.fileno(), is_simple=simple)
    except (SuspendNotSupported, OSError):
        return None
    finally:
        await app.take_back()


COMMANDS = (
    Command(name="doctor", summary="what does not work well here, and its fix", run=doctor),
    Command(
        name="terminal-setup",
        summary="what to change in this terminal or in tmux; asks before it writes",
        run=terminal_setup,
    ),
)
