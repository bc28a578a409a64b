"""Finds and reads repositories without running git: their folders, HEAD and settings.

All of that is untrusted. Settings are parsed exactly as git parses them, comments and continued
lines included, because a difference would hide a setting that git obeys.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from dirge_py.files.safe_read import read_regular
from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.paths import upwards

MAX_CONFIG_BYTES = 256 * 1024
_MAX_FILE_BYTES = 64 * 1024
_ESCAPES = {"n": "\n", "t": "\t", "b": "\b"}


class UnreadableRepository(Exception):
    """The repository doesn't have git's layout; the message says where."""


_UNREADABLE = (OSError, UnreadableRepository, ValueError)


@dataclass(frozen=True, slots=True, kw_only=True)
class GitFolders:
    """The git folders of one work tree; the files in them need not exist."""

    git_dir: Path
    """The git folder of the work tree."""
    common: Path
    """The folder that all work trees of the repository share; may be the same."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """The settings that a copy needs (such as `core.eol`), each value on one line."""

    @property
    def index(self) -> Path:
        return self.git_dir / "index"

    @property
    def exclude(self) -> Path:
        """The file of ignore rules that are not part of the project."""
        return self.common / "info" / "exclude"


def work_tree_of(folder: str) -> str:
    """The top of the work tree around the physical `folder`, or `folder` if there is none."""
    return next((at for at in upwards(folder) if os.path.lexists(f"{at}/.git")), folder)


def git_dir_at(work_tree: str) -> str:
    """The physical git folder of the work tree, which a `.git` file may name.

    Raises OSError, UnreadableRepository, ValueError: there is none, or the file can't be read.
    """
    entry = f"{work_tree}/.git"
    if os.path.isdir(entry):
        return os.path.realpath(entry)
    text = read_text(entry).strip()
    if not text.startswith("gitdir:"):
        raise UnreadableRepository(entry)
    return os.path.realpath(os.path.join(work_tree, text.removeprefix("gitdir:").strip()))


def common_dir(git_dir: str) -> str:
    """The folder that all work trees of the repository share.

    Raises OSError, UnreadableRepository, ValueError: its name can't be read.
    """
    pointer = f"{git_dir}/commondir"
    if not os.path.lexists(pointer):
        return git_dir
    return os.path.realpath(os.path.join(git_dir, read_text(pointer).strip()))


def git_folders(root: str) -> GitFolders | None:
    """The git folders of the work tree `root`; None if it is not one, or cannot be read."""
    try:
        git_dir = git_dir_at(root)
        return GitFolders(git_dir=Path(git_dir), common=Path(common_dir(git_dir)))
    except _UNREADABLE:
        return None


def read_head(folder: Path) -> str | None:
    """The HEAD of the repository around `folder`; "" if unreadable, None if there is none."""
    top = work_tree_of(os.path.abspath(folder))
    if not os.path.lexists(f"{top}/.git"):
        return None
    try:
        return read_bytes(f"{git_dir_at(top)}/HEAD", _MAX_FILE_BYTES).decode()
    except _UNREADABLE:
        return ""


def branch_of(folder: Path) -> str:
    """The branch of the repository around `folder`, or the start of a commit; "" without one."""
    head = (read_head(folder) or "").strip().partition("\n")[0]
    return head.removeprefix("ref: refs/heads/") if head.startswith("ref:") else head[:8]


def repository_setting(git_dir: str, key: str) -> str:
    """The last value of `key` (lower case) in its own settings, or "". Raises as `read_bytes`."""
    every = parse_settings(read_text(f"{git_dir}/config", MAX_CONFIG_BYTES))
    return next((value for name, value in reversed(every) if name.lower() == key), "")


def read_text(path: str, limit: int = _MAX_FILE_BYTES) -> str:
    """The content of a regular file as text. Raises as `read_bytes`."""
    return read_bytes(path, limit).decode("utf-8", "surrogateescape")


def read_bytes(path: str, limit: int) -> bytes:
    """The content of a regular file. Raises OSError, UnreadableRepository: over `limit` bytes."""
    content = read_regular(Path(path), limit + 1)
    if len(content) > limit:
        raise UnreadableRepository(f"{path} is too large")
    return content


def parse_settings(text: str) -> tuple[tuple[str, str], ...]:
    """The `section.subsection.key` names and values of a git config file, in its order.

    Section and key are in lower case; a key without `=` has the value "". Raises
    UnreadableRepository: git would refuse it, too.
    """
    if "\0" in text:
        raise UnreadableRepository("a settings file with a NUL in it")
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    settings = []
    section: str | None = None
    position = 0
    while position < len(text):
        item = _ITEM.match(text, position)
        if item is None or (item["key"] and section is None):
            line = text.count("\n", 0, position) + 1
            raise UnreadableRepository(f"line {line} of a settings file is not as git writes it")
        if item["key"]:
            settings.append((f"{section}.{item['key'].lower()}", _unquote(item["value"] or "")))
        elif item["subsection"] is not None:
            name = _ESCAPED.sub(r"\1", item["subsection"])
            section = f"{item['section'].lower()}.{name}"
        elif item["section"]:
            section = item["section"].lower()
        position = item.end()
    return tuple(settings)


_ITEM = late_pattern(
    r"""
    [\ \t\r\n]++
    | [#;][^\n]*+
    | \[ (?P<section>[a-zA-Z0-9.-]*+)
      (?: (?<!\[)] | [\ \t\r]++ "(?P<subsection> (?: [^"\\\n] | \\[^\n] )*+ )"] )
    | (?P<key> [a-zA-Z][a-zA-Z0-9-]*+ ) [\ \t]*+
      (?: = (?P<value> (?: [^"\\\n\#;] | \\(?:[ntb\\"\n]|\Z)
              | " (?: [^"\\\n] | \\[ntb\\"\n] )*+ " )*+ ) (?:[#;][^\n]*+)? )?
      (?: \n | \Z )
    """,
    re.VERBOSE,
)
"""Blanks, a comment, the head of a section, or a setting with its value as it is written."""
_ESCAPED = late_pattern(r"\\(.)")
_PIECE = late_pattern(r'\\(?:\n|\Z)|\\(.)|(")|([ \t\r])|([^"\\ \t\r]+)')


def _unquote(written: str) -> str:
    """The value that is written, without quotes, escapes, and blanks around it."""
    value, blanks, is_quoted = "", "", False
    for escaped, quote, blank, plain in _PIECE.findall(written):
        if quote:
            is_quoted = not is_quoted
            value, blanks = value + blanks, ""
        elif blank and not is_quoted:
            blanks += blank if value else ""
        else:
            letter = _ESCAPES.get(escaped, escaped) or blank or plain
            value, blanks = value + blanks + letter, ""
    return value
