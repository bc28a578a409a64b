"""Every git setting that names a program or a file, in a hostile repository."""

import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from dirge_py.permission.git.files import ACTING_SETTINGS, ActingSetting, Kind, acting_setting
from dirge_py.permission.git.repository import GIT_HARDENING
from dirge_py.processes.environment import EnvironmentPolicy
from tests.security.sizes import ASKED

from .conftest import QUIET_GIT, Project

COMMANDS = (
    "git status", "git status --porcelain -uno", "git diff", "git diff --stat", "git diff HEAD",
    "git diff --cached", "git log -p -2", "git log -m --stat -2", "git show", "git show HEAD~1",
    "git show HEAD:README.md", "git blame README.md", "git ls-files -m -o", "git grep README",
    "git describe --always", "git check-ignore -v x", "git branch -a", "git tag -l",
    "git remote -v", "git remote get-url origin", "git stash list", "git worktree list",
    "git shortlog -s HEAD", "git rev-list --count HEAD", "git ls-tree -r HEAD",
)  # fmt: skip
SECRET = "canary-2f9c1d <u@example.com>"
NAMED = {"gpg.*.program": "gpg.other.program", "remote.*": "remote.origin", "submodule.*": "sub"}
SWITCHED = {
    "diff.submodule": "diff", "diff.ignoresubmodules": "none", "status.submodulesummary": "true",
    "submodule.recurse": "true", "log.showsignature": "true", "log.diffmerges": "remerge",
    "help.format": "web", "submodule.*.ignore": "none", "protocol.allow": "always",
    "protocol.*.allow": "always", "remote.*.vcs": "helper", "safe.directory": "*",
    "remote.*.promisor": "true", "extensions.partialclone": "origin",
    "remote.*.partialclonefilter": "blob:none",
}  # fmt: skip
TRANSPORT = "GIT_ALLOW_PROTOCOL lets no transport start"
WRITES = "only commands that write read it"
TOOL = "only `git difftool` and `git mergetool` read it"
SERVES = "only a server side reads it"
MAIL = "only `git format-patch`, `send-email` and `imap-send` read it"
DESKTOP = "only gitk, git gui, gitweb, git cvsserver and `git instaweb` read it"
UNREAD: tuple[tuple[Kind, str, str], ...] = (
    # what the settings name, the settings, why no read-only command uses them
    ("program", "pager.*", "GIT_PAGER"),
    ("program", "core.sshcommand core.gitproxy core.askpass credential.*", TRANSPORT),
    ("program", "remote.*.uploadpack remote.*.receivepack", TRANSPORT),
    ("helper", "remote.*.vcs protocol.*.allow protocol.allow", TRANSPORT),
    ("file", "fetch.bundleuri bundle.*.uri http.*cookiefile http.*sslcert", TRANSPORT),
    ("file", "http.*sslkey http.*sslcainfo http.*sslcapath", TRANSPORT),
    ("file", "http.*pinnedpubkey http.*proxysslcert", TRANSPORT),
    ("file", "http.*proxysslkey http.*proxysslcainfo", TRANSPORT),
    ("program", "alias.*", "an alias never replaces a command of git's own"),
    ("program", "core.alternaterefscommand", "only fetching and pushing read it"),
    ("program", "core.editor sequence.editor interactive.difffilter", WRITES),
    ("program", "core.pager", "GIT_PAGER"),
    ("program", "merge.*.driver pull.twohead pull.octopus", "only merging runs it"),
    ("file", "commit.template", WRITES),
    ("program", "trailer.*.command trailer.*.cmd", WRITES),
    ("program", "gpg.*.program", "git knows no other format"),
    ("program", "gpg.ssh.defaultkeycommand", "only signing reads it"),
    ("file", "user.signingkey", "only signing reads it"),
    ("program", "submodule.*.update", "only `git submodule update` reads it"),
    ("program", "diff.tool diff.guitool merge.tool merge.guitool difftool.*.cmd", TOOL),
    ("program", "difftool.*.path mergetool.*.cmd mergetool.*.path", TOOL),
    ("program", "tar.*.command", "only `git archive` reads it"),
    ("file", "init.templatedir", "only `git init` and `git clone` read it"),
    ("file", "fsck.skiplist", "only `git fsck` reads it"),
    ("file", "fetch.fsck.skiplist", "only `git fetch` reads it"),
    ("file", "receive.fsck.skiplist", SERVES),
    ("program", "uploadpack.packobjectshook receive.procreceiverefs", SERVES),
    ("file", "format.signaturefile format.outputdirectory", MAIL),
    ("program", "imap.tunnel sendemail.*", MAIL),
    ("file", "gitcvs.*", DESKTOP),
    ("program", "gitweb.* guitool.*.cmd gui.* instaweb.*", DESKTOP),
    ("file", "fsmonitor.socketdir", "only the monitor that is off reads it"),
    ("file", "safe.directory trace2.normaltarget trace2.perftarget trace2.eventtarget",
     "git reads it from the user's own settings only"),
)  # fmt: skip
SAME_EVERYWHERE = [
    ActingSetting(key, kind, "followed") for kind, keys, _why in UNREAD for key in keys.split()
]
OVERRIDDEN = [row for row in ACTING_SETTINGS if row.answer == "overridden"]
FIRES_UNLESS_HARDENED = ("core.fsmonitor", "core.hookspath", "gpg.program", "mailmap.file")


class Hostile:
    """A project with a submodule, and a program that records each of its starts."""

    def __init__(self, home: Path) -> None:
        self.project = project = Project(home)
        self.secret = home / "secret"
        self.secret.write_text(f"{SECRET}\n")
        self.hooks = home / "hooks"
        self.hooks.mkdir()
        self.program = self.hooks / "post-index-change"
        self.program.write_text(f"#!/bin/sh\n: > {home}/ran\n")
        self.program.chmod(self.program.stat().st_mode | stat.S_IXUSR)
        self.inner = project.root / "sub"
        self.inner.mkdir()
        (self.inner / "f").write_text("f\n")
        project.git("init", "-q", cwd=self.inner)
        (self.inner / ".gitattributes").write_text("* filter=x\n")
        project.git("add", "f", ".gitattributes", cwd=self.inner)
        project.git("commit", "-q", "-m", "inner", cwd=self.inner)
        (project.root / ".gitmodules").write_text(
            '[submodule "sub"]\n\tpath = sub\n\turl = ./sub\n\tignore = none\n'
        )
        (project.root / ".gitattributes").write_text("* diff=x merge=x filter=x\n")
        project.git("add", "README.md", "src", "sub", ".gitmodules", ".gitattributes")
        project.git("commit", "-q", "-m", "first")
        self._sign()
        (project.root / "README.md").write_text("changed\n")
        for config in (self.config, self.inner_config):
            text = config.read_text() + "[format]\n\tpretty = %G? %aN\n"
            config.write_text(f'{text}[remote "origin"]\n\turl = https://example.com/x\n')
        self.plain = {file: file.read_text() for file in (self.config, self.inner_config)}

    @property
    def config(self) -> Path:
        return self.project.root / ".git/config"

    @property
    def inner_config(self) -> Path:
        return self.inner / ".git/config"

    def _sign(self) -> None:
        """A second commit with a fake signature."""
        head = self.project.git("cat-file", "commit", "HEAD")
        head = head.replace("\nauthor", f"\nparent {self.project.git('rev-parse', 'HEAD')}author")
        signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n"
        file = self.project.home / "commit"
        file.write_text(head.replace("\n\n", f"\n{signature}\n", 1))
        made = self.project.git("hash-object", "-t", "commit", "-w", str(file)).strip()
        self.project.git("update-ref", "HEAD", made)

    def set(self, config: Path, *rows: ActingSetting) -> None:
        """Write only these settings, naming the program, the secret file or the worst switch."""
        for file, text in self.plain.items():
            file.write_text(text)
        # Written without git, because some of these settings break git.
        config.write_text(self.plain[config] + "".join(map(self._lines, rows)))

    def _lines(self, row: ActingSetting) -> str:
        name = re.sub(r"^(remote|submodule)\.\*", r"\1.origin", row.key)
        key = NAMED.get(row.key, name.replace("http.*", "http.").replace("*", "x"))
        folder = self.secret if row.kind == "file" else self.program
        value = SWITCHED.get(row.key, str(self.hooks if "hookspath" in key else folder))
        section, _, last = key.rpartition(".")
        first, _, second = section.partition(".")
        head = f'[{first} "{second}"]' if second else f"[{first}]"
        return f'{head}\n\t{last} = "{value}"\n'

    def run(self, *, lacking: str = "", hardened: bool = True) -> tuple[bool, str]:
        """Whether any command started the program, and all output."""
        (self.project.home / "ran").unlink(missing_ok=True)
        # New files make git compare contents, so that it looks into the submodule.
        for file in (self.inner / "f", self.project.root / "README.md"):
            text = file.read_text()
            file.unlink()
            file.write_text(text)
        source = {"PATH": os.environ["PATH"], "HOME": str(self.project.home)}
        policy = EnvironmentPolicy(source=source)
        environment = policy.build("mark", GIT_HARDENING) if hardened else source
        environment = {name: text for name, text in environment.items() if name != lacking}
        done = subprocess.run(
            ["bash", "-c", "; ".join(COMMANDS)],
            cwd=self.project.root,
            env={**environment, **QUIET_GIT},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        return (self.project.home / "ran").exists(), done.stdout + done.stderr

    def effect(self) -> tuple[str, str]:
        decision = self.project.run("; ".join(COMMANDS))
        return decision.effect, decision.reason


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hostile]:
    made = Hostile(tmp_path_factory.mktemp("home").resolve())
    yield made
    made.project.workspace.close()


def by_key(row: ActingSetting) -> str:
    return row.key


def grouped(rows: Sequence[ActingSetting]) -> list[Sequence[ActingSetting]]:
    """Single settings in full-size runs, else groups of a few dozen."""
    step = 1 if ASKED else 40
    return [rows[start : start + step] for start in range(0, len(rows), step)]


def by_keys(rows: Sequence[ActingSetting]) -> str:
    return f"{rows[0].key}-{len(rows)}"


@pytest.mark.parametrize("rows", [*grouped(OVERRIDDEN), *grouped(SAME_EVERYWHERE)], ids=by_keys)
def test_overridden_or_unread_git_settings_run_nothing_and_do_not_ask(
    hostile: Hostile, rows: Sequence[ActingSetting]
) -> None:
    hostile.set(hostile.config, *rows)

    assert hostile.effect() == ("allow", "a read-only command")
    ran, printed = hostile.run()
    assert (ran, SECRET.split()[0] in printed) == (False, False)
    assert "README" in printed


@pytest.mark.parametrize("lacking", ["GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT"])
def test_either_git_config_variable_alone_overrides_settings(
    hostile: Hostile, lacking: str
) -> None:
    hostile.set(hostile.config, *OVERRIDDEN)

    ran, printed = hostile.run(lacking=lacking)

    assert (ran, SECRET.split()[0] in printed) == (False, False)


@pytest.mark.parametrize("rows", grouped(SAME_EVERYWHERE), ids=by_keys)
def test_unread_git_settings_run_nothing_in_submodule(
    hostile: Hostile, rows: Sequence[ActingSetting]
) -> None:
    hostile.set(hostile.inner_config, *rows)

    assert hostile.effect()[0] == "allow"
    ran, printed = hostile.run()
    assert (ran, SECRET.split()[0] in printed) == (False, False)


@pytest.mark.parametrize("row", [row for row in OVERRIDDEN if row.kind != "switch"], ids=by_key)
def test_overridden_git_setting_in_submodule_asks(hostile: Hostile, row: ActingSetting) -> None:
    hostile.set(hostile.inner_config, row)

    effect, reason = hostile.effect()
    assert effect == "ask"
    assert str(hostile.inner_config) in reason


@pytest.mark.parametrize("where", ["config", "inner_config"])
@pytest.mark.parametrize(
    "row", [row for row in ACTING_SETTINGS if row.answer.startswith("asks")], ids=by_key
)
def test_git_setting_that_cannot_be_overridden_asks_and_is_named(
    hostile: Hostile, row: ActingSetting, where: str
) -> None:
    config = getattr(hostile, where)
    hostile.set(config, row)

    effect, reason = hostile.effect()
    assert effect == "ask"
    assert str(config) in reason
    assert row.key.rpartition(".")[2] in reason


@pytest.mark.parametrize("key", FIRES_UNLESS_HARDENED)
def test_unhardened_git_runs_program_or_shows_secret_of_setting(hostile: Hostile, key: str) -> None:
    row = acting_setting(key)
    assert row is not None
    hostile.set(hostile.config, row)

    ran, printed = hostile.run(hardened=False)

    assert ran or SECRET.split()[0] in printed


REMOTES = {
    "ssh": '[remote "r"]\n\turl = ssh://x/y\n[core]\n\tsshCommand = PROGRAM\n',
    "local": '[remote "r"]\n\turl = ./sub\n\tuploadpack = PROGRAM\n',
    "ext": '[remote "r"]\n\turl = ext::PROGRAM\n[protocol]\n\tallow = always\n',
    "ext-allowed": '[remote "r"]\n\turl = ext::PROGRAM\n[protocol "ext"]\n\tallow = always\n',
    "git": '[remote "r"]\n\turl = git://x/y\n[core]\n\tgitProxy = PROGRAM\n',
    "vcs": '[remote "r"]\n\turl = x\n\tvcs = helper\n',
}


@pytest.mark.parametrize("kind", REMOTES)
def test_hardened_git_starts_no_transport(hostile: Hostile, kind: str) -> None:
    """Git fetches missing objects through transports, in any command."""
    helper = hostile.hooks / "git-remote-helper"
    if not helper.exists():
        helper.symlink_to(hostile.program)
    hostile.set(hostile.config)
    lines = REMOTES[kind].replace("PROGRAM", str(hostile.program))
    hostile.config.write_text(hostile.plain[hostile.config] + lines)
    marker = hostile.project.home / "ran"
    marker.unlink(missing_ok=True)

    for hardening in (GIT_HARDENING, {}):
        path = f"{hostile.hooks}:{os.environ['PATH']}"
        subprocess.run(
            ["git", "ls-remote", "r"],
            cwd=hostile.project.root,
            env={"PATH": path, "HOME": str(hostile.project.home), **QUIET_GIT, **hardening},
            capture_output=True,
            check=False,
            timeout=30,
        )
        assert marker.exists() != bool(hardening)


def test_git_runs_filter_of_submodule_used_in_these_tests(hostile: Hostile) -> None:
    row = acting_setting("filter.x.clean")
    assert row is not None
    hostile.set(hostile.inner_config, row)

    assert hostile.run()[0]


@pytest.mark.parametrize(
    "lines",
    [
        "[core]\n\thooksPath = .husky/_\n",
        "[core]\n\tpager = delta\n\teditor = vim\n[commit]\n\ttemplate = y\n",
        '[diff]\n\ttool = meld\n[merge]\n\ttool = meld\n[mergetool "x"]\n\tcmd = y\n',
        "[user]\n\tname = a\n\temail = b\n\tsigningKey = c\n[commit]\n\tgpgSign = true\n",
        '[branch "main"]\n\tremote = o\n\tmerge = refs/heads/main\n[url "a:"]\n\tinsteadOf = b:\n',
        '[remote "o"]\n\turl = git@x:y\n\tfetch = +refs/heads/*:refs/remotes/o/*\n',
        "[core]\n\tsshCommand = ssh -i key\n\tfsmonitor = true\n[alias]\n\tst = status\n",
        "[blame]\n\tignoreRevsFile = README.md\n[core]\n\texcludesFile = notes.txt\n",
    ],
)
def test_ordinary_git_settings_do_not_ask(hostile: Hostile, lines: str) -> None:
    hostile.set(hostile.config)
    hostile.config.write_text(hostile.plain[hostile.config] + lines)

    assert hostile.effect()[0] == "allow"


@pytest.mark.parametrize("value", [".env", "../secret", "/etc/passwd", "~/x", "link", "src"])
def test_ignore_revs_file_that_could_show_another_file_asks(hostile: Hostile, value: str) -> None:
    hostile.set(hostile.config)
    link = hostile.project.root / "link"
    link.unlink(missing_ok=True)
    link.symlink_to(hostile.secret)
    hostile.config.write_text(
        f"{hostile.plain[hostile.config]}[blame]\n\tignoreRevsFile = {value}\n"
    )

    assert (hostile.effect()[0] == "ask") == (value != "src")


def known_to_git() -> list[str]:
    done = subprocess.run(["git", "help", "--config"], capture_output=True, text=True, check=False)
    return [line for line in done.stdout.splitlines() if re.fullmatch(r"[A-Za-z]\S*\.\S+", line)]


def names_a_program_or_file(key: str) -> bool:
    key = re.sub(r"<[^>]*>", "x", key).lower()
    return acting_setting(key) is not None or any(
        fnmatchcase(key, row.key) for row in SAME_EVERYWHERE
    )


def test_no_git_setting_is_listed_as_acting_and_as_unread() -> None:
    acting = {row.key for row in ACTING_SETTINGS}

    assert acting.isdisjoint(row.key for row in SAME_EVERYWHERE)


def test_every_setting_known_to_git_is_classified() -> None:
    listed = Path(__file__).with_name("git_settings_that_do_not_act.txt").read_text().splitlines()
    harmless = [line.lower() for line in listed if not line.startswith("#")]
    assert shutil.which("git")

    unjudged = [
        key
        for key in known_to_git()
        if not names_a_program_or_file(key)
        and not any(key.lower() == one or fnmatchcase(key.lower(), one) for one in harmless)
    ]

    assert unjudged == []


def test_list_of_harmless_git_settings_contains_no_acting_setting() -> None:
    listed = Path(__file__).with_name("git_settings_that_do_not_act.txt").read_text().splitlines()

    assert list(filter(names_a_program_or_file, listed)) == []


def test_made_up_git_setting_is_unclassified_and_unknown_to_git() -> None:
    assert acting_setting("core.futureprogram") is None
    assert "core.futureprogram" not in known_to_git()
