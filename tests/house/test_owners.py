"""Processes, sockets and writing to disk have one owner each."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.house.source import (
    PACKAGE,
    called,
    mentioning,
    modules,
    name_of,
    text_of,
    tree_of,
    walked,
)

MODULE_OWNERS = {
    "subprocess": ("processes/",),
    "socket": ("providers/", "tools/web/", "processes/sandbox/", "testing/"),
    "httpx": ("providers/", "tools/web/"),
    "textual": ("ui/",),
    "dirge_py.ui.app": ("ui/actions.py", "ui/commands/", "ui/run.py"),
    "prompt_toolkit": ("frontend/line/",),
    "aiohttp": ("cli/serve/",),
    "textual_serve": ("cli/serve/",),
    "tree_sitter": ("permission/", "tools/syntax_check.py"),
    "yaml": ("context/", "tools/syntax_check.py"),
    "justhtml": ("tools/web/",),
    "requests": (),
    "urllib.request": (),
    "http.client": (),
    "webbrowser": (),
    "http.server": (),
    "socketserver": (),
}

WRITERS = {
    "conversation/durable.py": "signals from another terminal",
    "files/": "the workspace, whole files for everybody, and the log",
    "git/": "git folders and files of dirge's own that git reads",
    "session/": "journals",
    "extensions/memory/": "MEMORY.md and USER.md",
    "providers/recording.py": "what models were asked and answered, where a person wants it",
    "processes/sandbox/": "empty folders that keep a place, and temporary ones, gone at the end",
    "processes/output.py": "output too long for a result",
    "config/": "settings that a person asked to have written, a key that a person typed",
    "cli/demo/": "the copy the demo works in",
    "frontend/print/printer.py": "the file of `-o`",
    "lib/file_lock.py": "lock files",
    "tools/search/": "file lists for ripgrep, gone when it ends",
    "ui/terminal/clipboard.py": "the last thing that was copied",
    "ui/terminal/editor.py": "the draft for the person's editor, the page for their pager",
    "permission/project_trust.py": "what a person trusted",
    "sdk/update.py": "what is known of new versions",
    "lib/temporary_folder.py": "temporary folders, gone at the end or at a later start",
}
"""Who may create, change or remove files, and what."""

STARTERS = ("processes/",)
LISTENERS = (
    "processes/sandbox/proxy.py",
    "processes/sandbox/relay.py",
    "testing/fake_service.py",
)
"""Who may wait for connections: the way out of a sandbox, in a folder or a network of its own;
and a service for tests."""

SHELLS = (
    "processes/running_command.py",
    "processes/pty.py",
    "processes/sandbox/bubblewrap.py",
    "processes/sandbox/seatbelt.py",
)
"""Who may start a shell: for the command lines that a model or a person wrote, and no others."""

LINE_READERS = (
    "cli/flags.py",
    "cli/trust.py",
    "processes/sandbox/",
    "testing/fake_service.py",
)
"""Who may read by the line: what a person types, a table of the kernel, the head of a request."""

_WRITING_CALLS = re.compile(
    r"write_text|write_bytes|mkstemp|mkdtemp|NamedTemporaryFile|TemporaryDirectory|unlink|rmtree"
    r"|rmdir|mkdir|makedirs|ftruncate|symlink|copyfile|copytree"
)
_WRITING_WORDS = rf"{_WRITING_CALLS.pattern}|O_CREAT|O_APPEND|O_RDWR|open"
_WRITING_FLAGS = frozenset(("O_CREAT", "O_APPEND", "O_RDWR"))
_STARTING_CALLS = re.compile(
    r"create_subprocess_\w+|fork|forkpty|killpg|posix_spawnp?|exec[lv]p?e?|Popen|popen|system|kill"
)
_SHELL_CALLS = re.compile(r"(?:.*\.)?(?:create_subprocess_shell|getoutput)|os\.(?:system|popen)")
_SHELL_WORDS = r"-l?c\b|create_subprocess_shell|getoutput|system|popen|shell"
_LISTENING_CALLS = re.compile(r"listen|bind|start_server|start_unix_server|create_server")
_LINE_CALLS = re.compile(r"readline|readlines|readuntil")
_STARTING_MODULES = frozenset(("os", "pty", "asyncio", "subprocess"))

EMPTY_WORDS = frozenset(
    ("manager", "helper", "helpers", "util", "utils", "misc", "common", "data", "info", "core")
)
"""They fit everything, so they say nothing."""


def imported(tree: ast.AST) -> Iterator[str]:
    """Every imported module, with its parent packages."""
    for node in walked(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            parts = name.split(".")
            yield from (".".join(parts[:end]) for end in range(1, len(parts) + 1))


def writes(tree: ast.AST) -> Iterator[int]:
    """Lines that create, change or remove a file or folder."""
    for node in walked(tree):
        if isinstance(node, ast.Attribute) and node.attr in _WRITING_FLAGS:
            yield node.lineno
        if not isinstance(node, ast.Call):
            continue
        name = called(node)
        if _WRITING_CALLS.fullmatch(name):
            yield node.lineno
        if name == "open":
            modes = [*node.args[1:2], *(word.value for word in node.keywords if word.arg == "mode")]
            if any(
                isinstance(mode, ast.Constant) and set(str(mode.value)) & set("wax+")
                for mode in modes
            ):
                yield node.lineno


def starts_processes(tree: ast.AST) -> Iterator[int]:
    """Lines that start or kill a process."""
    for node in walked(tree):
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
            continue
        if node.value.id in _STARTING_MODULES and _STARTING_CALLS.fullmatch(node.attr):
            yield node.lineno


def starts_shells(tree: ast.AST) -> Iterator[int]:
    """Lines that pass a text to a shell."""
    for node in walked(tree):
        if isinstance(node, ast.List | ast.Tuple):
            words = [word.value for word in node.elts if isinstance(word, ast.Constant)]
            if {"-c", "-lc"} & {word for word in words if isinstance(word, str)}:
                yield node.lineno
        if isinstance(node, ast.Call):
            if _SHELL_CALLS.fullmatch(ast.unparse(node.func)):
                yield node.lineno
            if any(word.arg == "shell" for word in node.keywords):
                yield node.lineno


@pytest.mark.parametrize("foreign", MODULE_OWNERS)
def test_each_library_is_imported_only_by_its_owner(foreign: str) -> None:
    strangers = [
        name_of(module)
        for module in mentioning(foreign.partition(".")[0])
        if foreign in set(imported(tree_of(module)))
        and not name_of(module).startswith(MODULE_OWNERS[foreign])
    ]
    assert strangers == []


def test_only_owners_write_files() -> None:
    strangers = [
        f"{name_of(module)}:{line}"
        for module in mentioning(_WRITING_WORDS)
        if not name_of(module).startswith(tuple(WRITERS))
        for line in writes(tree_of(module))
    ]
    assert strangers == []


def test_every_module_listed_as_a_writer_writes_files() -> None:
    found = mentioning(_WRITING_WORDS)
    writing = [name_of(module) for module in found if any(writes(tree_of(module)))]
    idle = [owner for owner in WRITERS if not any(name.startswith(owner) for name in writing)]
    assert idle == []


def test_only_one_package_starts_and_kills_processes() -> None:
    strangers = [
        f"{name_of(module)}:{line}"
        for module in mentioning(_STARTING_CALLS.pattern)
        if not name_of(module).startswith(STARTERS)
        for line in starts_processes(tree_of(module))
    ]
    assert strangers == []


def test_no_module_starts_a_shell_for_fixed_commands() -> None:
    strangers = [
        f"{name_of(module)}:{line}"
        for module in mentioning(_SHELL_WORDS)
        if name_of(module) not in SHELLS
        for line in starts_shells(tree_of(module))
    ]
    assert strangers == []
    assert all(any(starts_shells(tree_of(PACKAGE / owner))) for owner in SHELLS)


@pytest.mark.parametrize(
    ("calls", "owners"),
    [
        (_LISTENING_CALLS, LISTENERS),
        # It ends, or fails, at a line that is longer than it keeps.
        (_LINE_CALLS, LINE_READERS),
    ],
    ids=["listen-for-connections", "read-foreign-lines-with-a-limit"],
)
def test_restricted_calls_are_made_only_by_their_owners(
    calls: re.Pattern[str], owners: tuple[str, ...]
) -> None:
    found = {
        name_of(module)
        for module in mentioning(calls.pattern)
        for node in walked(tree_of(module))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and calls.fullmatch(node.func.attr)
    }
    assert [name for name in found if not name.startswith(owners)] == []
    assert all(any(name.startswith(owner) for name in found) for owner in owners)


def test_no_module_or_class_has_a_meaningless_name() -> None:
    found = []
    for module in modules():
        classes = re.findall(r"^ *class (\w+)", text_of(module), re.MULTILINE)
        found += [
            f"{name_of(module)}: {name}"
            for name in (module.stem, *classes)
            if words_of(name) & EMPTY_WORDS and name != "TurnInfo"
        ]
    assert found == []


def words_of(name: str) -> set[str]:
    """Splits names: `LogFile` and `log_file` are log and file."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name)}
