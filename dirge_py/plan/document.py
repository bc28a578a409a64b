"""A plan as the planning model wrote it: its name, its steps and the commands that verify it."""

import re
from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.shell_lexer import HERE_DOCUMENT
from dirge_py.lib.text import one_line

_MAX_PLAN_CHARS = 100_000
_MAX_NAME_CHARS = 80
_MAX_STEP_CHARS = 400
_MAX_STEPS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDocument:
    """A plan; a field is empty if the text has nothing of the kind."""

    name: str
    """Its name."""
    steps: tuple[str, ...]
    """Its steps, one line each, without nested lines."""
    verify: tuple[str, ...]
    """The shell commands that verify it, in order, each as written."""
    text: str
    """The whole plan as it was written."""


_Section: TypeAlias = Literal["", "name", "steps", "verify", "other"]
_TITLES: tuple[tuple[_Section, re.Pattern[str]], ...] = (
    ("name", late_pattern(r"(?:plan )?(?:name|title)(?::.*)?\Z")),
    (
        "steps",
        late_pattern(r"(?:the |implementation |ordered )?(?:steps|tasks)(?: \(.*| to \w+)?\Z"),
    ),
    ("verify", late_pattern(r"verif|validat|how to (?:verify|test|check)|test(?:ing| plan)\b")),
    ("other", late_pattern(r"(?:context|architecture|files|risks|notes|overview|background)\b")),
)
_HEADING = late_pattern(r" {0,3}(#{1,6})[ \t]+(.*)")
_BOLD = late_pattern(r" {0,3}(?:\*\*|__)([^*_\n]{1,80}?):?(?:\*\*|__):?[ \t]*(.*)")
_BARE = late_pattern(
    r"(name|title|context|architecture|files|steps|verification|verify):[ \t]*(.*)", re.I
)
_ITEM = late_pattern(r"([ \t]*)(?:(\d{1,4})[.)]|[-*+])[ \t]+(\S.*)")
_NUMBER = late_pattern(
    r"(?:step[ \t]+)?\d{1,4}[ \t]*[.):—–-]*[ \t]+|step[ \t]+\d{1,4}[ \t]*[.):—–-]+", re.I
)
_BOX = late_pattern(r"\[[ xX]?\][ \t]+")
_WHOLE_FENCE = late_pattern(r"\s*```(?:markdown|md)[ \t]*\r?\n(?:(.*)\n)?[ \t]*```\s*", re.DOTALL)
"""Models like to put a fence around the whole plan."""
_FENCE = late_pattern(r"[ \t]*(`{3,}|~{3,})[ \t]*([^\s`]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """One line of a plan; code is never a heading."""

    text: str
    section: _Section
    level: int = 0
    """The level of a heading; 0 for other lines."""
    title: str = ""
    """The text of a heading."""
    is_code: bool = False
    """Whether it is in a fenced block, or a fence."""
    language: str | None = None
    """The language of the fenced block that begins here, "" if it names none; else None."""


def read_plan(text: str) -> PlanDocument:
    """Parse the first 100,000 characters of a plan."""
    lines = _read_lines(text[:_MAX_PLAN_CHARS])
    steps = _steps([line for line in lines if line.section == "steps"])
    if not steps:
        steps = _steps([line for line in lines if not line.section], only_numbered=True)
    verify = _commands_in([line for line in lines if line.section == "verify"])
    if not verify and steps:
        verify = _commands_in(steps[-1])
    texts = tuple(filter(None, map(_step_text, steps[:_MAX_STEPS])))
    return PlanDocument(name=_name(lines), steps=texts, verify=verify, text=text)


def _read_lines(text: str) -> list[_Line]:
    """Return the lines with their sections. A heading within a step belongs to the step."""
    whole = _WHOLE_FENCE.fullmatch(text)
    source = (whole[1] or "" if whole else text).split("\n")
    lines: list[_Line] = []
    section: _Section = ""
    depth = 0
    fence = ""
    for raw in source:
        line = raw.rstrip()
        mark = _FENCE.match(line)
        if mark and not fence:
            fence, language = mark[1], mark[2].casefold()
            lines.append(_Line(text=line, section=section, is_code=True, language=language))
            continue
        if fence:
            ends = bool(mark and mark[1].startswith(fence) and not line.strip().strip(fence[0]))
            lines.append(_Line(text="" if ends else line, section=section, is_code=True))
            fence = "" if ends else fence
            continue
        level, title, rest = _heading(line)
        if level:
            named = _section_of(title)
            if level <= depth or (named and section != "steps"):
                section, depth = named or "", level
        lines.append(_Line(text=rest if level else line, section=section, level=level, title=title))
    return lines


def _heading(line: str) -> tuple[int, str, str]:
    """Return the level, the title, and the rest of the line; level 0 if it is no heading.

    Bold text and a known word with a colon count as headings of the lowest level.
    """
    if len(line) > 500:
        return 0, "", ""
    if heading := _HEADING.match(line):
        title = _plain(heading[2].rstrip("# "))
        rest = title.partition(":")[2] if _section_of(title) == "name" else ""
        return len(heading[1]), title, rest
    heading = _BOLD.fullmatch(line) or _BARE.fullmatch(line)
    if heading and (not heading[2] or _section_of(heading[1]) == "name"):
        return 7, _plain(heading[1]), heading[2]
    return 0, "", ""


def _section_of(title: str) -> _Section | None:
    bare = _NUMBER.sub("", _plain(title), count=1).casefold()
    return next((section for section, words in _TITLES if words.match(bare)), None)


def _plain(text: str) -> str:
    return re.sub(r"\*\*|__", "", text).strip().rstrip(":").strip()


def _name(lines: Sequence[_Line]) -> str:
    for line in lines:
        if line.section == "name" and not line.is_code and line.text.strip():
            return one_line(_ITEM.sub(r"\3", _plain(line.text)).strip("`\"' "), _MAX_NAME_CHARS)
    title = next((line.title for line in lines if line.level == 1), "")
    return one_line(re.sub(r"(?i)\Aplan\b[ \t]*[:—–-]?[ \t]*", "", title), _MAX_NAME_CHARS)


def _steps(lines: Sequence[_Line], *, only_numbered: bool = False) -> list[list[_Line]]:
    """Return the lines of each step. All steps begin like the first one."""
    steps: list[list[_Line]] = []
    first: _Kind | None = None
    for line in lines:
        kind = _kind_of_step(line)
        if first is None and (not only_numbered or kind is None or kind[0] == "numbered"):
            first = kind
        max_depth = first[1] + (first[0] != "heading") if first else 0
        if first and kind and kind[0] == first[0] and kind[1] <= max_depth:
            steps.append([line])
        elif steps:
            steps[-1].append(line)
    return steps


_Kind: TypeAlias = tuple[Literal["heading", "numbered", "bulleted"], int]


def _kind_of_step(line: _Line) -> _Kind | None:
    """Return the kind of step that begins here, and its level; None if none begins."""
    if line.level and _section_of(line.title) != "steps":
        return "heading", line.level
    item = None if line.is_code or line.level else _ITEM.match(line.text)
    return ("numbered" if item[2] else "bulleted", len(item[1].expandtabs(4))) if item else None


def _step_text(step: Sequence[_Line]) -> str:
    first, *rest = step
    if first.level:
        return one_line(_NUMBER.sub("", first.title, count=1), _MAX_STEP_CHARS)
    item = _ITEM.match(first.text)
    paragraph = [item[3] if item else first.text]
    for line in rest:
        if line.is_code or line.level or not line.text.strip() or _ITEM.match(line.text):
            break
        paragraph.append(line.text.strip())
    return one_line(_BOX.sub("", _plain(" ".join(paragraph)), count=1), _MAX_STEP_CHARS)


_MAX_COMMAND_CHARS = 500
_MAX_COMMANDS = 20
_MAX_COMMAND_LINES = 100
_SHELLS = frozenset(("", "sh", "bash", "shell", "zsh", "console", "shell-session", "terminal"))
_PROMPT = late_pattern(r"[$%][ \t]+")
_SPAN = late_pattern(r"(?<!`)(`{1,3})(?!`)([^`]+)\1(?!`)")
_CONTINUES = late_pattern(r"(?:\\|\||&&|[({]|\b(?:do|then|else|in))\Z")
_BLOCK = late_pattern(r"(?:for|while|until|if|case|select|function)\b")
_BLOCK_END = late_pattern(r"(?:\A|[;\s])(?:done|fi|esac|\})\s*\Z")
_STRINGS = late_pattern(r"'[^']*'|\"(?:\\.|[^\"\\])*\"|\\.")

# A span in a sentence is more often a name than a command, so it must look like one.
_PROGRAM = late_pattern(r"(?:[A-Za-z_]\w*=\S*[ \t]+)*(?:\.{0,2}/)?[a-z0-9][\w.+/-]*[ \t]+\S")
_ALONE = late_pattern(
    r"(?:make|pytest|tox|nox|ctest|ninja|just|rake|rspec|phpunit|jest|vitest|tsc|mypy|ruff|gradle"
    r"|\./[\w./-]+)\Z"
)
_CODE = late_pattern(
    r"(?:def|class|import|from|return|if|for|while|with|async|await|let|const|var|fn|func|function"
    r"|type|interface|struct|enum|public|private|static|void|int|exit|raise|assert|not|in)\b"
)


def _commands_in(lines: Sequence[_Line]) -> tuple[str, ...]:
    """Return the commands of the fenced blocks, or of the `code spans` if no block has any.

    Each is one whole command without prompt signs and comments. Commands over several lines, of
    more than 500 characters or with unprintable characters are left out.
    """
    blocks: list[list[str]] = []
    is_shell = False
    for line in lines:
        if line.language is not None:
            is_shell = line.language in _SHELLS
            blocks.append([])
        elif line.is_code and is_shell:
            blocks[-1].append(line.text)
    commands = [command for block in blocks for command in _block_commands(block)]
    if not commands:
        prose = (line.text for line in lines if not line.is_code)
        commands = [command for text in prose for command in _prose_commands(text)]
    fitting = (each for each in commands if len(each) <= _MAX_COMMAND_CHARS and each.isprintable())
    return tuple(dict.fromkeys(fitting))[:_MAX_COMMANDS]


def _block_commands(lines: Sequence[str]) -> Iterator[str]:
    """Yield the commands of a block; if some lines have prompt signs, the others are output."""
    has_prompts = any(_PROMPT.match(line.strip()) for line in lines)
    command: list[str] = []
    for line in lines:
        text = line.strip()
        if not command:
            prompt = _PROMPT.match(text)
            if not text or text.startswith("#") or (has_prompts and not prompt):
                continue
            text = text[prompt.end() :].strip() if prompt else text
        command.append(text)
        if len(command) > _MAX_COMMAND_LINES:
            return
        if _is_complete_command(command):
            if len(command) == 1:
                yield _strip_comment(text)
            command = []


def _is_complete_command(lines: Sequence[str]) -> bool:
    """Whether a command that begins with the first of these lines ends with the last."""
    if here_document := HERE_DOCUMENT.search(lines[0]):
        return lines[-1] == here_document[1]
    if _BLOCK.match(lines[0]):
        return bool(_BLOCK_END.search(lines[-1]))
    bare = _STRINGS.sub("", "\n".join(lines))
    return not ('"' in bare or "'" in bare or _CONTINUES.search(lines[-1]))


def _strip_comment(command: str) -> str:
    hidden = _STRINGS.sub(lambda string: "x" * len(string[0]), command)
    comment = re.search(r"[ \t]#", hidden)
    return command[: comment.start()].rstrip() if comment else command


def _prose_commands(line: str) -> Iterator[str]:
    for span in _SPAN.finditer(line[:5_000]):
        text = _PROMPT.sub("", span[2].strip(), count=1).strip()
        if not _CODE.match(text) and (_PROGRAM.match(text) or _ALONE.match(text)):
            yield text
