"""The shell commands that a passage of Markdown tells to run, one by one."""

import re
from collections.abc import Iterator, Sequence

_MOST_OF_COMMAND = 500
_MOST_COMMANDS = 20
_MOST_LINES_OF_COMMAND = 100

_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*([^\s`]*)")
_SHELLS = frozenset(("", "sh", "bash", "shell", "zsh", "console", "shell-session", "terminal"))
_PROMPT = re.compile(r"[$%][ \t]+")
_SPAN = re.compile(r"(?<!`)(`{1,3})(?!`)([^`]+)\1(?!`)")

_GOES_ON = re.compile(r"(?:\\|\||&&|[({]|\b(?:do|then|else|in))\Z")
_BLOCK = re.compile(r"(?:for|while|until|if|case|select|function)\b")
_BLOCK_END = re.compile(r"(?:\A|[;\s])(?:done|fi|esac|\})\s*\Z")
_DOCUMENT = re.compile(r"(?<!<)<<-?\s*['\"\\]?(\w+)")
_STRINGS = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"|\\.")

# A span in a sentence is more often a name than a command: it must look like one.
_PROGRAM = re.compile(r"(?:[A-Za-z_]\w*=\S*[ \t]+)*(?:\.{0,2}/)?[a-z0-9][\w.+/-]*[ \t]+\S")
_ALONE = re.compile(
    r"(?:make|pytest|tox|nox|ctest|ninja|just|rake|rspec|phpunit|jest|vitest|tsc|mypy|ruff|gradle"
    r"|\./[\w./-]+)\Z"
)
_CODE = re.compile(
    r"(?:def|class|import|from|return|if|for|while|with|async|await|let|const|var|fn|func|function"
    r"|type|interface|struct|enum|public|private|static|void|int|exit|raise|assert|not|in)\b"
)


def commands_in(lines: Sequence[str]) -> tuple[str, ...]:
    """The commands of its fenced blocks; of its `code spans` where no block holds any.

    One whole command each, as it stands there: without prompt signs, no comments, nothing that
    goes over several lines, is longer than 500 characters or holds what cannot be printed.
    """
    fenced, prose = _parted(lines)
    found = [command for block in fenced for command in _of_block(block)]
    if not found:
        found = [command for line in prose for command in _of_prose(line)]
    fitting = (each for each in found if len(each) <= _MOST_OF_COMMAND and each.isprintable())
    return tuple(dict.fromkeys(fitting))[:_MOST_COMMANDS]


def _parted(lines: Sequence[str]) -> tuple[list[list[str]], list[str]]:
    """(the lines of each block that is for a shell, the lines outside of all blocks)."""
    blocks: list[list[str]] = []
    prose: list[str] = []
    fence, is_shell = "", False
    for line in lines:
        mark = _FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
            elif is_shell:
                blocks[-1].append(line)
        elif mark:
            fence, is_shell = mark[1], mark[2].casefold() in _SHELLS
            blocks += [[]] if is_shell else []
        else:
            prose.append(line)
    return blocks, prose


def _of_block(lines: Sequence[str]) -> Iterator[str]:
    """Where lines begin with prompt signs, the others are what commands printed."""
    has_prompts = any(_PROMPT.match(line.strip()) for line in lines)
    opened: list[str] = []
    for line in lines:
        text = line.strip()
        if not opened:
            prompt = _PROMPT.match(text)
            if not text or text.startswith("#") or (has_prompts and not prompt):
                continue
            text = text[prompt.end() :].strip() if prompt else text
        opened.append(text)
        if len(opened) > _MOST_LINES_OF_COMMAND:
            return
        if _is_whole(opened):
            if len(opened) == 1:
                yield _uncommented(text)
            opened = []


def _is_whole(lines: Sequence[str]) -> bool:
    """Whether a command that began with the first of these lines ends with the last one."""
    found = _DOCUMENT.search(lines[0])
    if found:
        return lines[-1] == found[1]
    if _BLOCK.match(lines[0]):
        return bool(_BLOCK_END.search(lines[-1]))
    bare = _STRINGS.sub("", "\n".join(lines))
    return not ('"' in bare or "'" in bare or _GOES_ON.search(lines[-1]))


def _uncommented(command: str) -> str:
    """Without a comment at its end. One that stands in a string is none."""
    hidden = _STRINGS.sub(lambda string: "x" * len(string[0]), command)
    found = re.search(r"[ \t]#", hidden)
    return command[: found.start()].rstrip() if found else command


def _of_prose(line: str) -> Iterator[str]:
    for span in _SPAN.finditer(line[:5_000]):
        text = _PROMPT.sub("", span[2].strip(), count=1).strip()
        if not _CODE.match(text) and (_PROGRAM.match(text) or _ALONE.match(text)):
            yield text
