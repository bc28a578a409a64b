"""A command's input is judged together with the command."""

import pytest

from dirge_py.files.workspace import Workspace
from dirge_py.permission.engine import PermissionEngine
from dirge_py.permission.rules import PolicySet, parse_rule
from dirge_py.tools.base import ToolServices
from dirge_py.tools.bash import TOOL
from dirge_py.tools.toolbox import BoundTool


@pytest.fixture
def effect(tmp_path):
    """The decision about a command with its input, under one rule."""
    workspace = Workspace([tmp_path], tmp_path)
    tool = BoundTool(TOOL, ToolServices(files=workspace), str(tmp_path))

    def decide(command: str, text: str | None = None, rule: str = "", is_deny: bool = False) -> str:
        rules = [parse_rule(rule, "deny" if is_deny else "allow")] if rule else []
        gate = PermissionEngine(workspace, PolicySet(rules=tuple(rules)), home=tmp_path)
        given = {"command": command} if text is None else {"command": command, "input": text}
        return str(gate.decide(tool.claims(given), str(tmp_path)).effect)

    yield decide
    workspace.close()


def test_input_makes_allowed_command_ask(effect):
    assert effect("sort") == "allow"
    assert effect("sort", "b\na\n") == "ask"


def test_deny_rule_applies_to_command_with_input_and_to_input(effect):
    deny = {"rule": "execute:rm **", "is_deny": True}

    assert effect("rm x", "y\n", **deny) == "deny"
    assert effect("ls && rm -r x", "y\n", **deny) == "deny"
    assert effect("sh", "rm x\n", **deny) == "deny"


def test_allow_rule_for_command_does_not_allow_its_input(effect):
    assert effect("python3", rule="execute:python3") == "allow"
    assert effect("python3", "import os; os.remove('x')\n", rule="execute:python3") == "ask"
