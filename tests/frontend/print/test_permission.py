"""Permission without a user, and the flags that allow more."""

import shlex
from typing import Any

import pytest

from tests.support.fake_service import ModelReply
from tests.support.product import KEY, ProcessResult, Product


def bash(command: str) -> ModelReply:
    return ModelReply(calls=[("bash", {"command": command})])


def write(path: str) -> ModelReply:
    return ModelReply(calls=[("write", {"path": path, "content": "new\n"})])


def after(product: Product, first: ModelReply, *flags: str) -> ProcessResult:
    """A run in which the model makes one call, and then ends."""
    product.will(first, ModelReply(text="done"))
    return product.ask(*flags, "x")


def test_a_denial_is_reported_and_the_run_goes_on(product: Product) -> None:
    result = after(product, bash("touch made"))

    assert result.exit_code == 0
    assert result.json["result"] == "done"
    [denial] = result.json["permission_denials"]
    assert denial["tool_name"] == "bash"
    assert denial["tool_use_id"] == "call_0"
    assert denial["tool_input"] == {"command": "touch made"}
    assert denial["reason"]
    assert "denied bash" in result.stderr
    assert not (product.project / "made").exists()
    assert "Permission denied" in product.sent()[-1]["content"]


@pytest.mark.parametrize(
    ("first", "made"),
    [
        (bash("touch made"), "made"),
        (bash("touch made && touch other"), "other"),
        (bash("touch 'with blank'"), "with blank"),
        (write("../outside.txt"), "../outside.txt"),
    ],
)
def test_the_rule_that_is_suggested_really_allows_it(
    product: Product, first: ModelReply, made: str
) -> None:
    denied = after(product, first)
    assert denied.json["permission_denials"]
    suggested = next(line for line in denied.stderr.split("\n") if "--allow" in line)
    words = shlex.split(suggested.strip().removesuffix("would have allowed it."))

    allowed = after(product, first, *words)

    assert words[0] == "--allow"
    assert allowed.json["permission_denials"] == []
    assert (product.project / made).exists()


def test_no_rule_is_suggested_where_none_would_help(product: Product) -> None:
    result = after(product, write(".git/hooks/pre-commit"), "--allow", "edit:**")

    assert len(result.json["permission_denials"]) == 1
    assert "--allow" not in result.stderr


def test_an_allowed_command_does_not_allow_another(product: Product) -> None:
    result = after(product, bash("touch other"), "--allow", "execute:touch made")

    assert len(result.json["permission_denials"]) == 1


def test_a_deny_beats_an_allow_wherever_it_stands(product: Product) -> None:
    result = after(product, bash("ls"), "--deny", "execute:ls*", "--allow", "execute:ls*")

    assert len(result.json["permission_denials"]) == 1
    assert "--allow" not in result.stderr


@pytest.mark.parametrize(
    ("flags", "is_denied"),
    [
        (("--allowedTools", "Bash(touch *)"), False),
        (("--allowedTools", "Bash(git *)"), True),
        (("--allowedTools", "Read,Bash(touch *)"), False),
        (("--disallowedTools", "Bash(touch *)", "--yolo"), True),
    ],
)
def test_rules_in_the_other_spelling_hold(
    product: Product, flags: tuple[str, ...], is_denied: bool
) -> None:
    assert bool(after(product, bash("touch made"), *flags).json["permission_denials"]) is is_denied
    assert (product.project / "made").exists() is not is_denied


@pytest.mark.parametrize(
    ("mode", "edits", "executes"),
    [
        ("standard", True, False),
        ("accept", True, False),
        ("restrictive", False, False),
        ("plan", False, False),
        ("yolo", True, True),
    ],
)
def test_every_mode_allows_what_its_column_says(
    product: Product, mode: str, edits: bool, executes: bool
) -> None:
    calls: list[tuple[str, Any]] = [
        ("write", {"path": "made.txt", "content": "x"}),
        ("bash", {"command": "touch touched"}),
        ("list_dir", {"path": "."}),
    ]
    result = after(product, ModelReply(calls=calls), "--permission-mode", mode)

    assert (product.project / "made.txt").exists() is edits
    assert (product.project / "touched").exists() is executes
    denied = [denial["tool_name"] for denial in result.json["permission_denials"]]
    assert denied == [*([] if edits else ["write"]), *([] if executes else ["bash"])]


def test_of_several_modes_the_most_permissive_holds_with_a_warning(product: Product) -> None:
    result = after(product, bash("touch made"), "--restrictive", "--yolo")

    assert (product.project / "made").exists()
    assert "several permission modes" in result.stderr
    assert "yolo" in result.stderr


def test_one_mode_is_no_reason_to_warn(product: Product) -> None:
    assert after(product, ModelReply(text="hm"), "--accept-all").stderr == ""


def test_only_the_named_tools_are_offered(product: Product) -> None:
    product.will(ModelReply(text="ok"))

    product.ask("--tools", "read,grep", "x")

    tools = product.service.requests[0].json["tools"]
    assert sorted(tool["function"]["name"] for tool in tools) == ["grep", "read"]


def test_no_tools_are_no_tools(product: Product) -> None:
    product.will(ModelReply(text="ok"))

    product.ask("--no-tools", "x")

    assert "tools" not in product.service.requests[0].json


def test_a_tool_that_does_not_exist_is_named_with_the_nearest(product: Product) -> None:
    result = product.ask("--tools", "raed", "x")

    assert result.exit_code == 2
    assert "`raed`" in result.stderr
    assert "`read`" in result.stderr


def test_a_tool_that_is_not_offered_is_an_error_for_the_model(product: Product) -> None:
    result = after(product, ModelReply(calls=[("question", {"text": "which?"})]))

    assert result.exit_code == 0
    assert "question" in product.sent()[-1]["content"]


def test_another_folder_is_outside_until_it_is_added(product: Product) -> None:
    other = product.base / "other"
    other.mkdir()
    (other / "a.txt").write_text("hello from beyond\n")
    look = ModelReply(calls=[("read", {"path": str(other / "a.txt")})])

    assert after(product, look).json["permission_denials"]
    assert not after(product, look, "--add-dir", str(other)).json["permission_denials"]
    assert "hello from beyond" in product.sent()[-1]["content"]


def test_a_folder_to_add_that_is_not_there_is_wrong_usage(product: Product) -> None:
    result = product.ask("--add-dir", "nowhere", "x")

    assert result.exit_code == 2
    assert "nowhere" in result.stderr


def test_it_starts_where_it_is_told_to(product: Product) -> None:
    product.file("sub/a.txt", "deep\n")

    result = after(product, ModelReply(calls=[("read", {"path": "a.txt"})]), "-C", "sub")

    assert result.exit_code == 0
    assert "deep" in product.sent()[-1]["content"]


def test_starting_in_no_folder_is_wrong_usage(product: Product) -> None:
    result = product.ask("-C", "nowhere", "x")

    assert result.exit_code == 2
    assert "nowhere" in result.stderr


@pytest.mark.parametrize("rule", ["nonsense", "paint:x", "execute:"])
def test_a_rule_that_is_none_is_wrong_usage(product: Product, rule: str) -> None:
    result = product.ask("--allow", rule, "x")

    assert (result.exit_code, result.stdout) == (2, "")
    assert rule in result.stderr


def test_a_rule_of_the_settings_holds_too(product: Product) -> None:
    product.configure('[[permission.rule]]\nop = "execute"\nmatch = "touch *"\neffect = "allow"\n')

    after(product, bash("touch made"))

    assert (product.project / "made").exists()


def test_its_own_state_is_closed_even_to_yolo(product: Product) -> None:
    product.will(ModelReply(text="first"))
    product.ask("x")
    journal = str(product.journals[0])

    result = after(product, ModelReply(calls=[("read", {"path": journal})]), "--yolo")

    assert result.json["permission_denials"]


def test_what_was_decided_is_explained_in_a_later_start(product: Product) -> None:
    product.will(
        ModelReply(calls=[("bash", {"command": f"make x TOKEN={KEY}"})]), ModelReply(text="No.")
    )
    product.run("-p", "x")

    listed = product.run("-c", "-p", "/why")
    result = product.run("-c", "-p", "/why 1")

    assert "make x" in listed.stdout
    assert "`make` can change things" in result.stdout
    assert KEY not in listed.stdout + result.stdout
