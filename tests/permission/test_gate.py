import subprocess
import sys
from pathlib import Path

import pytest

from dirge_py.claims import Claim, Command
from dirge_py.errors import UsageError
from dirge_py.files.workspace import Workspace
from dirge_py.permission.gate import Gate, suggest
from dirge_py.permission.rules import PolicySet

from .conftest import Project, allow

PROTECTED = [
    ".git/config", ".git/hooks/pre-commit", ".GIT/config", "sub/.git", ".git./x", ".g\u200cit/x",
    ".dirge/config.toml", ".mcp.json", ".bashrc", "sub/.zshrc", ".profile", ".ssh/config",
    ".npmrc", ".pypirc", ".netrc", ".gitconfig", ".vscode/settings.json", ".vscode/tasks.json",
    ".idea/x.xml", ".envrc", ".husky/pre-commit", ".github/workflows/ci.yml", ".GitHub/Workflows/x",
    ".gitlab-ci.yml", "Jenkinsfile", ".config/gh/hosts.yml", "missing/.git/x",
]  # fmt: skip
SECRET = [
    ".env", ".env.local", ".ENV", "sub/.env.production", "id_rsa", "sub/id_ed25519", "server.pem",
    "tls.KEY", ".netrc", ".npmrc", ".aws/credentials", "credentials.json", ".ssh/known_hosts",
]  # fmt: skip
ORDINARY = ["src/a.py", ".github/README.md", ".gitignore", ".vscode/x.md", "environment.py", "gitx"]


@pytest.mark.parametrize("path", PROTECTED)
def test_changing_a_protected_name_asks(project: Project, path: str) -> None:
    decision = project.gate().decide([project.claim("edit", path)])

    assert (decision.effect, decision.policy) == ("ask", "protected")


@pytest.mark.parametrize("path", SECRET)
def test_reading_a_secret_asks(project: Project, path: str) -> None:
    decision = project.gate().decide([project.claim("read", path)])

    assert (decision.effect, decision.policy) == ("ask", "protected")


@pytest.mark.parametrize("path", [*ORDINARY, ".env.example", "id_rsa.pub", ".git/HEAD"])
def test_ordinary_files_are_read_unasked(project: Project, path: str) -> None:
    assert project.gate().decide([project.claim("read", path)]).effect == "allow"


@pytest.mark.parametrize("path", ORDINARY)
def test_ordinary_files_are_changed_unasked(project: Project, path: str) -> None:
    assert project.gate().decide([project.claim("edit", path)]).effect == "allow"


def test_a_bare_repository_in_the_workspace_is_protected(own_project: Project) -> None:
    own_project.git("init", "-q", "--bare", "vendor/bare")

    decision = own_project.gate().decide([own_project.claim("edit", "vendor/bare/config")])

    assert (decision.effect, decision.policy) == ("ask", "protected")


def test_a_path_that_leads_nowhere_asks(own_project: Project) -> None:
    (own_project.root / "loop").symlink_to("loop")

    assert own_project.gate().decide([own_project.claim("edit", "loop")]).effect == "ask"
    assert own_project.run("cat loop").effect == "ask"


def test_a_malformed_path_is_denied_in_every_mode(project: Project) -> None:
    for mode in ("standard", "yolo"):
        gate = project.gate(mode=mode)  # type: ignore[arg-type]
        assert gate.decide([Claim("read", "a\0b")]).policy == "hard-deny"


def test_a_link_into_our_state_is_denied(own_project: Project) -> None:
    (own_project.state / "trust.json").write_text("{}")
    (own_project.root / "innocent").symlink_to(own_project.state)

    gate = own_project.gate(mode="yolo")

    assert gate.decide([own_project.claim("edit", "innocent/trust.json")]).effect == "deny"
    assert gate.decide([own_project.execute("cat innocent/trust.json")]).effect == "deny"
    assert gate.decide([own_project.execute("cat innocent/t*")]).effect == "deny"


def test_own_output_may_be_read_but_not_changed(project: Project) -> None:
    path = str(project.state / "sessions/p/1/output/call.txt")
    gate = project.gate()

    assert gate.decide([Claim("read", path)]).effect == "allow"
    assert gate.decide([project.execute(f"tail -5 {path}")]).effect == "allow"
    assert gate.decide([Claim("edit", path)]).effect == "ask"


def test_a_decision_says_which_physical_paths_it_is_about(own_project: Project) -> None:
    (own_project.root / "link").symlink_to("src/a.py")

    decision = own_project.gate().decide([own_project.claim("edit", "link")])

    assert [claim.real for claim in decision.claims] == [str(own_project.root / "src/a.py")]


def test_grants_can_be_listed_taken_back_and_cleared(project: Project) -> None:
    gate = project.gate()
    gate.add_grant("execute:make")
    gate.add_grant("execute:make")
    gate.add_grant("network:example.com")
    assert [str(grant) for grant in gate.grants] == ["execute:make", "network:example.com"]

    gate.remove_grant(0)
    assert gate.decide([project.execute("make")]).effect == "ask"
    with pytest.raises(UsageError):
        gate.remove_grant(7)
    gate.clear_grants()
    assert gate.grants == ()


def test_mode_can_be_changed_while_running(project: Project) -> None:
    gate = project.gate()
    gate.mode = "plan"

    assert gate.mode == "plan"
    assert gate.decide([project.claim("edit", "a")]).effect == "deny"


def test_what_cannot_be_judged_asks(project: Project) -> None:
    broken = Claim("execute", Command(None, str(project.root)))  # type: ignore[arg-type]

    decision = project.gate(mode="yolo").decide([broken])

    assert decision.effect == "ask"
    assert "cannot be judged" in decision.reason


@pytest.mark.parametrize(
    "command",
    [
        "ls " * 200_000, "(" * 50_000, "$(" * 20_000, "`" * 9_999, "'" * 30_001, "{" * 9_000,
        "sudo " * 5_000 + "ls", "bash -c " * 300 + "x", '"' + "$(" * 3_000, "a\\" * 20_000,
        "cd src;" * 70, "\ud800", "\0", "x" * 20_000 + "\n" + "git push",
    ],
)  # fmt: skip
def test_monstrous_commands_ask_and_soon(project: Project, command: str) -> None:
    assert project.run(command).effect in ("ask", "deny")


def test_the_root_of_the_file_system_may_be_the_workspace(tmp_path: Path) -> None:
    workspace = Workspace(["/"], tmp_path)
    gate = Gate(workspace, PolicySet(), home=tmp_path)

    assert gate.decide([Claim("edit", str(tmp_path / "x"))]).effect == "allow"
    assert gate.decide([Claim("edit", "/x")]).effect == "allow"
    workspace.close()


def test_importing_the_gate_does_not_load_the_parser() -> None:
    code = (
        "import sys, dirge_py.permission.gate, dirge_py.permission.claude;"
        "sys.exit('tree_sitter' in sys.modules or 'pydantic' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_no_rule_is_suggested_that_a_screen_would_show_as_another(project: Project) -> None:
    gate = project.gate(mode="restrictive")

    def suggested(path: str) -> str:
        return suggest(gate.decide([project.claim("edit", path)]))

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
def test_a_rule_that_is_said_to_open_nothing_opens_nothing(
    project: Project, rule: str, path: str
) -> None:
    gate = project.gate(allow(rule))
    decision = gate.decide([project.claim("read" if rule[0] == "r" else "edit", path)])

    assert gate.futility(rule)
    assert decision.effect != "allow"
    assert decision.policy == "hard-deny" or decision.reason.endswith("no rule opens it")


@pytest.mark.parametrize(
    "rule", ["edit:**", "edit:src/*", "edit:.git*/x", "read:.env*", "read:.git/**", "execute:git *"]
)
def test_a_rule_that_could_open_something_is_let_be(project: Project, rule: str) -> None:
    assert project.gate().futility(rule) == ""
