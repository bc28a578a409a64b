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


def test_denial_is_reported_and_run_continues(product: Product) -> None:
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
def test_suggested_allow_rule_allows_the_call(
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


def test_no_allow_rule_is_suggested_for_protected_path(product: Product) -> None:
    result = after(product, write(".git/hooks/pre-commit"), "--allow", "edit:**")

    assert len(result.json["permission_denials"]) == 1
    assert "--allow" not in result.stderr


def test_allow_rule_does_not_cover_another_command(product: Product) -> None:
    result = after(product, bash("touch other"), "--allow", "execute:touch made")

    assert len(result.json["permission_denials"]) == 1


def test_deny_flag_beats_allow_flag(product: Product) -> None:
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
def test_claude_rule_flags_are_accepted(
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
def test_permission_mode_decides_about_edits_and_commands(
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


def test_most_permissive_of_several_modes_wins_with_warning(product: Product) -> None:
    result = after(product, bash("touch made"), "--restrictive", "--yolo")

    assert (product.project / "made").exists()
    assert "several permission modes" in result.stderr
    assert "yolo" in result.stderr


def test_single_mode_flag_gives_no_warning(product: Product) -> None:
    assert after(product, ModelReply(text="hm"), "--accept-all").stderr == ""


def test_only_tools_of_tools_flag_are_offered(product: Product) -> None:
    product.will(ModelReply(text="ok"))

    product.ask("--tools", "read,grep", "x")

    tools = product.service.requests[0].json["tools"]
    assert sorted(tool["function"]["name"] for tool in tools) == ["grep", "read"]


def test_no_tools_flag_offers_no_tools(product: Product) -> None:
    product.will(ModelReply(text="ok"))

    product.ask("--no-tools", "x")

    assert "tools" not in product.service.requests[0].json


def test_unknown_tool_in_flag_is_reported_with_suggestion(product: Product) -> None:
    result = product.ask("--tools", "raed", "x")

    assert result.exit_code == 2
    assert "`raed`" in result.stderr
    assert "`read`" in result.stderr


def test_call_of_tool_that_is_not_offered_gets_error_result(product: Product) -> None:
    result = after(product, ModelReply(calls=[("question", {"text": "which?"})]))

    assert result.exit_code == 0
    assert "question" in product.sent()[-1]["content"]


def test_other_folder_needs_add_dir(product: Product) -> None:
    other = product.base / "other"
    other.mkdir()
    (other / "a.txt").write_text("hello from beyond\n")
    look = ModelReply(calls=[("read", {"path": str(other / "a.txt")})])

    assert after(product, look).json["permission_denials"]
    assert not after(product, look, "--add-dir", str(other)).json["permission_denials"]
    assert "hello from beyond" in product.sent()[-1]["content"]


def test_missing_folder_of_add_dir_is_usage_error(product: Product) -> None:
    result = product.ask("--add-dir", "nowhere", "x")

    assert result.exit_code == 2
    assert "nowhere" in result.stderr


def test_cwd_flag_sets_working_folder(product: Product) -> None:
    product.file("sub/a.txt", "deep\n")

    result = after(product, ModelReply(calls=[("read", {"path": "a.txt"})]), "-C", "sub")

    assert result.exit_code == 0
    assert "deep" in product.sent()[-1]["content"]


def test_missing_folder_of_cwd_flag_is_usage_error(product: Product) -> None:
    result = product.ask("-C", "nowhere", "x")

    assert result.exit_code == 2
    assert "nowhere" in result.stderr


@pytest.mark.parametrize("rule", ["nonsense", "paint:x", "execute:"])
def test_invalid_rule_is_usage_error(product: Product, rule: str) -> None:
    result = product.ask("--allow", rule, "x")

    assert (result.exit_code, result.stdout) == (2, "")
    assert rule in result.stderr


def test_allow_rule_of_settings_applies(product: Product) -> None:
    product.configure('[[permission.rule]]\nop = "execute"\nmatch = "touch *"\neffect = "allow"\n')

    after(product, bash("touch made"))

    assert (product.project / "made").exists()


def test_state_folder_is_denied_even_in_yolo_mode(product: Product) -> None:
    product.will(ModelReply(text="first"))
    product.ask("x")
    journal = str(product.journals[0])

    result = after(product, ModelReply(calls=[("read", {"path": journal})]), "--yolo")

    assert result.json["permission_denials"]


def test_stored_decision_is_explained_by_why_in_later_run(product: Product) -> None:
    product.will(
        ModelReply(calls=[("bash", {"command": f"make x TOKEN={KEY}"})]), ModelReply(text="No.")
    )
    product.run("-p", "x")

    listed = product.run("-c", "-p", "/why")
    result = product.run("-c", "-p", "/why 1")

    assert "make x" in listed.stdout
    assert "`make` can change things" in result.stdout
    assert KEY not in listed.stdout + result.stdout
