"""What a start imports; heavy libraries only where they are needed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dirge_py.tools.toolbox import tool_names

ROOT = Path(__file__).parents[2]


PROBE = """
import json, os, sys
sys.argv = ["dirge", *json.loads(sys.argv[1])]
os._exit = sys.exit
from dirge_py.cli.entry import main
try:
    code = main() or 0
except SystemExit as end:
    code = end.code or 0
sys.stdout.flush()
print("\\n" + json.dumps({"code": code, "modules": sorted(sys.modules)}))
"""


def loaded(tmp_path: Path, *argv: str) -> set[str]:
    """The top-level modules that `dirge ARGV` imported."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "DIRGE_CONFIG_DIR": str(tmp_path / "config"),
        "DIRGE_STATE_DIR": str(tmp_path / "state"),
        "PYTHONPATH": str(ROOT),
    }
    child = subprocess.run(
        [sys.executable, "-c", PROBE, json.dumps(argv)],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert child.returncode == 0, child.stderr
    report = json.loads(child.stdout.splitlines()[-1])
    assert report["code"] == 0, child.stderr
    return set(report["modules"])


@pytest.fixture
def scripted(tmp_path: Path) -> Path:
    """Settings whose model reads a file and answers."""
    (tmp_path / "note.txt").write_text("a line\n", encoding="utf-8")
    (tmp_path / "replies.toml").write_text(
        '[[replies]]\ncalls = [{ name = "read", arguments = { path = "note.txt" } }]\n'
        '[[replies]]\ntext = "Read."\n',
        encoding="utf-8",
    )
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.toml").write_text(
        '[providers.s]\ntype = "scripted"\nscript = "../replies.toml"\n', encoding="utf-8"
    )
    return tmp_path


def test_version_flag_imports_only_dirge(tmp_path: Path) -> None:
    bare = set(json.loads(_python("import sys, json; print(json.dumps(sorted(sys.modules)))")))
    more = loaded(tmp_path, "--version") - bare
    assert {name for name in more if not name.startswith(("dirge_py", "json"))} <= {"_json"}


def test_help_imports_no_event_loop_no_models_and_no_http(tmp_path: Path) -> None:
    modules = loaded(tmp_path, "--help")
    assert modules.isdisjoint({"asyncio", "pydantic", "httpx", "textual", "rich", "tree_sitter"})


def test_print_mode_imports_no_ui_and_no_shell_grammar(scripted: Path) -> None:
    modules = loaded(scripted, "-p", "read the note")
    unwanted = {
        "textual",
        "rich",
        "prompt_toolkit",
        "tree_sitter",
        "watchfiles",
        "tomlkit",
        "click",
        "dirge_py.permission.launchers",
        "dirge_py.permission.run_files",
        "dirge_py.permission.shell",
    }
    assert modules.isdisjoint(unwanted)


KNOWN_TOOL_MODULES = {
    "dirge_py.tools",
    "dirge_py.tools.base",
    "dirge_py.tools.todo_list",
    "dirge_py.tools.toolbox",
    "dirge_py.tools.web",
    "dirge_py.tools.web.service",
}
"""What a conversation needs to offer the tools, without running one."""


def test_turn_without_tool_calls_imports_no_tool_and_no_command(scripted: Path) -> None:
    (scripted / "replies.toml").write_text('[[replies]]\ntext = "Hello."\n', encoding="utf-8")
    modules = loaded(scripted, "-p", "hi")

    tools = {name for name in modules if name.startswith("dirge_py.tools")}
    commands = {name for name in modules if name.startswith("dirge_py.slash")}
    assert tools == KNOWN_TOOL_MODULES
    assert commands == {"dirge_py.slash", "dirge_py.slash.base", "dirge_py.slash.registry"}
    assert modules.isdisjoint(
        {
            "wcwidth",
            "dirge_py.processes.pty",
            "dirge_py.processes.sandbox.probe",
            "dirge_py.processes.sandbox.proxy",
            "dirge_py.processes.sandbox.read_only_mechanisms",
            "dirge_py.processes.watch",
        }
    )


def test_turn_imports_only_the_modules_of_the_tools_that_it_calls(scripted: Path) -> None:
    modules = loaded(scripted, "-p", "read the note")

    assert "dirge_py.tools.read" in modules
    assert modules.isdisjoint(
        {f"dirge_py.tools.{name}" for name in tool_names()} - {"dirge_py.tools.read"}
    )


def test_loop_and_types_import_only_the_standard_library() -> None:
    code = """
import importlib, json, pkgutil, sys
import dirge_py.agent_loop, dirge_py.types
for package in (dirge_py.agent_loop, dirge_py.types):
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(found.name)
print(json.dumps(sorted(sys.modules)))
"""
    bare = set(json.loads(_python("import sys, json; print(json.dumps(sorted(sys.modules)))")))
    more = {".".join(name.split(".")[:2]) for name in set(json.loads(_python(code))) - bare}
    ours = {"dirge_py", *(f"dirge_py.{name}" for name in ("agent_loop", "lib", "types"))}
    assert {
        name for name in more - ours if name.split(".")[0] not in sys.stdlib_module_names
    } == set()


def _python(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout


def test_every_bench_can_be_imported() -> None:
    bench = ROOT / "bench"
    names = sorted(path.stem for path in bench.glob("*.py"))
    child = subprocess.run(
        [sys.executable, "-c", f"import {', '.join(names)}"],
        cwd=bench,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert child.returncode == 0, child.stderr
