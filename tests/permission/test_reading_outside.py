"""Rules for reading outside the workspace, as a question offers them."""

from pathlib import Path

import pytest

from dirge_py.types.tools import Claim
from tests.permission.conftest import Project


@pytest.fixture
def sibling(own_project: Project) -> Path:
    folder = own_project.home / "sibling"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.py").write_text("a\n")
    (folder / ".env").write_text("KEY=1\n")
    return folder


@pytest.mark.parametrize("command", ["ls {}", "cat {}/a.py", "grep -n a {}/a.py", "find {}/deep"])
def test_offered_rule_allows_reading_the_folder_again(
    own_project: Project, sibling: Path, command: str
) -> None:
    gate = own_project.gate()
    decision = gate.decide([own_project.execute(command.format(sibling))])
    rules = decision.wider or decision.grant

    for rule in rules:
        gate.add_grant(rule)

    assert rules
    assert gate.decide([own_project.execute(command.format(sibling))]).effect == "allow"
    assert gate.decide([own_project.execute(f"cat {sibling}/.env")]).effect == "ask"
    assert gate.decide([own_project.execute(f"touch {sibling}/x")]).effect == "ask"
    assert gate.decide([own_project.execute(f"cat {own_project.home}/notes")]).effect == "ask"


def test_file_is_offered_alone_and_with_its_folder(own_project: Project, sibling: Path) -> None:
    decision = own_project.gate().decide([Claim("read", f"{sibling}/a.py")])

    assert decision.grant == (f"read:{sibling}/a.py",)
    assert decision.wider == (f"read:{sibling}/**",)


def test_folder_is_offered_with_everything_below_it(own_project: Project, sibling: Path) -> None:
    gate = own_project.gate()
    decision = gate.decide([Claim("read", str(sibling))])

    assert (decision.grant, decision.wider) == ((f"read:{sibling}/**",), ())


def test_search_below_an_allowed_folder_asks_about_its_secrets(
    own_project: Project, sibling: Path
) -> None:
    gate = own_project.gate()
    gate.add_grant(f"read:{sibling}/**")

    assert gate.decide([own_project.execute(f"grep -r KEY {sibling}")]).effect == "ask"
    assert gate.decide([own_project.execute(f"grep -r a {sibling}/deep")]).effect == "allow"


@pytest.mark.parametrize("place", ["/", "HOME", "HOME/..", "/proc", "/dev"])
def test_no_rule_for_everything_below_home_or_the_root_is_offered(
    own_project: Project, place: str
) -> None:
    path = str(Path(place.replace("HOME", str(own_project.home))).resolve())

    decision = own_project.gate().decide([Claim("read", path)])

    assert decision.effect == "ask"
    assert not any(rule.endswith("**") for rule in (*decision.grant, *decision.wider))


@pytest.mark.parametrize("op", ["read", "edit"])
@pytest.mark.parametrize("name", [".ssh/id_rsa", ".aws/credentials"])
def test_secret_outside_of_the_workspace_is_allowed_only_once(
    own_project: Project, op: str, name: str
) -> None:
    decision = own_project.gate().decide([Claim(op, f"{own_project.home}/{name}")])  # type: ignore[arg-type]

    assert (decision.effect, decision.grant, decision.wider) == ("ask", (), ())
    assert decision.once_only
