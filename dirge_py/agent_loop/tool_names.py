"""Names of tools and arguments as models write them: spellings, prefixes, names of other agents.

A name that a tool has is that tool, whatever else it means here. Any other name is replaced only if
one tool can be meant, and before the answer is recorded: history, hooks, permission and the user
all see the tool's own name, which services accept and the model then repeats.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.nearest import nearest
from dirge_py.types.messages import AssistantMessage, ToolCallBlock
from dirge_py.types.tools import LoopTool

_TOOLS = (
    "bash shell local_shell shell_command run_shell_command run_command run_terminal_cmd",
    "bash execute_command exec_command",
    "read read_file view_file open_file",
    "write write_file write_to_file create_file",
    "edit edit_file multi_edit replace str_replace",
    "grep grep_search search_file_content ripgrep rg",
    "list_dir list_directory ls",
    "todo todo_write write_todos update_plan",
    "webfetch fetch_url",
    "websearch google_web_search search_web",
    "kill_shell kill_bash",
)
"""What Claude Code, Codex, Gemini CLI and similar agents call a tool, after its own name. A tool
with such a name, as a plugin's `read_file` beside `read`, turns off the others in that line."""

_ARGUMENTS = (
    "path file_path absolute_path target_file file filename dir dir_path directory folder",
    "command cmd command_line shell_command",
    "content contents text file_text",
    "old_text old_string old_str",
    "new_text new_string new_str",
    "pattern query regex search",
    "include glob include_pattern file_pattern",
    "url uri link href",
)
"""Names of arguments that models use interchangeably."""

_UNCLEAR: Mapping[str, Sequence[str]] = {
    "listfiles": ("list_dir", "glob"),
    "find": ("glob", "find_files"),
    "filesearch": ("glob", "find_files"),
    "searchfiles": ("grep", "find_files"),
    "codebasesearch": ("grep", "repo_overview"),
    "search": ("grep", "websearch"),
    "strreplaceeditor": ("edit", "write", "read"),
    "strreplacebasededittool": ("edit", "write", "read"),
    "python": ("bash",),
}
"""Names that may mean several tools, or one with other arguments: they are only suggested."""

_WRAPPED = late_pattern(
    r"""(?:(?:functions?|tools?|default_api)[.:/])?  # OpenAI's and Gemini's own notation
        (?P<name>.+?)
        (?::\d+)?  # Kimi: functions.read:0
        (?:<\|.*)?  # gpt-oss: read<|channel|>commentary
    """,
    re.VERBOSE | re.DOTALL,
)
_SEPARATORS = late_pattern(r"[\s_.:/-]+")
_MCP = "mcp__"


def known_tool_name(name: str, tools: Sequence[str]) -> str | None:
    """Return the name of the one tool that `name` means; None if there is none, or several."""
    if name in tools:
        return name
    meant = _meant(name, tools)
    return meant[0] if len(meant) == 1 else None


def suggested_tools(name: str, tools: Sequence[str]) -> Sequence[str]:
    """Return the tools that `name`, which none of them has, may stand for."""
    if meant := _meant(name, tools):
        return meant
    if unclear := [tool for tool in _UNCLEAR.get(_plain(name), ()) if tool in tools]:
        return unclear
    near = nearest(name, tools)
    return [near] if near is not None else []


def with_known_names(message: AssistantMessage, tools: Sequence[LoopTool]) -> AssistantMessage:
    """Return the message with calls under the names that the tools have; others stay unchanged."""
    names = [tool.name for tool in tools]
    if all(call.name in names for call in message.calls):
        return message
    content = [
        replace(block, name=known_tool_name(block.name, names) or block.name)
        if isinstance(block, ToolCallBlock)
        else block
        for block in message.content
    ]
    return replace(message, content=tuple(content))


def same_argument(name: str) -> str:
    """Return a key that is equal for names of arguments that models use interchangeably."""
    return _ARGUMENT_OF.get(plain_name(name)) or plain_name(name)


def plain_name(name: str) -> str:
    """Return the name of an argument as it is compared. A dot stays: it may mean a level."""
    return name.replace("_", "").replace("-", "").lower()


def _plain(name: str) -> str:
    match = _WRAPPED.fullmatch(name.strip())
    return _SEPARATORS.sub("", match["name"] if match else name).lower()


def _first_names(lines: Sequence[str]) -> Mapping[str, str]:
    return {plain_name(name): line.split()[0] for line in lines for name in line.split()}


_TOOL_OF, _ARGUMENT_OF = _first_names(_TOOLS), _first_names(_ARGUMENTS)


def _meant(name: str, tools: Sequence[str]) -> list[str]:
    plain = _plain(name)
    if not plain:
        return []
    if same := [tool for tool in tools if _plain(tool) == plain]:
        return same
    alias_of = _TOOL_OF.get(plain)
    # Alone, another tool with one of these names need not do the same.
    related = [
        tool for tool in tools if alias_of in tools and _TOOL_OF.get(_plain(tool)) == alias_of
    ]
    # MCP: mcp__SERVER__TOOL without its first parts.
    short = [tool for tool in tools if tool.startswith(_MCP) and plain in _short_names(tool)]
    return [*related, *short]


def _short_names(tool: str) -> tuple[str, str]:
    rest = tool.removeprefix(_MCP)
    return _plain(rest), _plain(rest.partition("__")[2])
