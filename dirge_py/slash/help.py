"""`/help`, `/quit`, `/release-notes` and `/feedback`: usage, what is new, problem reports."""

import asyncio
import json
import os
import platform
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import TYPE_CHECKING

from dirge_py.config.paths import state_dir
from dirge_py.lib import version
from dirge_py.lib.lazy import late
from dirge_py.lib.redaction import Redactor
from dirge_py.lib.text import clean
from dirge_py.lib.version import __version__
from dirge_py.sdk.doctor.report import as_text
from dirge_py.session.import_export.export import write_new_file
from dirge_py.slash.base import FrontEnd, command
from dirge_py.slash.settings import changed_lines
from dirge_py.types.errors import DirgeError, UsageError
from dirge_py.types.extensions import Command

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.sdk.doctor.checks import examine
else:
    examine = late("dirge_py.sdk.doctor.checks", "examine")


_WIDEST_LEFT = 22
_PACKAGE = Path(version.__file__).parents[1]
_PLACES = (_PACKAGE / "CHANGELOG.md", _PACKAGE.parent / "CHANGELOG.md")
"""Where the changelog is: in an installed package, and in a checkout."""
_TERMINAL = ("TERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "COLORTERM", "LANG", "LC_ALL", "TMUX")
_LOGGED = ("WARNING", "ERROR", "CRITICAL")
_MOST_ERRORS = 20
_HELP_END = (
    "@path attaches a file, a folder, an image or a PDF. To send a prompt that starts with /, "
    "start it with //."
)
_READ_BYTES = 1_000_000
_GROUPS = {
    "Every day": "help clear model mode compact undo rewind sessions diff copy plan cost quit",
    "Sessions": "rename retry redo fork clone tree search recall export cd add-dir",
    "Runs": "continue step stop btw goal todos tasks",
    "Permissions": "allow why",
    "Context and memory": "context init memory remember prompt effort",
    "Cost and limits": "stats cache limits",
    "Screen and keys": "theme vim keybindings reasoning panel display pager edit redraw",
    "Settings and problems": "config status doctor terminal-setup release-notes feedback",
    "Extending dirge": "plugins tools hooks",
}
"""The commands by what they are for. Those of plugins follow."""


@command(
    "help",
    "list commands and keys; /help WORD: those that match",
    aliases=("commands",),
    headless=True,
)
async def show_help(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    if args:
        front.show("\n".join(_aligned(_matching(args.removeprefix("/"), front.commands))))
        return
    tables = {**_grouped(front.commands), "Your aliases": front.commands.own_names}
    tables["Keys"] = front.keys
    parts = ["\n".join([title, *_aligned(table)]) for title, table in tables.items() if table]
    front.show("\n\n".join([*parts, _HELP_END]))


def _grouped(commands: Iterable[Command]) -> dict[str, list[tuple[str, str]]]:
    """The commands by what they are for, those for every day first; others are under More."""
    known = {each.name: each for each in commands}
    groups: dict[str, list[tuple[str, str]]] = {}
    for title, names in _GROUPS.items():
        groups[title] = [_row(known.pop(name)) for name in names.split() if name in known]
    groups["More"] = [_row(each) for each in known.values()]
    return groups


def _row(each: Command) -> tuple[str, str]:
    also = f" (also {', '.join(f'/{name}' for name in each.aliases)})" if each.aliases else ""
    return f"/{each.name} {each.usage}".rstrip(), f"{each.summary}{also}"


def _matching(word: str, commands: Iterable[Command]) -> list[tuple[str, str]]:
    """The command of that name or alias, else those that mention the word. Raises UsageError."""
    every = list(commands)
    named = [each for each in every if word in (each.name, *each.aliases)]
    rows = [_row(each) for each in named or every]
    found = rows if named else [row for row in rows if word.lower() in " ".join(row).lower()]
    if not found:
        raise UsageError(f"No command matches {word!r}.", hint="/help lists all of them.")
    return found


@command("quit", "quit; the session is kept", aliases=("exit", "q", ":q"))
async def quit_dirge(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    front.quit()


def _aligned(rows: Sequence[tuple[str, str]]) -> list[str]:
    """Rows in two columns; a left cell that is too long gets its own line."""
    width = min(_WIDEST_LEFT, max(len(left) for left, _ in rows))
    lines: list[str] = []
    for left, right in rows:
        if len(left) > width:
            lines.append(f"  {left}")
            left = ""
        lines.append(f"  {left:<{width}}  {right}")
    return lines


@command("release-notes", "show what is new in this version", aliases=("changelog",), headless=True)
async def release_notes(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    text = next((p.read_text(encoding="utf-8") for p in _PLACES if p.is_file()), "")
    if not text:
        raise UsageError("This installation has no changelog.", hint="The project page has it.")
    front.show(newest_notes(text))


def newest_notes(changelog: str) -> str:
    """The section of the newest version, or of unreleased changes, with its heading."""
    sections = (part.strip() for part in changelog.split("\n## ")[1:])
    newest = next((section for section in sections if "\n" in section), None)
    if newest is None:
        return changelog.strip()
    # Join the lines of an entry: the screen wraps them to its width.
    text = re.sub(r"\n {2,}(?![-*] )(?=\S)", " ", newest)
    return f"dirge {version.__version__}\n\n{text}"


@command(
    "feedback",
    "write a problem report to a file, without secrets; nothing is sent",
    usage="[WHAT HAPPENED]",
    aliases=("bug",),
    headless=True,
)
async def feedback(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    # In a thread: the checks run programs, which may take a moment.
    findings = await asyncio.to_thread(_doctor_text, conversation.cwd)
    text = "\n".join(_report(args, conversation, front, findings)) + "\n"
    name = f"dirge-report-{datetime.now(UTC):%Y%m%d-%H%M%S}.md"
    path = write_new_file(conversation.cwd / name, _without_secrets(text), other_name=True)
    front.show(
        f"Wrote {path}. Nothing was sent, and it holds no messages of the session.\n"
        f"Read it, then attach it to an issue {_issues_page()}. Is it about what a model answered? "
        "`dirge --record FILE` records the requests and answers, without keys.",
        tone="good",
    )


def _issues_page() -> str:
    """Where to report problems, from the metadata of the installed package."""
    try:
        urls = metadata("dirge-py").get_all("Project-URL") or []
    except PackageNotFoundError:
        urls = []
    pages = dict(entry.split(", ", 1) for entry in urls if ", " in entry)
    named = (pages[name] for name in ("Issues", "Source", "Homepage") if name in pages)
    return next((f"at {page}" for page in named), "where you got dirge from")


def _doctor_text(cwd: Path) -> str:
    """What `dirge doctor` finds without its keyboard check."""
    try:
        return as_text(examine(None, cwd=cwd, size=None, key_problems=lambda config, kitty: ()))
    except DirgeError as error:
        return error.message


def _report(
    args: str, conversation: "Conversation", front: FrontEnd, findings: str
) -> Iterator[str]:
    settings = conversation.settings
    yield f"# A report about dirge\n\n{args or '(What happened, and what should have?)'}\n"
    yield "## Versions\n"
    yield f"- dirge {__version__}, Python {platform.python_version()}, {platform.platform()}"
    yield f"- model {settings.model}, thinking {settings.thinking}"
    yield f"- mode {settings.mode}, sandbox {conversation.environment.sandbox or 'none'}"
    for variable in _TERMINAL:
        if variable in os.environ:
            yield f"- {variable} {'set' if variable == 'TMUX' else os.environ[variable]}"
    try:
        changed = changed_lines(front)
    except DirgeError as error:
        changed = [error.message]
    failed = (m for m in conversation.messages if m.role == "assistant" and m.error_message)
    errors = [f"{m.error_kind or 'error'}: {m.error_message}" for m in failed]
    errors += _log_errors(state_dir() / "log" / "dirge.jsonl")
    for title, lines in (
        ("Settings", ["unknown"] if changed is None else changed),
        ("What `dirge doctor` finds", findings.splitlines()),
        ("Last errors", "\n".join(errors[-_MOST_ERRORS:] or ["none"]).splitlines()),
    ):
        yield f"\n## {title}\n"
        yield from (f"    {line}" for line in lines)


def _log_errors(file: Path) -> Iterator[str]:
    """The warnings and errors at the end of dirge's log file."""
    try:
        with file.open("rb") as log:
            log.seek(max(0, file.stat().st_size - _READ_BYTES))
            lines = log.read(_READ_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:
        return
    for line in lines:
        with suppress(ValueError):
            entry = json.loads(line)
            if isinstance(entry, dict) and entry.get("level") in _LOGGED:
                yield " ".join(str(entry.get(name, "")) for name in ("level", "logger", "text"))


def _without_secrets(text: str) -> str:
    """`text` without secrets and the name of the home folder."""
    names = ("KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL")
    known = [v for name, v in os.environ.items() if any(word in name.upper() for word in names)]
    home = os.path.expanduser("~")
    redacted: str = Redactor(known).redact(clean(text))
    return redacted.replace(home, "~") if len(home) > 1 else redacted
