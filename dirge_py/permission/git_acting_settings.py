"""Every git setting that names a program or a file, and what holds it where git only looks.

From the documentation of git 2.39 and the release notes of later versions. A test compares the
table with the settings that the installed git knows.
"""

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Literal

from dirge_py.lib.lean_dataclass import dataclass

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
class Row:
    """One setting; `*` in its lower-case `key` stands for any text."""

    key: str
    kind: Kind
    answer: Answer
    why: str
    value: str = ""


_CONVERTS = "`git status` and `git diff` run it on changed files"
_TRANSPORT = "GIT_ALLOW_PROTOCOL lets no transport start"
_WRITES = "only commands that write read it"
_TOOL = "only `git difftool` and `git mergetool` read it"
_HELP = "`--help` opens a viewer with it"
_SERVES = "only a server side reads it"
_MAIL = "only `git format-patch`, `send-email` and `imap-send` read it"
_DESKTOP = "only gitk, git gui, gitweb, git cvsserver and `git instaweb` read it"
_PROTECTED = "git reads it from the user's own settings only"

ROWS = (
    Row("filter.*.clean", "program", "asks", _CONVERTS),
    Row("filter.*.smudge", "program", "asks", "an external diff runs it"),
    Row("filter.*.process", "program", "asks", _CONVERTS),
    Row("diff.external", "program", "asks", "`git diff` runs it, and no value turns it off"),
    Row("diff.*.command", "program", "asks", "`git diff` runs it"),
    Row("diff.*.textconv", "program", "asks", "`git diff`, `git show` and `git blame` run it"),
    Row("hook.*.command", "program", "asks", "later versions of git run it as a hook"),
    Row("core.worktree", "file", "asks", "git would look at another folder"),
    Row("include.path", "file", "asks", "the file can hold any setting"),
    Row("includeif.*.path", "file", "asks", "the file can hold any setting"),
    Row("remote.*.promisor", "helper", "asks", "git fetches missing objects when it needs them"),
    Row("remote.*.partialclonefilter", "helper", "asks", "it makes the remote a promisor"),
    Row("extensions.partialclone", "helper", "asks", "it makes the remote a promisor"),
    Row("core.excludesfile", "file", "asks-unless-own-file", "`git check-ignore -v` prints of it"),
    Row(
        "core.attributesfile", "file", "asks-unless-own-file", "git prints lines of it in warnings"
    ),
    Row("blame.ignorerevsfile", "file", "asks-unless-own-file", "`git blame` prints a bad line"),
    Row("submodule.*.ignore", "switch", "followed", "submodules are checked themselves"),
    Row("man.viewer", "program", "asks", _HELP),
    Row("man.*.cmd", "program", "asks", _HELP),
    Row("man.*.path", "program", "asks", _HELP),
    Row("browser.*.cmd", "program", "asks", _HELP),
    Row("browser.*.path", "program", "asks", _HELP),
    Row("web.browser", "program", "asks", _HELP),
    Row("help.browser", "program", "asks", _HELP),
    Row("help.format", "switch", "asks", _HELP),
    Row("help.htmlpath", "file", "asks", _HELP),
    Row("core.fsmonitor", "program", "overridden", "nearly every command runs it", "false"),
    Row("core.hookspath", "file", "overridden", "hooks are taken from there", "/dev/null"),
    Row("diff.submodule", "switch", "overridden", "`diff` runs git in submodules", "short"),
    # `dirty` compares commits only; `all` would also leave a staged change of one out.
    Row("diff.ignoresubmodules", "switch", "overridden", "git runs in submodules", "dirty"),
    Row("status.submodulesummary", "switch", "overridden", "it runs in submodules", "false"),
    Row("submodule.recurse", "switch", "overridden", "`git grep` enters submodules", "false"),
    Row("log.showsignature", "switch", "overridden", "it runs gpg", "false"),
    Row("log.diffmerges", "switch", "overridden", "`remerge` runs merge drivers", "separate"),
    Row("gpg.program", "program", "overridden", "the format `%G?` runs it", "false"),
    Row("gpg.openpgp.program", "program", "overridden", "the format `%G?` runs it", "false"),
    Row("gpg.x509.program", "program", "overridden", "the format `%G?` runs it", "false"),
    Row("gpg.ssh.program", "program", "overridden", "the format `%G?` runs it", "false"),
    Row("gpg.ssh.allowedsignersfile", "file", "overridden", "signatures", "/dev/null"),
    Row("gpg.ssh.revocationfile", "file", "overridden", "signatures", "/dev/null"),
    Row("diff.orderfile", "file", "overridden", "`git diff` reads it", "/dev/null"),
    Row("mailmap.file", "file", "overridden", "names of authors show its lines", "/dev/null"),
    Row("core.pager", "program", "variable", "GIT_PAGER"),
    Row("pager.*", "program", "variable", "GIT_PAGER"),
    Row("core.sshcommand", "program", "variable", _TRANSPORT),
    Row("core.gitproxy", "program", "variable", _TRANSPORT),
    Row("core.askpass", "program", "variable", _TRANSPORT),
    Row("credential.*", "program", "variable", _TRANSPORT),
    Row("remote.*.uploadpack", "program", "variable", _TRANSPORT),
    Row("remote.*.receivepack", "program", "variable", _TRANSPORT),
    Row("remote.*.vcs", "helper", "variable", _TRANSPORT),
    Row("protocol.*.allow", "helper", "variable", _TRANSPORT),
    Row("protocol.allow", "helper", "variable", _TRANSPORT),
    Row("fetch.bundleuri", "file", "variable", _TRANSPORT),
    Row("bundle.*.uri", "file", "variable", _TRANSPORT),
    Row("http.*cookiefile", "file", "variable", _TRANSPORT),
    Row("http.*sslcert", "file", "variable", _TRANSPORT),
    Row("http.*sslkey", "file", "variable", _TRANSPORT),
    Row("http.*sslcainfo", "file", "variable", _TRANSPORT),
    Row("http.*sslcapath", "file", "variable", _TRANSPORT),
    Row("http.*pinnedpubkey", "file", "variable", _TRANSPORT),
    Row("http.*proxysslcert", "file", "variable", _TRANSPORT),
    Row("http.*proxysslkey", "file", "variable", _TRANSPORT),
    Row("http.*proxysslcainfo", "file", "variable", _TRANSPORT),
    Row("alias.*", "program", "unread", "an alias never replaces a command of git's own"),
    Row("core.alternaterefscommand", "program", "unread", "only fetching and pushing read it"),
    Row("core.editor", "program", "unread", _WRITES),
    Row("sequence.editor", "program", "unread", _WRITES),
    Row("interactive.difffilter", "program", "unread", _WRITES),
    Row("merge.*.driver", "program", "unread", "only merging runs it"),
    Row("pull.twohead", "program", "unread", "only merging runs it"),
    Row("pull.octopus", "program", "unread", "only merging runs it"),
    Row("commit.template", "file", "unread", _WRITES),
    Row("trailer.*.command", "program", "unread", _WRITES),
    Row("trailer.*.cmd", "program", "unread", _WRITES),
    Row("gpg.*.program", "program", "unread", "git knows no other format"),
    Row("gpg.ssh.defaultkeycommand", "program", "unread", "only signing reads it"),
    Row("user.signingkey", "file", "unread", "only signing reads it"),
    Row("submodule.*.update", "program", "unread", "only `git submodule update` reads it"),
    Row("diff.tool", "program", "unread", _TOOL),
    Row("diff.guitool", "program", "unread", _TOOL),
    Row("merge.tool", "program", "unread", _TOOL),
    Row("merge.guitool", "program", "unread", _TOOL),
    Row("difftool.*.cmd", "program", "unread", _TOOL),
    Row("difftool.*.path", "program", "unread", _TOOL),
    Row("mergetool.*.cmd", "program", "unread", _TOOL),
    Row("mergetool.*.path", "program", "unread", _TOOL),
    Row("tar.*.command", "program", "unread", "only `git archive` reads it"),
    Row("init.templatedir", "file", "unread", "only `git init` and `git clone` read it"),
    Row("fsck.skiplist", "file", "unread", "only `git fsck` reads it"),
    Row("fetch.fsck.skiplist", "file", "unread", "only `git fetch` reads it"),
    Row("receive.fsck.skiplist", "file", "unread", _SERVES),
    Row("uploadpack.packobjectshook", "program", "unread", _SERVES),
    Row("receive.procreceiverefs", "program", "unread", _SERVES),
    Row("format.signaturefile", "file", "unread", _MAIL),
    Row("format.outputdirectory", "file", "unread", _MAIL),
    Row("imap.tunnel", "program", "unread", _MAIL),
    Row("sendemail.*", "program", "unread", _MAIL),
    Row("gitcvs.*", "file", "unread", _DESKTOP),
    Row("gitweb.*", "program", "unread", _DESKTOP),
    Row("guitool.*.cmd", "program", "unread", _DESKTOP),
    Row("gui.*", "program", "unread", _DESKTOP),
    Row("instaweb.*", "program", "unread", _DESKTOP),
    Row("fsmonitor.socketdir", "file", "unread", "only the monitor that is off reads it"),
    Row("safe.directory", "file", "unread", _PROTECTED),
    Row("trace2.normaltarget", "file", "unread", _PROTECTED),
    Row("trace2.perftarget", "file", "unread", _PROTECTED),
    Row("trace2.eventtarget", "file", "unread", _PROTECTED),
)

_MORE = (
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
    pairs = (*_MORE, *((row.key, row.value) for row in ROWS if row.answer == "overridden"))
    numbered = {"GIT_CONFIG_COUNT": str(len(pairs))}
    for number, (key, value) in enumerate(pairs):
        numbered[f"GIT_CONFIG_KEY_{number}"] = key
        numbered[f"GIT_CONFIG_VALUE_{number}"] = value
    # Git before 2.31 does not count them. This is how `git -c` hands settings on in every version.
    parameters = " ".join(f"'{key}={value}'" for key, value in pairs)
    return {**numbered, "GIT_CONFIG_PARAMETERS": parameters, **_VARIABLES}


@lru_cache(maxsize=1024)
def row_for(key: str) -> Row | None:
    """The first row for a setting, or None if it names neither a program nor a file."""
    found = _pattern().fullmatch(key.lower())
    return ROWS[found.lastindex - 1] if found and found.lastindex else None


@cache
def _pattern() -> re.Pattern[str]:
    escaped = (re.escape(row.key).replace(r"\*", ".*") for row in ROWS)
    return re.compile("|".join(f"({key})" for key in escaped), re.DOTALL)
