"""A recursive search reads nothing that would ask as a single read."""

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dirge_py.files import versions
from dirge_py.permission import recursive_reads
from dirge_py.permission.ignore_files import IgnoreFiles
from dirge_py.permission.rules import Effect, Mode
from tests.permission.conftest import QUIET_GIT, Project, allow, deny
from tests.security.sizes import count, size
from tests.support.authorizer_driver import AuthorizerDriver

KEY = "-----BEGIN PRIVATE KEY-----\nhit\n-----END PRIVATE KEY-----\n"
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nhit\n-----END CERTIFICATE-----\n"


def write(root: Path, files: Mapping[str, str]) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


SECRETS = {".env": "hit", "certs/server.pem": KEY, "config/secrets.yml": "hit"}


def guard(project: Project) -> Project:
    """Create secrets that git ignores, in ordinary folders and at the top."""
    write(project.root, {**SECRETS, ".gitignore": ".env\n*.pem\nsecrets.yml\n"})
    project.git("add", "-A")
    return project


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A project with secrets, shared by tests that change nothing."""
    made = Project(tmp_path_factory.mktemp("home").resolve())
    yield guard(made)
    made.workspace.close()


@pytest.fixture
def own_guarded(own_project: Project) -> Project:
    return guard(own_project)


@pytest.mark.parametrize(
    "command",
    [
        "grep -rn hit .", "grep -r hit", "grep -rn hit . | head", "grep -rn hit ./*",
        "grep -rn hit c*", "grep -rn hit src certs", "cd certs && grep -rn hit",
        "grep -rn hit --include='*.pem' .", "grep -rn hit --include='*' --include='*.py' .",
        "grep -rn hit --exclude='*.pem' --include='server.*' certs",
        "grep -rn hit --exclude='[s]erver.pem' certs", "grep -rlc hit .", "grep -rnq hit .",
        "rg -uu hit", "rg -u -u hit", "rg -uuu hit", "rg --no-ignore hit", "rg -u hit certs",
        "rg --no-ignore-vcs hit", "rg -g '*' hit", "rg -g '*.pem' hit", "rg -g '.env' hit",
        "rg -g '*.{pem,py}' hit", "rg --hidden --no-ignore hit", "rg -. -u hit",
        "rg -u -g '!*.pem' -g 'server.pem' hit", "rg -u --iglob '*.PEM' hit", "rg -ul hit",
        "rg -u -t yaml hit", "rg -u --type-add 'py:*.pem' -t py hit", "rg -u -g '!**/[s]*' hit",
        "git grep --untracked hit", "git grep hit HEAD", "git grep hit HEAD -- src",
        "git grep hit nothing-there", "git grep hit ':/'", "git grep -- hit HEAD",
        "git grep -- hit HEAD -- src", "ls | rg -u hit < /dev/null",
        "rg hit certs/server.pem", "grep hit certs/*", "cat certs/*", "head -n 1 .e*",
    ],
)  # fmt: skip
def test_search_that_would_read_secret_asks(guarded: Project, command: str) -> None:
    assert guarded.run(command).effect == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "rg hit", "rg hit .", "rg hit src", "rg --hidden hit", "rg -i hit src README.md",
        "rg -t py -uu hit", "rg -uu -g '*.py' hit", "rg -uu -g '!.env' -g '!*.{pem,yml}' hit",
        "rg -uu -g '!.env' -g '!certs' -g '!config/' hit", "rg --files -uu", "ls | rg -uu hit",
        "git grep hit", "git grep -n hit -- src", "git grep hit src", "git grep -e hit -- '*.py'",
        "git grep --cached hit", "git --no-pager grep -P hit", "git grep -- hit -- src",
        "grep -rn --include=*.py hit .", "grep -rn hit src", "grep -rn hit --include='*.py' .",
        "grep -rn hit . --exclude=.env --exclude='*.pem' --exclude=secrets.yml",
        "grep -rn hit . --exclude='.env*' --exclude-dir=certs --exclude-dir=config/",
        "grep -rn --include='*.py' --include='*.md' hit .", "cat s*/*.py", "ls -R", "ls -la certs",
        "find . -newer README.md", "find . -name '*.pem'", "cat README.md | grep hit",
    ],
)  # fmt: skip
def test_search_that_leaves_out_secrets_is_allowed(guarded: Project, command: str) -> None:
    decision = guarded.run(command)

    assert (decision.effect, decision.reason) == ("allow", decision.reason)


@pytest.mark.parametrize(
    "command", ["cat n*", "head -n 1 src/../n*s.txt", "cat *", "tail -- n?tes*"]
)
def test_glob_that_expands_to_file_of_deny_rule_is_denied(project: Project, command: str) -> None:
    decision = project.run(command, deny("read:notes.txt"), mode="yolo")

    assert (decision.effect, decision.policy) == ("deny", "deny-rule")


def test_approval_reason_names_secret_files_and_how_to_leave_them_out(guarded: Project) -> None:
    decision = guarded.run("grep -rn hit .")

    for words in (".env", "certs/server.pem", "config/secrets.yml", "use the `grep` tool"):
        assert words in decision.reason
    assert {claim.resource for claim in decision.claims if claim.effect == "ask"} == {
        str(guarded.root / name) for name in SECRETS
    }
    assert decision.grant == ()


@pytest.mark.parametrize("command", ["grep -rn hit .", "rg -uu hit", "git grep --untracked hit"])
def test_options_suggested_in_approval_reason_make_search_allowed(
    own_project: Project, command: str
) -> None:
    write(own_project.root, {"sub/.env.local": "hit", "secrets.yml": "hit"})
    decision = own_project.run(command)

    added = decision.reason.rpartition("or add ")[2]
    again = own_project.run(f"{command} {added}")

    assert (decision.effect, again.effect, again.reason) == ("ask", "allow", again.reason)


async def test_denial_text_for_model_suggests_grep_tool_and_exclude_options(
    guarded: Project,
) -> None:
    driver = AuthorizerDriver(guarded)

    text = await driver.run(driver.bash("grep -rn hit ."))

    assert "certs/server.pem" in text
    assert "use the `grep` tool, which leaves such files out, or add --exclude=" in text


async def test_grep_tool_leaves_out_the_same_secret_files(own_guarded: Project) -> None:
    (own_guarded.root / ".gitignore").unlink()
    driver = AuthorizerDriver(own_guarded)
    own_guarded.workspace.withheld = driver.gate.withholds

    found = await driver.run(driver.call("grep", pattern="hit"))

    assert not any(name in found for name in SECRETS)
    assert "left out" in found


def test_excluding_key_folder_by_name_makes_search_allowed(own_project: Project) -> None:
    (own_project.root / ".env").unlink()
    write(own_project.root, {"deploy/.ssh/config": "hit"})

    assert "deploy/.ssh" in own_project.run("grep -rn hit .").reason
    assert own_project.run("grep -rn hit . --exclude-dir=.ssh").effect == "allow"
    assert own_project.run("rg -uu hit -g '!.ssh'").effect == "allow"


def test_approval_reason_with_many_secrets_is_shortened(own_project: Project) -> None:
    write(own_project.root, {f"s{number:02}/.env": "hit" for number in range(40)})

    reason = own_project.run("grep -rn hit .").reason

    assert "and 13 more" in reason
    assert len(reason) < 300


@pytest.mark.parametrize(
    ("files", "effect"),
    [
        ({".venv/lib/site-packages/certifi/cacert.pem": CERTIFICATE}, "allow"),
        ({"ca.pem": CERTIFICATE * 3, "public.key": CERTIFICATE}, "allow"),
        ({"node_modules/tls/test/server.key": KEY}, "allow"),
        ({"ca.pem": CERTIFICATE + KEY}, "ask"),
        ({"ca.pem": "no certificate"}, "ask"),
        ({"node_modules/x/.env": "hit"}, "ask"),
    ],
)
def test_public_certificates_and_keys_in_packages_are_no_secrets(
    own_project: Project, files: Mapping[str, str], effect: Effect
) -> None:
    (own_project.root / ".env").unlink()
    write(own_project.root, files)

    assert own_project.run("grep -rn hit .").effect == effect


def test_certificate_file_replaced_by_key_asks(own_project: Project) -> None:
    write(own_project.root, {"a.pem": CERTIFICATE})
    assert own_project.run("cat a.pem").effect == "allow"

    write(own_project.root, {"a.pem": KEY})

    assert own_project.run("cat a.pem").effect == "ask"


def test_secret_created_later_makes_search_ask(own_project: Project) -> None:
    (own_project.root / ".env").unlink()
    gate = own_project.gate()
    claims = [own_project.execute("grep -rn hit .")]
    os.utime(own_project.root / "src", (1, 1))
    assert gate.decide(claims).effect == "allow"

    write(own_project.root, {"src/.env": "hit"})

    assert gate.decide(claims).effect == "ask"


def create_until_folder_changes(path: Path, make: Callable[[], object]) -> None:
    """Create `path`, until its folder's modification time has changed."""
    before = path.parent.stat().st_ctime_ns
    make()
    while path.parent.stat().st_ctime_ns == before:
        path.unlink()
        make()


def test_files_created_later_in_cached_folders_make_searches_ask(
    own_project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "SETTLED_NS", -1 << 62)
    root = own_project.root
    (root / ".env").unlink()
    write(root, {"lib/inner/a.py": "hit", ".ignore": "secrets.yml\n"})
    write(root, {"lib/inner/secrets.yml": "hit", ".git/info/x": ""})
    own_project.git("add", "README.md", "lib/inner/a.py")
    gate = own_project.gate()
    searches = ("rg hit", "rg hit lib", "git grep hit", "grep -rn hit src")
    claims = {search: [own_project.execute(search)] for search in searches}
    for _ in range(2):
        assert {gate.decide(each).effect for each in claims.values()} == {"allow"}

    rule, secret, link = (
        root / "lib/inner/.ignore",
        root / "src/.env",
        root / ".git/info/attributes",
    )
    create_until_folder_changes(rule, lambda: rule.write_text("!secrets.yml\n"))
    create_until_folder_changes(secret, lambda: secret.write_text("hit"))
    create_until_folder_changes(link, lambda: link.symlink_to(root / "notes.txt"))

    assert {search: gate.decide(each).effect for search, each in claims.items()} == dict.fromkeys(
        searches, "ask"
    )


def test_tracked_secret_makes_git_grep_ask(own_project: Project) -> None:
    own_project.git("add", "-f", ".env")

    assert own_project.run("git grep hit").effect == "ask"
    assert own_project.run("git grep hit src").effect == "allow"
    assert own_project.run("git grep hit -- ':!.env'").effect == "allow"
    assert own_project.run("cd src && git grep hit").effect == "allow"
    assert own_project.run("cd src && git grep hit ..").effect == "ask"


def test_tracked_folder_replaced_by_symlink_makes_git_grep_ask(own_project: Project) -> None:
    write(own_project.root, {"sub/config": "hit"})
    write(own_project.home, {".ssh/config": "hit"})
    own_project.git("add", "sub")
    (own_project.root / "sub/config").unlink()
    (own_project.root / "sub").rmdir()
    assert own_project.run("git grep hit").effect == "allow"
    (own_project.root / "sub").symlink_to(own_project.home / ".ssh")

    assert own_project.run("git grep hit").effect == "ask"


def test_search_of_symlinked_folder_ignores_globs_for_target_name(own_guarded: Project) -> None:
    (own_guarded.root / "link").symlink_to("certs")

    for glob in ("!/certs/*.pem", "!certs/**", "!certs"):
        assert own_guarded.run(f"rg -u -g '{glob}' hit link").effect == "ask"
        assert own_guarded.run(f"rg -u -g '{glob}' hit link/").effect == "ask"


def test_glob_that_expands_to_file_named_like_option_asks(own_guarded: Project) -> None:
    command = "grep -rn hit certs --exclude=*.pem"
    assert own_guarded.run(command).effect == "allow"

    (own_guarded.root / "--exclude=other.pem").touch()

    assert own_guarded.run(command).effect == "ask"


def test_hidden_secret_included_again_by_gitignore_asks(own_project: Project) -> None:
    write(own_project.root, {"src/.env": "hit", "src/.gitignore": "!.env\n"})

    for command in ("rg hit", "rg hit src", "cd src && rg hit", "rg --no-ignore-parent hit src"):
        assert own_project.run(command).effect == "ask"
    assert own_project.run("rg --no-ignore-vcs hit").effect == "allow"


def test_ignore_file_that_is_too_long_counts_as_ignoring_nothing(own_project: Project) -> None:
    write(own_project.root, {".gitignore": "*.pem\n" * 6000, "a.pem": KEY})

    assert own_project.run("rg hit").effect == "ask"


@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_every_index_version_is_read_for_tracked_secrets(
    own_project: Project, version: str
) -> None:
    write(own_project.root, {"src/.env.local": "hit", "src/deep/er/a.py": "hit"})
    own_project.git("add", "-f", ".")
    if version == "3":
        own_project.git("add", "-f", "--intent-to-add", ".")
    own_project.git("update-index", "--index-version", "4" if version == "4" else "2")

    assert "src/.env.local" in own_project.run("git grep hit").reason
    own_project.git("rm", "-q", "--cached", ".env", "src/.env.local")
    assert own_project.run("git grep hit").effect == "allow"


def test_split_index_is_read_for_tracked_secrets(own_project: Project) -> None:
    own_project.git("add", "README.md")
    own_project.git("update-index", "--split-index")
    assert own_project.run("git grep hit").effect == "allow"

    write(own_project.root, {"src/.env.local": "hit"})
    own_project.git("add", "-f", "src/.env.local")

    assert "src/.env.local" in own_project.run("git grep hit").reason


def test_replaced_entries_of_split_index_are_read_for_tracked_secrets(own_project: Project) -> None:
    link = own_project.root / "server.pem"
    link.symlink_to("README.md")
    own_project.git("add", "-f", "README.md", "server.pem")
    own_project.git("update-index", "--split-index")
    link.unlink()
    link.write_text(KEY)
    own_project.git("add", "-f", "server.pem")
    blob = own_project.git("rev-parse", ":server.pem").strip()

    assert own_project.run("git grep hit").effect == "ask"
    assert own_project.run(f"git show {blob}").effect == "ask"
    assert own_project.run("git grep hit src").effect == "allow"


def test_secret_in_sparse_folder_makes_git_grep_ask(own_project: Project) -> None:
    write(own_project.root, {"deploy/server.pem": KEY, "lib/a.py": "hit"})
    own_project.git("add", "-f", "README.md", "deploy", "lib", "src")
    own_project.git("commit", "-q", "-m", "first")
    own_project.git("sparse-checkout", "set", "--cone", "--sparse-index", "src")
    assert b"deploy/\0" in (own_project.root / ".git/index").read_bytes()

    assert own_project.run("git grep --cached hit").effect == "ask"
    write(own_project.root, {"deploy/server.pem": KEY})

    assert own_project.run("git grep hit").effect == "ask"


def test_damaged_index_makes_git_grep_ask(own_project: Project) -> None:
    own_project.git("add", "README.md")
    index = own_project.root / ".git/index"
    index.write_bytes(index.read_bytes()[:40])

    assert own_project.run("git grep hit").effect == "ask"


def test_search_over_too_many_names_asks(
    own_project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    (own_project.root / ".env").unlink()
    write(own_project.root, {f"many/{number}": "" for number in range(31)})
    monkeypatch.setattr(recursive_reads, "MAX_NAMES", 30)

    decision = own_project.run("grep -rn hit many")

    assert decision.effect == "ask"
    assert "more files than dirge can check" in decision.reason


MODES: tuple[Mode, ...] = ("standard", "yolo")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "command",
    [
        "grep -rn hit HOME", "rg -uu hit HOME", "grep -rn hit HOME/.local", "cd HOME && grep -rn x",
        "grep -R hit HOME", "tar cf x.tar HOME", "cp -r HOME x", "bash -c 'grep -r x HOME'",
        "x=$(grep -rn hit HOME)", "cd / && grep -rn x", "grep -rn x ~", "cd ~; x=1; grep -r x .",
    ],
)  # fmt: skip
def test_search_that_includes_dirge_state_folder_is_denied(
    project: Project, command: str, mode: Mode
) -> None:
    decision = project.run(
        command.replace("HOME", str(project.home)), allow("execute:*"), mode=mode
    )

    assert (decision.effect, decision.policy) == ("deny", "hard-deny")


@pytest.mark.parametrize("command", ['cd "$X" && grep -rn x .', "cd - && grep -rn x ."])
def test_search_in_unknown_folder_asks(project: Project, command: str) -> None:
    assert project.run(command).effect == "ask"


def test_search_over_keys_in_home_workspace_is_never_allowed(own_project: Project) -> None:
    home = own_project.home
    write(home, {".ssh/id_ed25519": "hit", ".aws/credentials": "hit", "notes/a": "hit"})
    own_project.workspace.add_root(home)

    for command in (
        f"grep -rn hit {home}/.ssh/..",
        f"grep -rn hit {home}/.aws",
        "rg -. hit ../.aws",
    ):
        assert own_project.run(command).effect in ("ask", "deny")
    assert own_project.run(f"grep -rn hit {home}/notes").effect == "allow"
    assert own_project.run(f"rg hit {home}").effect == "allow"


NAMES = ["a.py", ".env", "server.pem", "secrets.yml", "id_rsa"]
FOLDERS = ["", "src", "src/deep", ".hidden", "build", "build/deep"]
PATTERNS = [
    ".env", "*.pem", "/secrets.yml", "secrets.yml", "build/", "/build/*", "src/*.yml", "!.env",
    "!*.pem", "**/deep/*.pem", "src/**", "id_*", "!/src/deep/id_rsa", "*", "!src/", "de?p/",
    "[s]*.yml", "!\\.env", ".*", "deep", "!build/deep/", "# id_rsa", "id_rsa ", "build",
    "secrets.yml\t", "\\secrets.yml", "!se[c]rets.yml", "{a,secrets}.yml", "**/**/secrets.yml",
    "s**s.yml", "*.yml/", "/**", "src/**/", "!*.p?m", "./secrets.yml", "//secrets.yml", " id_rsa",
    "!", "!/", "/", "**", "!**", "*/", "\\!x", "src/../id_rsa", "id_rsa\\ ", "!\tid_rsa", "é",
    "!id_*s?",
]  # fmt: skip
COMMANDS = [
    "rg hit", "rg hit .", "rg hit src", "rg hit build", "rg hit src/deep build", "rg -u hit",
    "rg -uu hit", "rg -. hit", "rg --no-ignore-vcs hit", "rg --no-ignore-parent hit src",
    "rg --no-ignore-parent hit", "rg -g '*.yml' hit", "rg -g '!*.yml' hit", "rg -g '!src' hit",
    "rg -g 'src/**' hit", "rg -g '!/build/' -g '*' hit", "rg -g '*.{yml,pem}' hit",
    "rg -. -g '!.env' hit src", "rg -t py hit", "rg -u -g '!deep/' hit", "rg -g '!**/deep/**' hit",
    "rg --iglob '!*.YML' hit", "cd src && rg hit", "cd src && rg hit ..", "cd build && rg hit",
    "cd src && rg -g '!/deep' hit", "cd src && rg -u -g '!/build' hit ..", "grep -r hit .",
    "grep -r hit --exclude='*.pem' .", "grep -r hit --exclude-dir=build --exclude=.env .",
    "grep -r hit --include='*.y*' .", "grep -r hit --include='*.py' --exclude='a*' src",
    "grep -r hit --exclude='*' --include=id_rsa .", "git grep hit", "git grep hit src",
    "git grep hit -- '*.pem'", "git grep hit -- ':!src'", "git grep hit -- ':!*.yml' build src",
    "git grep --untracked hit", "git grep --cached hit", "cd src && git grep hit",
    "cd src && git grep hit -- deep", "cd src && git grep --untracked hit .. ",
]  # fmt: skip


def printed(command: str, root: Path) -> set[str]:
    """The files in which the real program finds something."""
    folder, _, rest = command.rpartition(" && ")
    where = root / folder.removeprefix("cd ")
    program = rest.replace(" hit", " -l hit", 1)
    done = subprocess.run(
        ["bash", "-c", program],
        cwd=where,
        env={**os.environ, **QUIET_GIT, "HOME": str(root)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    return {os.path.normpath(where / line) for line in done.stdout.splitlines()}


RULE_FILES = [".gitignore", ".ignore", ".rgignore", ".git/info/exclude"]


def test_allowed_search_never_reads_secret_when_really_run(own_project: Project) -> None:
    root = own_project.root
    secrets = {f"{folder}/{name}".lstrip("/") for folder in FOLDERS for name in NAMES}
    write(root, dict.fromkeys(secrets, "hit\n"))
    kept = {str(root / name) for name in secrets if not name.endswith(".py")}
    effects: list[str] = []

    @settings(max_examples=size(25, 400), deadline=None)
    @example("rg -t py hit", [], [], ".gitignore", False)
    @example("rg hit", [], [], ".gitignore", False)
    @given(
        st.sampled_from(COMMANDS),
        st.lists(st.sampled_from(PATTERNS), max_size=5),
        st.lists(st.sampled_from(PATTERNS), max_size=3),
        st.sampled_from(RULE_FILES),
        st.booleans(),
    )
    def look(
        command: str, above: Sequence[str], deeper: Sequence[str], kind: str, is_tracked: bool
    ) -> None:
        for name in (*RULE_FILES, "src/.gitignore", ".git/index"):
            (root / name).unlink(missing_ok=True)
        write(root, {kind: "\n".join(above), "src/.gitignore": "\n".join(deeper)})
        if is_tracked:
            own_project.git("add", ".")

        effects.append(own_project.run(command).effect)

        if effects[-1] == "allow":
            assert printed(command, root) & kept == set()

    look()
    assert {"allow", "ask"} <= set(effects)
    tried, allowed = len(effects), effects.count("allow")
    count("searches among rules", tried, 0, f"read a secret unseen ({allowed} ran unasked)")


@pytest.mark.parametrize("uses_above", [True, False])
def test_ignore_files_of_search_in_root_folder_are_read(uses_above: bool) -> None:
    ignore = IgnoreFiles("/", is_named=True, uses_git=True, uses_above=uses_above)

    assert ignore.verdict("/etc", is_folder=True) is None
