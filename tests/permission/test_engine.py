import subprocess
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dirge_py.files.workspace import Workspace
from dirge_py.permission.engine import PermissionEngine, suggest_flags
from dirge_py.permission.rules import Mode, PolicySet
from dirge_py.types.errors import UsageError
from dirge_py.types.tools import Claim, Operation, ShellCommand
from tests.permission.conftest import Project, allow
from tests.security.sizes import size

PROTECTED = [
    ".git/config", ".git/hooks/pre-commit", ".GIT/config", "sub/.git", ".git./x", ".g\u200cit/x",
    ".dirge/config.toml", ".mcp.json", ".bashrc", "sub/.zshrc", ".profile", ".ssh/config",
    ".npmrc", ".pypirc", ".netrc", ".gitconfig", ".vscode/settings.json", ".vscode/tasks.json",
    ".idea/x.xml", ".envrc", ".husky/pre-commit", ".github/workflows/ci.yml", ".GitHub/Workflows/x",
    ".gitlab-ci.yml", "Jenkinsfile", ".config/gh/hosts.yml", "missing/.git/x",
    "dots/.config/dirge/config.toml", ".gitmodules", ".claude/settings.json", ".claude/hooks/x.sh",
    ".cursor/mcp.json", ".vscode/mcp.json", ".vscode/extensions.json", "x.code-workspace",
    ".zed/settings.json", ".codex/config.toml", ".gemini/settings.json", ".qwen/settings.json",
    ".opencode/plugin/x.ts", "opencode.json", ".aider.conf.yml", ".continue/config.yaml",
    ".roo/mcp.json", ".windsurf/x", ".amazonq/mcp.json", ".devcontainer/devcontainer.json",
    ".devcontainer.json", ".yarnrc", ".yarnrc.yml", ".yarn/releases/yarn.cjs", ".pnpmfile.cjs",
    ".cargo/config.toml", ".cargo/config", ".pre-commit-config.yaml", "lefthook.yml",
    ".lintstagedrc.json", "mise.toml", ".mise.toml", ".asdfrc", ".direnv/x",
    ".github/actions/x/action.yml", ".gitlab/ci/x.yml", ".forgejo/workflows/x.yml",
    ".gitea/workflows/x.yml", ".woodpecker/x.yml", ".woodpecker.yml", ".githooks/pre-push", ".exrc",
    ".vimrc", ".nvim.lua", ".gdbinit", ".lldbinit", ".pdbrc", ".psqlrc", ".irbrc", ".Rprofile",
    "sitecustomize.py", "lib/usercustomize.py", ".venv/bin/python", "venv/bin/activate",
    "node_modules/.bin/tsc", "env/lib/python3.11/site-packages/x.pth", ".bundle/config",
    ".m2/settings.xml", ".gradle/init.d/x.gradle", ".config/systemd/user/x.service",
    ".config/autostart/x.desktop", ".local/bin/git", ".config/environment.d/x.conf",
    ".local/share/systemd/user/x", ".local/share/applications/x.desktop", ".config/fish/x.fish",
    ".config/nvim/init.lua", ".config/Code/User/settings.json", ".tmux.conf", ".screenrc",
    ".pam_environment", ".xsessionrc", ".config/plasma-workspace/env/x.sh",
    "Library/LaunchAgents/x.plist", ".crontab", ".forward", ".cargo/bin/cargo", ".rustup/x",
    ".bun/bin/x", ".deno/bin/x", ".config/pip/pip.conf", ".condarc",
]  # fmt: skip
SECRET = [
    ".env", ".env.local", ".ENV", "sub/.env.production", "id_rsa", "sub/id_ed25519", "server.pem",
    "tls.KEY", ".netrc", ".npmrc", ".aws/credentials", "credentials.json", ".ssh/known_hosts",
    ".codex/auth.json", ".gemini/oauth_creds.json", ".claude/.credentials.json", ".azure/x.json",
    ".config/gh/hosts.yml", ".docker/config.json", ".cargo/credentials.toml", ".m2/settings.xml",
    ".config/op/config", ".config/gcloud/x.db", ".terraform.d/credentials.tfrc.json",
    "terraform.tfstate", "terraform.tfstate.backup", ".vault-token", ".databrickscfg",
    ".config/rclone/rclone.conf", ".bash_history", ".local/share/keyrings/login.keyring",
    "/etc/shadow", "/etc/gshadow", "/etc/ssh/ssh_host_rsa_key",
]  # fmt: skip
ORDINARY = [
    "src/a.py", ".github/README.md", ".gitignore", ".vscode/x.md", "environment.py", "gitx",
    "package.json", "Makefile", "pyproject.toml", "Dockerfile", "tsconfig.json", ".gitattributes",
    ".editorconfig", ".prettierrc", "CLAUDE.md", "AGENTS.md", ".github/ISSUE_TEMPLATE/bug.md",
    "bin/run", "model.pth", "auth.json", "settings.xml", "config.toml", "src/mise/x", ".claude.md",
    ".tool-versions", "requirements.txt", "Cargo.toml",
]  # fmt: skip


@pytest.mark.parametrize("path", PROTECTED)
def test_editing_protected_name_asks(project: Project, path: str) -> None:
    decision = project.gate().decide([project.claim("edit", path)])

    assert (decision.effect, decision.policy) == ("ask", "protected")


@pytest.mark.parametrize("path", SECRET)
def test_reading_secret_file_asks(project: Project, path: str) -> None:
    decision = project.gate().decide([project.claim("read", path)])

    assert (decision.effect, decision.policy) == ("ask", "protected")


def test_reason_names_secret_file_as_typed(project: Project) -> None:
    read = project.gate().decide([project.claim("read", "sub/TLS.Key")])

    assert read.reason.startswith("TLS.Key may contain")
    assert "HEAD:terraform.tfstate may" in project.run("git show HEAD:terraform.tfstate").reason


@pytest.mark.parametrize("path", SECRET)
def test_search_tools_leave_out_secret_files(project: Project, path: str) -> None:
    assert project.gate().withholds(str(project.root / path))


@pytest.mark.parametrize("path", [*ORDINARY, ".env.example", "id_rsa.pub", ".git/HEAD"])
def test_ordinary_files_are_read_without_asking(project: Project, path: str) -> None:
    assert project.gate().decide([project.claim("read", path)]).effect == "allow"


@pytest.mark.parametrize("path", ORDINARY)
def test_ordinary_files_are_edited_without_asking(project: Project, path: str) -> None:
    assert project.gate().decide([project.claim("edit", path)]).effect == "allow"


SPELLINGS: list[Callable[[str], str]] = [
    str.upper, str.title, lambda name: f"{name}.", lambda name: f"{name} ",
    lambda name: unicodedata.normalize("NFD", name), lambda name: name.replace("i", "\u200ci"),
    lambda name: name.replace("s", "\u017f"), lambda name: f"./{name}", lambda name: f"x/../{name}",
    lambda name: f".//{name}", lambda name: name,
]  # fmt: skip


@settings(
    max_examples=size(150, 3000),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.sampled_from([*PROTECTED, *SECRET]),
    st.lists(st.sampled_from(SPELLINGS), max_size=3),
    st.sampled_from(["", "sub", "sub/deep", "LINK", "LINK/sub"]),
)
def test_protected_or_secret_name_asks_in_any_spelling(
    linked: Project, path: str, spellings: list[Callable[[str], str]], folder: str
) -> None:
    components = path.split("/")
    for respelled in spellings:
        components = [respelled(name) for name in components]
    spelled = "/".join([*filter(None, [folder.replace("LINK", "elsewhere/link")]), *components])
    gate = linked.gate()

    assert path not in PROTECTED or gate.decide([linked.claim("edit", spelled)]).effect == "ask"
    assert path not in SECRET or gate.decide([linked.claim("read", spelled)]).effect == "ask"


@pytest.fixture(scope="module")
def linked(project: Project) -> Project:
    """The project, with a folder that a link also reaches."""
    (project.root / "elsewhere").mkdir()
    (project.root / "elsewhere/link").symlink_to("../src")
    return project


@pytest.mark.parametrize("path", [".claude/settings.json", ".env"])
def test_symlink_to_protected_or_secret_file_asks(own_project: Project, path: str) -> None:
    (own_project.root / ".claude").mkdir()
    (own_project.root / path).write_text("{}")
    (own_project.root / "plain.txt").symlink_to(path)
    op: Operation = "read" if path == ".env" else "edit"

    assert own_project.gate().decide([own_project.claim(op, "plain.txt")]).effect == "ask"


def test_bare_repository_in_workspace_is_protected(own_project: Project) -> None:
    own_project.git("init", "-q", "--bare", "vendor/bare")

    decision = own_project.gate().decide([own_project.claim("edit", "vendor/bare/config")])

    assert (decision.effect, decision.policy) == ("ask", "protected")


def test_symlink_loop_asks(own_project: Project) -> None:
    (own_project.root / "loop").symlink_to("loop")

    assert own_project.gate().decide([own_project.claim("edit", "loop")]).effect == "ask"
    assert own_project.run("cat loop").effect == "ask"


def test_path_with_nul_byte_is_denied_in_every_mode(project: Project) -> None:
    for mode in ("standard", "yolo"):
        gate = project.gate(mode=mode)  # type: ignore[arg-type]
        assert gate.decide([Claim("read", "a\0b")]).policy == "hard-deny"


def test_symlink_into_dirge_state_folder_is_denied(own_project: Project) -> None:
    (own_project.state / "trust.json").write_text("{}")
    (own_project.root / "innocent").symlink_to(own_project.state)

    gate = own_project.gate(mode="yolo")

    assert gate.decide([own_project.claim("edit", "innocent/trust.json")]).effect == "deny"
    assert gate.decide([own_project.execute("cat innocent/trust.json")]).effect == "deny"
    assert gate.decide([own_project.execute("cat innocent/t*")]).effect == "deny"


def test_output_folder_of_session_may_be_read_but_not_edited(project: Project) -> None:
    path = str(project.state / "sessions/p/1/output/call.txt")
    gate = project.gate()

    assert gate.decide([Claim("read", path)]).effect == "allow"
    assert gate.decide([project.execute(f"tail -5 {path}")]).effect == "allow"
    assert gate.decide([Claim("edit", path)]).effect == "ask"


def test_decision_claims_hold_resolved_paths(own_project: Project) -> None:
    (own_project.root / "link").symlink_to("src/a.py")

    decision = own_project.gate().decide([own_project.claim("edit", "link")])

    assert [claim.real for claim in decision.claims] == [str(own_project.root / "src/a.py")]


def test_grants_can_be_listed_and_removed(project: Project) -> None:
    gate = project.gate()
    gate.add_grant("execute:make")
    gate.add_grant("execute:make")
    gate.add_grant("network:example.com")
    assert [str(grant) for grant in gate.grants] == ["execute:make", "network:example.com"]

    gate.remove_grant(0)
    assert gate.decide([project.execute("make")]).effect == "ask"
    with pytest.raises(UsageError):
        gate.remove_grant(7)
    while gate.grants:
        gate.remove_grant(0)
    assert gate.grants == ()


def test_permission_mode_can_be_changed_at_runtime(project: Project) -> None:
    gate = project.gate()
    gate.mode = "plan"

    assert gate.mode == "plan"
    assert gate.decide([project.claim("edit", "a")]).effect == "deny"


def test_command_that_fails_to_be_analyzed_asks_in_yolo(project: Project) -> None:
    broken = Claim("execute", ShellCommand(None, str(project.root)))  # type: ignore[arg-type]

    decision = project.gate(mode="yolo").decide([broken])

    assert decision.effect == "ask"
    assert "cannot analyze" in decision.reason


@pytest.mark.parametrize(
    "command",
    [
        "ls " * 200_000, "(" * 50_000, "$(" * 20_000, "`" * 9_999, "'" * 30_001, "{" * 9_000,
        "sudo " * 5_000 + "ls", "bash -c " * 300 + "x", '"' + "$(" * 3_000, "a\\" * 20_000,
        "cd src;" * 70, "\ud800", "\0", "x" * 20_000 + "\n" + "git push",
    ],
)  # fmt: skip
def test_huge_commands_are_never_allowed(project: Project, command: str) -> None:
    assert project.run(command).effect in ("ask", "deny")


@pytest.mark.parametrize("root", ["/", "above", "above/home"])
def test_workspace_wider_than_a_project_asks_before_edits_but_not_reads(
    tmp_path: Path, root: str
) -> None:
    home = tmp_path / "above" / "home"
    (home / "project").mkdir(parents=True)
    workspace = Workspace([root if root == "/" else tmp_path / root], home)
    gate = PermissionEngine(workspace, PolicySet(), home=home)
    edit, read = Claim("edit", str(home / "x")), Claim("read", str(home / "x"))

    assert gate.decide([edit]).effect == "ask"
    assert "home folder" in gate.decide([edit]).reason
    assert gate.decide([read]).effect == "allow"
    gate.mode = "yolo"
    assert gate.decide([edit]).effect == "allow"
    gate.mode = "standard"
    gate.add_folder(home / "project")
    assert gate.decide([Claim("edit", str(home / "project" / "x"))]).effect == "allow"
    workspace.close()


@pytest.mark.parametrize("mode", ["standard", "yolo"])
def test_prompt_that_denies_editing_stops_edits_by_commands(project: Project, mode: Mode) -> None:
    gate = project.gate(mode=mode)
    gate.denies_edits = "prompt look"

    def effect(command: str) -> str:
        claim = Claim("execute", ShellCommand(command, str(project.root)))
        return gate.decide([claim], tool="bash").effect

    for command in (
        "echo a > f", "for x in 1; do echo $x >> f; done", "sed -i s/a/b/ f", "rm -f f",
        "ls | tee f", "git checkout -- f", "sudo mv a b", "cd sub && touch f",
    ):  # fmt: skip
        assert effect(command) == "deny", command
    assert effect("make test") == "ask"
    assert effect("ls -l 2>/dev/null | grep a") == "allow"
    gate.denies_edits = ""
    assert effect("echo a > f") == ("allow" if mode == "yolo" else "ask")


def test_importing_permission_engine_does_not_load_shell_parser() -> None:
    code = (
        "import sys, dirge_py.permission.engine, dirge_py.permission.rules;"
        "sys.exit('tree_sitter' in sys.modules or 'pydantic' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_suggested_flags_leave_out_paths_with_control_or_invisible_characters(
    project: Project,
) -> None:
    gate = project.gate(mode="restrictive")

    def suggested(path: str) -> str:
        return suggest_flags(gate.decide([project.claim("edit", path)]))

    assert suggested("x y").endswith("/x y'")
    assert [suggested(f"x{char}y") for char in "\x1b\u202e\u200b\r"] == [""] * 4


@pytest.mark.parametrize(
    ("rule", "path"),
    [
        ("edit:.git/**", ".git/config"),
        ("edit:**/.git/hooks/*", "src/.git/hooks/pre-push"),
        ("edit:.github/workflows/ci.yml", ".github/workflows/ci.yml"),
        ("read:.env", ".env"),
        ("read:keys/*.pem", "keys/a.pem"),
        ("edit:~/.local/state/dirge/**", "../.local/state/dirge/x"),
    ],
)
def test_allow_rule_reported_as_ineffective_allows_nothing(
    project: Project, rule: str, path: str
) -> None:
    gate = project.gate(allow(rule))
    decision = gate.decide([project.claim("read" if rule[0] == "r" else "edit", path)])

    assert gate.why_ineffective(rule)
    assert decision.effect != "allow"
    assert decision.policy == "hard-deny" or decision.reason.endswith("no rule allows it")


@pytest.mark.parametrize(
    "rule", ["edit:**", "edit:src/*", "edit:.git*/x", "read:.env*", "read:.git/**", "execute:git *"]
)
def test_allow_rule_that_can_apply_is_not_reported_as_ineffective(
    project: Project, rule: str
) -> None:
    assert project.gate().why_ineffective(rule) == ""
