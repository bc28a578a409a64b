"""Files that git shows from the repository are judged like other reads."""

import pytest

from dirge_py.permission.git.commands import secrets_meant
from dirge_py.permission.git.repository import tracked_secrets
from dirge_py.permission.protected import SECRET_NAMES, why_secret

from .conftest import Project, deny

NAMING = [
    "git show :.env", "git show :0:.env", "git show :1:.env", "git show :2:./.env",
    "git show HEAD:.env", "git show HEAD~2:./.env", "git show 'HEAD^{tree}:.env'",
    "git show 'stash@{0}:.env'", "git show 'HEAD@{2026-01-01 10:00:00}:.env'",
    "git show main:config/.env.local", "git show HEAD:deploy/server.pem", "git show ':/.env'",
    "git show HEAD:.env HEAD:README.md", "git diff HEAD:.env HEAD:x", "git diff -- .env",
    "git diff HEAD~1 -- .env", "git log -p -- .env", "git log -p --follow .env",
    "git log -L 1,9:.env", "git log -L1,9:.env", "git blame .env", "git blame HEAD -- .env",
    "git grep '' -- .env",
    "git show HEAD -- '[.]env'", "git show HEAD -- '.en\\v'", "git log -p -- '**/.env*'",
    "git log -p -- 'conf*env'", "git log -p -- '*.pem'", "git log -p -- 'id_*'",
    "git diff -- '.ENV.mine*'", "git diff -- ':/.e*'", "git rev-list HEAD -- .env",
    "cd src && git show HEAD:.env", "cd src && git show HEAD:./.env",
]  # fmt: skip
HARMLESS = [
    "git show HEAD:README.md", "git show :0:README.md", "git show HEAD:src/gone.py", "git show :x",
    "git log -p -- '*.py'", "git log --oneline -- 'src/*'", "git grep -n foo -- '*.json' '*.yml'",
    "git grep -n 'a.*b' -- '**/*.ts'", "git show ':/fix: things'", "git show 'HEAD^{/fix.*}'",
    "git diff -- . ':!.env'", "git log -p -- ':^.env'", "git diff main..HEAD -- src",
    "git log origin/main..HEAD", "git show HEAD:.env.example", "git blame -L 1,3 README.md",
    "git log -1 --format=%s", "git show 'HEAD@{1}:README.md'", "git branch --list 'feature/*'",
    "cd src && git show HEAD:README.md",
]  # fmt: skip


@pytest.mark.parametrize("command", NAMING)
def test_git_command_that_names_secret_file_asks(project: Project, command: str) -> None:
    decision = project.run(command)

    reasons = " ".join(claim.reason for claim in decision.claims)
    assert (decision.effect, "may contain" in reasons) == ("ask", True)


@pytest.mark.parametrize(
    "command", ["git grep '' HEAD -- '.e*'", "git grep -e '' HEAD -- '.en?'", "git grep '' HEAD"]
)
def test_git_grep_in_commit_asks(project: Project, command: str) -> None:
    assert project.run(command).effect == "ask"


@pytest.mark.parametrize("command", HARMLESS)
def test_git_commands_on_other_files_are_allowed(project: Project, command: str) -> None:
    assert project.run(command).effect == "allow"


@pytest.mark.parametrize(
    "command",
    ["git show HEAD:notes/gone.txt", "git show :2:notes/gone.txt", "git diff HEAD:notes/gone.txt x",
     "cd src && git show HEAD:notes/gone.txt"],
)  # fmt: skip
def test_deny_rule_applies_to_file_that_exists_only_in_history(
    project: Project, command: str
) -> None:
    assert project.run(command, deny("read:notes/**")).effect == "deny"
    assert project.run(command).effect == "allow"


@pytest.mark.parametrize(
    "command",
    ["git cat-file -p HEAD:.env", "git cat-file -p :0:.env", "git -c a.b=c show HEAD:.env",
     "git -C src cat-file blob HEAD:.env", "cd src && git cat-file -p HEAD:.env",
     "bash -c 'git cat-file -p :.env'", "env git cat-file blob HEAD:./.env",
     "for x in 1; do git cat-file -p HEAD:.env; done", "git cat-file -p 'HEAD^{tree}:.env'"],
)  # fmt: skip
def test_file_of_deny_rule_is_not_read_from_git_objects_in_yolo(
    project: Project, command: str
) -> None:
    assert project.run(command, deny("read:.env"), mode="yolo").effect == "deny"
    assert project.run(command, mode="yolo").effect == "allow"
    other = command.replace(".env", ".envy")
    assert project.run(other, deny("read:.env"), mode="yolo").effect == "allow"


def test_every_name_in_secret_names_is_a_secret() -> None:
    assert [name for name in SECRET_NAMES if not why_secret(f"/r/{name}", ("/r",))] == []


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_pattern_with_one_wildcard_letter_matches_secret_name(name: str) -> None:
    head, _, last = name.rpartition("/")
    pattern = f"{head}/{last[:-1]}?" if head else f"{last[:-1]}?"

    assert name in set(secrets_meant(pattern))
    assert name in set(secrets_meant(f"**/{pattern}"))


@pytest.mark.parametrize(
    "pattern", ["*", "**", "*.py", "src/**", "*.json", "test_*", "[a", "\\", "a"]
)
def test_broad_pattern_matches_no_secret_name(pattern: str) -> None:
    assert list(secrets_meant(pattern)) == []


SHOWING = [
    "git diff", "git diff HEAD", "git diff -- .", "git diff --stat -p", "git diff --word-diff",
    "git --no-pager diff", "git status -vv", "git diff HEAD -- .env.local README.md",
]  # fmt: skip
NOT_SHOWING = [
    "git diff --stat", "git diff --name-only HEAD", "git diff --cached", "git diff -- src",
    "git diff README.md", "git diff -- . ':!.env.local'", "git status -s", "git log -p", "git show",
]  # fmt: skip


@pytest.fixture(params=["2", "4"])
def tracking(own_project: Project, request: pytest.FixtureRequest) -> Project:
    """A project that tracks a file with secrets, with changes."""
    (own_project.root / ".env.local").write_text("TOKEN=old\n")
    own_project.git("config", "index.version", request.param)
    own_project.git("add", ".env.local", "README.md", "src")
    own_project.git("commit", "-q", "-m", "first")
    (own_project.root / "README.md").write_text("changed\n")
    return own_project


def test_git_diff_of_changed_tracked_secret_asks(tracking: Project) -> None:
    assert {tracking.run(command).effect for command in (*SHOWING[:-1], *NOT_SHOWING)} == {"allow"}
    (tracking.root / ".env.local").write_text("TOKEN=new\n")

    asked = [command for command in SHOWING if tracking.run(command).effect == "ask"]
    allowed = [command for command in NOT_SHOWING if tracking.run(command).effect == "allow"]

    assert (asked, allowed) == (SHOWING, NOT_SHOWING)
    assert ":!.env.local" in tracking.run("git diff").reason


@pytest.mark.parametrize(
    "command",
    ["git --no-pager diff", "git -P diff", "git diff HEAD --", "git --no-pager diff HEAD --",
     "git -P status -vv"],
)  # fmt: skip
def test_file_named_like_git_subcommand_or_revision_hides_no_changed_secret(
    tracking: Project, command: str
) -> None:
    (tracking.root / ".env.local").write_text("TOKEN=new\n")
    for name in ("diff", "status", "HEAD"):
        (tracking.root / name).write_text("")

    assert tracking.run(command).effect == "ask"
    assert tracking.run(f"{command.removesuffix(' --')} -- README.md").effect == "allow"


def test_rewritten_but_unchanged_secret_does_not_ask(tracking: Project) -> None:
    file = tracking.root / ".env.local"
    file.unlink()
    file.write_text("TOKEN=old\n")
    assert tracking.run("git diff").effect == "allow"

    file.unlink()

    assert tracking.run("git diff").effect == "ask"


def test_git_show_of_secret_by_blob_id_asks(tracking: Project) -> None:
    blob = tracking.git("rev-parse", ":.env.local").strip()
    commit = tracking.git("rev-parse", "HEAD").strip()

    for name in (blob, blob[:7], f"{blob}^0", f"{commit[:7]} {blob[:10]}"):
        assert tracking.run(f"git show {name}").effect == "ask", name
    assert tracking.run(f"git show {commit}").effect == "allow"


@pytest.mark.parametrize("version", ["2", "4"])
def test_tracked_secrets_finds_every_kind_of_secret(own_project: Project, version: str) -> None:
    root = own_project.root
    names = [
        *SECRET_NAMES,
        *(f"deep/er/{name}" for name in SECRET_NAMES),
        *(f"loud/{name.upper()}" for name in SECRET_NAMES),
        "odd/.e\u200cnv", "odd/server.pem. ", "odd/.\u017fsh/key", "\u00e9/.vault-token",
    ]  # fmt: skip
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")
    own_project.git("config", "index.version", version)
    own_project.git("add", "-f", ".")

    found = {secret.path for secret in tracked_secrets(str(root))}

    assert {str(root / name) for name in names} - found == set()
    assert {str(root / name) for name in ("README.md", "src/a.py", "notes.txt")} & found == set()


@pytest.mark.parametrize(
    "name",
    ["terraform.tfstate", ".vault-token", ".codex/auth.json", ".azure/x", ".m2/settings.xml"],
)
def test_changed_secret_of_any_kind_makes_git_diff_ask(own_project: Project, name: str) -> None:
    file = own_project.root / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("old\n")
    own_project.git("add", "-f", name)
    blob = own_project.git("rev-parse", f":{name}").strip()
    assert own_project.run("git diff").effect == "allow"
    assert own_project.run(f"git show {blob}").effect == "ask"

    file.write_text("new\n")

    assert {own_project.run(one).effect for one in ("git diff", "git diff HEAD")} == {"ask"}


@pytest.mark.parametrize(
    ("command", "effect"),
    [("git log -p -- cert", "ask"), ("git log -p cert/", "ask"), ("git log -3 -U1 -- cert", "ask"),
     ("git log --cc -- cert", "ask"), ("git show HEAD -- cert", "ask"),
     ("git log -p -- 'cert/*'", "ask"), ("git log -p -- :/cert", "ask"),
     ("cd src && git log -p -- ../cert", "ask"), ("git diff HEAD~1 -- cert", "ask"),
     ("git diff --cached -- cert", "ask"), ("git log --stat -p -- cert", "ask"),
     ("git --no-pager log -p -- cert", "ask"), ("git log -p -- cert ':^cert'", "allow"),
     ("git log -p -- cert ':!cert'", "allow"), ("git log -- cert", "allow"),
     ("git log --stat -- cert", "allow"), ("git show --stat HEAD -- cert", "allow"),
     ("git diff --name-only HEAD~1 -- cert", "allow"), ("git diff -- cert", "allow"),
     ("git log -p", "allow"), ("git log -p -- .", "allow"), ("git log -p -- '*'", "allow"),
     ("git log -p -- src", "allow"), ("git log -p -- 'src/*'", "allow"),
     ("cd src && git log -p -- ..", "allow")],
)  # fmt: skip
def test_git_command_showing_contents_of_folder_with_tracked_secret_asks(
    own_project: Project, command: str, effect: str
) -> None:
    (own_project.root / "cert").mkdir()
    (own_project.root / "cert/server.pem").write_text("old\n")
    own_project.git("add", "cert", "src", "README.md")
    own_project.git("commit", "-q", "-m", "first")
    own_project.git("commit", "-q", "--allow-empty", "-m", "second")

    assert own_project.run(command).effect == effect
