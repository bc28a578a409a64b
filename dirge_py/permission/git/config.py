"""Reads git's own settings files the way git does, and knows which settings act.

What git takes for a comment, a continued line or a section must be the same here: a difference
would hide a setting from us that git obeys.

The table of every setting that names a program or a file, with what holds it where git only looks,
is from the documentation of git 2.39 and the release notes of later versions. A test compares it
with the settings that the installed git knows.
"""

import re
import string
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal

from dirge_py.files.safe_read import read_regular
from dirge_py.lib.lean_dataclass import dataclass

_SPACE = " \t\r\n"
_KEY_LETTERS = frozenset(string.ascii_letters + string.digits + "-")
_ESCAPES = {"n": "\n", "t": "\t", "b": "\b", "\\": "\\", '"': '"'}


class UnreadableRepository(Exception):
    """The repository is not laid out as git lays one out; the message says where."""


def parse_settings(text: str) -> tuple[tuple[str, str], ...]:
    """The `section.subsection.key` names and values of a git config file, in its order.

    Section and key are in lower case; a key without `=` has the value "".

    Raises:
        Unreadable: git would refuse it, too.
    """
    if "\0" in text:
        raise UnreadableRepository("a settings file with a NUL in it")
    return tuple(_Reader(text.removeprefix("\ufeff").replace("\r\n", "\n")).settings())


class _Reader:
    """A place in the text. The end of the text reads as an end of line, as in git."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0

    def settings(self) -> Iterator[tuple[str, str]]:
        section: str | None = None
        while self._position < len(self._text):
            char = self._next()
            if char in _SPACE:
                continue
            if char in "#;":
                self._skip_line()
            elif char == "[":
                section = self._section()
            elif section is None or char not in string.ascii_letters:
                raise self._wrong()
            else:
                key, char = self._key(char)
                yield f"{section}.{key}", self._value_after(char)

    def _next(self) -> str:
        char = self._text[self._position : self._position + 1]
        self._position += 1
        return char or "\n"

    def _skip_line(self) -> None:
        while self._next() != "\n":
            pass

    def _section(self) -> str:
        name = ""
        while True:
            char = self._next()
            if char == "]" and name:
                return name
            if char in _SPACE:
                return f"{name}.{self._subsection(char)}"
            if char not in _KEY_LETTERS and char != ".":
                raise self._wrong()
            name += char.lower()

    def _subsection(self, char: str) -> str:
        while char in _SPACE:
            if char == "\n":
                raise self._wrong()
            char = self._next()
        if char != '"':
            raise self._wrong()
        name = ""
        while (char := self._next()) != '"':
            if char == "\\":
                char = self._next()
            if char == "\n":
                raise self._wrong()
            name += char
        if self._next() != "]":
            raise self._wrong()
        return name

    def _key(self, first: str) -> tuple[str, str]:
        """The key, and the first letter behind it and its blanks."""
        key = first.lower()
        while (char := self._next()) in _KEY_LETTERS:
            key += char.lower()
        while char in " \t":
            char = self._next()
        return key, char

    def _value_after(self, char: str) -> str:
        if char == "\n":
            return ""
        if char != "=":
            raise self._wrong()
        value, is_quoted, blanks = "", False, ""
        while (char := self._next()) != "\n":
            if not is_quoted and char in "#;":
                self._skip_line()
                return value
            if not is_quoted and char in _SPACE:
                blanks += char if value else ""
                continue
            if char == '"':
                is_quoted = not is_quoted
                value, blanks = value + blanks, ""
                continue
            if char == "\\":
                char = self._escaped()
            value, blanks = value + blanks + char, ""
        if is_quoted:
            raise self._wrong()
        return value

    def _escaped(self) -> str:
        char = self._next()
        if char == "\n":
            return ""
        if char not in _ESCAPES:
            raise self._wrong()
        return _ESCAPES[char]

    def _wrong(self) -> UnreadableRepository:
        line = self._text.count("\n", 0, self._position) + 1
        return UnreadableRepository(f"line {line} of a settings file is not as git writes it")


_MAX_FILE_BYTES = 64 * 1024


def read_text(path: str, limit: int = _MAX_FILE_BYTES) -> str:
    return read_bytes(path, limit).decode("utf-8", "surrogateescape")


def read_bytes(path: str, limit: int) -> bytes:
    """The content of a regular file.

    Raises:
        OSError, Unreadable: it is none, cannot be read, or is larger than `limit` bytes.
    """
    content = read_regular(Path(path), limit + 1)
    if len(content) > limit:
        raise UnreadableRepository(f"{path} is too large")
    return content


Kind = Literal["program", "file", "helper", "switch"]
"""What the value is: a program, a file or folder, the helper of a remote, or a switch that makes
git start a program or enter another repository."""
Answer = Literal["asks", "asks-unless-own-file", "followed", "overridden", "variable", "unread"]
"""`asks`: git does not run unasked. `asks-unless-own-file`: neither, unless the value is a file of
the work tree that holds no secret. `followed`: where it leads is checked. `overridden`:
`GIT_HARDENING` carries `value`, which wins over the repository's. No documentation promises that
git hands it on to a submodule, so there it asks. `variable`: an environment variable of
`GIT_HARDENING` wins, in submodules too. `unread`: no command that only looks reads it.
"""


@dataclass(frozen=True, slots=True)
class ActingSetting:
    """A git setting that names a program or a file."""

    key: str
    """Its name in lower case; `*` stands for any text."""
    kind: Kind
    """What it names."""
    answer: Answer
    """What holds it where git only looks."""
    why: str
    """The reason for that answer."""
    value: str = ""
    """What it is overridden with."""


_CONVERTS = "`git status` and `git diff` run it on changed files"
_TRANSPORT = "GIT_ALLOW_PROTOCOL lets no transport start"
_WRITES = "only commands that write read it"
_TOOL = "only `git difftool` and `git mergetool` read it"
_HELP = "`--help` opens a viewer with it"
_SERVES = "only a server side reads it"
_MAIL = "only `git format-patch`, `send-email` and `imap-send` read it"
_DESKTOP = "only gitk, git gui, gitweb, git cvsserver and `git instaweb` read it"
_PROTECTED = "git reads it from the user's own settings only"
ACTING_SETTINGS = (
    ActingSetting("filter.*.clean", "program", "asks", _CONVERTS),
    ActingSetting("filter.*.smudge", "program", "asks", "an external diff runs it"),
    ActingSetting("filter.*.process", "program", "asks", _CONVERTS),
    ActingSetting(
        "diff.external", "program", "asks", "`git diff` runs it, and no value turns it off"
    ),
    ActingSetting("diff.*.command", "program", "asks", "`git diff` runs it"),
    ActingSetting(
        "diff.*.textconv", "program", "asks", "`git diff`, `git show` and `git blame` run it"
    ),
    ActingSetting("hook.*.command", "program", "asks", "later versions of git run it as a hook"),
    ActingSetting("core.worktree", "file", "asks", "git would look at another folder"),
    ActingSetting("include.path", "file", "asks", "the file can hold any setting"),
    ActingSetting("includeif.*.path", "file", "asks", "the file can hold any setting"),
    ActingSetting(
        "remote.*.promisor", "helper", "asks", "git fetches missing objects when it needs them"
    ),
    ActingSetting(
        "remote.*.partialclonefilter", "helper", "asks", "it makes the remote a promisor"
    ),
    ActingSetting("extensions.partialclone", "helper", "asks", "it makes the remote a promisor"),
    ActingSetting(
        "core.excludesfile", "file", "asks-unless-own-file", "`git check-ignore -v` prints of it"
    ),
    ActingSetting(
        "core.attributesfile", "file", "asks-unless-own-file", "git prints lines of it in warnings"
    ),
    ActingSetting(
        "blame.ignorerevsfile", "file", "asks-unless-own-file", "`git blame` prints a bad line"
    ),
    ActingSetting("submodule.*.ignore", "switch", "followed", "submodules are checked themselves"),
    ActingSetting("man.viewer", "program", "asks", _HELP),
    ActingSetting("man.*.cmd", "program", "asks", _HELP),
    ActingSetting("man.*.path", "program", "asks", _HELP),
    ActingSetting("browser.*.cmd", "program", "asks", _HELP),
    ActingSetting("browser.*.path", "program", "asks", _HELP),
    ActingSetting("web.browser", "program", "asks", _HELP),
    ActingSetting("help.browser", "program", "asks", _HELP),
    ActingSetting("help.format", "switch", "asks", _HELP),
    ActingSetting("help.htmlpath", "file", "asks", _HELP),
    ActingSetting(
        "core.fsmonitor", "program", "overridden", "nearly every command runs it", "false"
    ),
    ActingSetting(
        "core.hookspath", "file", "overridden", "hooks are taken from there", "/dev/null"
    ),
    ActingSetting(
        "diff.submodule", "switch", "overridden", "`diff` runs git in submodules", "short"
    ),
    # `dirty` compares commits only; `all` would also leave a staged change of one out.
    ActingSetting(
        "diff.ignoresubmodules", "switch", "overridden", "git runs in submodules", "dirty"
    ),
    ActingSetting(
        "status.submodulesummary", "switch", "overridden", "it runs in submodules", "false"
    ),
    ActingSetting(
        "submodule.recurse", "switch", "overridden", "`git grep` enters submodules", "false"
    ),
    ActingSetting("log.showsignature", "switch", "overridden", "it runs gpg", "false"),
    ActingSetting(
        "log.diffmerges", "switch", "overridden", "`remerge` runs merge drivers", "separate"
    ),
    ActingSetting("gpg.program", "program", "overridden", "the format `%G?` runs it", "false"),
    ActingSetting(
        "gpg.openpgp.program", "program", "overridden", "the format `%G?` runs it", "false"
    ),
    ActingSetting("gpg.x509.program", "program", "overridden", "the format `%G?` runs it", "false"),
    ActingSetting("gpg.ssh.program", "program", "overridden", "the format `%G?` runs it", "false"),
    ActingSetting("gpg.ssh.allowedsignersfile", "file", "overridden", "signatures", "/dev/null"),
    ActingSetting("gpg.ssh.revocationfile", "file", "overridden", "signatures", "/dev/null"),
    ActingSetting("diff.orderfile", "file", "overridden", "`git diff` reads it", "/dev/null"),
    ActingSetting(
        "mailmap.file", "file", "overridden", "names of authors show its lines", "/dev/null"
    ),
    ActingSetting("core.pager", "program", "variable", "GIT_PAGER"),
    ActingSetting("pager.*", "program", "variable", "GIT_PAGER"),
    ActingSetting("core.sshcommand", "program", "variable", _TRANSPORT),
    ActingSetting("core.gitproxy", "program", "variable", _TRANSPORT),
    ActingSetting("core.askpass", "program", "variable", _TRANSPORT),
    ActingSetting("credential.*", "program", "variable", _TRANSPORT),
    ActingSetting("remote.*.uploadpack", "program", "variable", _TRANSPORT),
    ActingSetting("remote.*.receivepack", "program", "variable", _TRANSPORT),
    ActingSetting("remote.*.vcs", "helper", "variable", _TRANSPORT),
    ActingSetting("protocol.*.allow", "helper", "variable", _TRANSPORT),
    ActingSetting("protocol.allow", "helper", "variable", _TRANSPORT),
    ActingSetting("fetch.bundleuri", "file", "variable", _TRANSPORT),
    ActingSetting("bundle.*.uri", "file", "variable", _TRANSPORT),
    ActingSetting("http.*cookiefile", "file", "variable", _TRANSPORT),
    ActingSetting("http.*sslcert", "file", "variable", _TRANSPORT),
    ActingSetting("http.*sslkey", "file", "variable", _TRANSPORT),
    ActingSetting("http.*sslcainfo", "file", "variable", _TRANSPORT),
    ActingSetting("http.*sslcapath", "file", "variable", _TRANSPORT),
    ActingSetting("http.*pinnedpubkey", "file", "variable", _TRANSPORT),
    ActingSetting("http.*proxysslcert", "file", "variable", _TRANSPORT),
    ActingSetting("http.*proxysslkey", "file", "variable", _TRANSPORT),
    ActingSetting("http.*proxysslcainfo", "file", "variable", _TRANSPORT),
    ActingSetting("alias.*", "program", "unread", "an alias never replaces a command of git's own"),
    ActingSetting(
        "core.alternaterefscommand", "program", "unread", "only fetching and pushing read it"
    ),
    ActingSetting("core.editor", "program", "unread", _WRITES),
    ActingSetting("sequence.editor", "program", "unread", _WRITES),
    ActingSetting("interactive.difffilter", "program", "unread", _WRITES),
    ActingSetting("merge.*.driver", "program", "unread", "only merging runs it"),
    ActingSetting("pull.twohead", "program", "unread", "only merging runs it"),
    ActingSetting("pull.octopus", "program", "unread", "only merging runs it"),
    ActingSetting("commit.template", "file", "unread", _WRITES),
    ActingSetting("trailer.*.command", "program", "unread", _WRITES),
    ActingSetting("trailer.*.cmd", "program", "unread", _WRITES),
    ActingSetting("gpg.*.program", "program", "unread", "git knows no other format"),
    ActingSetting("gpg.ssh.defaultkeycommand", "program", "unread", "only signing reads it"),
    ActingSetting("user.signingkey", "file", "unread", "only signing reads it"),
    ActingSetting(
        "submodule.*.update", "program", "unread", "only `git submodule update` reads it"
    ),
    ActingSetting("diff.tool", "program", "unread", _TOOL),
    ActingSetting("diff.guitool", "program", "unread", _TOOL),
    ActingSetting("merge.tool", "program", "unread", _TOOL),
    ActingSetting("merge.guitool", "program", "unread", _TOOL),
    ActingSetting("difftool.*.cmd", "program", "unread", _TOOL),
    ActingSetting("difftool.*.path", "program", "unread", _TOOL),
    ActingSetting("mergetool.*.cmd", "program", "unread", _TOOL),
    ActingSetting("mergetool.*.path", "program", "unread", _TOOL),
    ActingSetting("tar.*.command", "program", "unread", "only `git archive` reads it"),
    ActingSetting("init.templatedir", "file", "unread", "only `git init` and `git clone` read it"),
    ActingSetting("fsck.skiplist", "file", "unread", "only `git fsck` reads it"),
    ActingSetting("fetch.fsck.skiplist", "file", "unread", "only `git fetch` reads it"),
    ActingSetting("receive.fsck.skiplist", "file", "unread", _SERVES),
    ActingSetting("uploadpack.packobjectshook", "program", "unread", _SERVES),
    ActingSetting("receive.procreceiverefs", "program", "unread", _SERVES),
    ActingSetting("format.signaturefile", "file", "unread", _MAIL),
    ActingSetting("format.outputdirectory", "file", "unread", _MAIL),
    ActingSetting("imap.tunnel", "program", "unread", _MAIL),
    ActingSetting("sendemail.*", "program", "unread", _MAIL),
    ActingSetting("gitcvs.*", "file", "unread", _DESKTOP),
    ActingSetting("gitweb.*", "program", "unread", _DESKTOP),
    ActingSetting("guitool.*.cmd", "program", "unread", _DESKTOP),
    ActingSetting("gui.*", "program", "unread", _DESKTOP),
    ActingSetting("instaweb.*", "program", "unread", _DESKTOP),
    ActingSetting("fsmonitor.socketdir", "file", "unread", "only the monitor that is off reads it"),
    ActingSetting("safe.directory", "file", "unread", _PROTECTED),
    ActingSetting("trace2.normaltarget", "file", "unread", _PROTECTED),
    ActingSetting("trace2.perftarget", "file", "unread", _PROTECTED),
    ActingSetting("trace2.eventtarget", "file", "unread", _PROTECTED),
)
_MORE_SETTINGS = (
    ("safe.bareRepository", "explicit"),
    ("protocol.ext.allow", "never"),
    ("core.pager", "cat"),
)
_VARIABLES = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_PAGER": "cat",
}


def hardening() -> Mapping[str, str]:
    """The environment that overrides a repository's settings, in two spellings of the same."""
    pairs = (
        *_MORE_SETTINGS,
        *((row.key, row.value) for row in ACTING_SETTINGS if row.answer == "overridden"),
    )
    numbered = {"GIT_CONFIG_COUNT": str(len(pairs))}
    for number, (key, value) in enumerate(pairs):
        numbered[f"GIT_CONFIG_KEY_{number}"] = key
        numbered[f"GIT_CONFIG_VALUE_{number}"] = value
    # Git before 2.31 does not count them. This is how `git -c` hands settings on in every version.
    parameters = " ".join(f"'{key}={value}'" for key, value in pairs)
    return {**numbered, "GIT_CONFIG_PARAMETERS": parameters, **_VARIABLES}


@lru_cache(maxsize=1024)
def acting_setting(key: str) -> ActingSetting | None:
    """The first row for a setting, or None if it names neither a program nor a file."""
    found = _pattern().fullmatch(key.lower())
    return ACTING_SETTINGS[found.lastindex - 1] if found and found.lastindex else None


@cache
def _pattern() -> re.Pattern[str]:
    escaped = (re.escape(row.key).replace(r"\*", ".*") for row in ACTING_SETTINGS)
    return re.compile("|".join(f"({key})" for key in escaped), re.DOTALL)
