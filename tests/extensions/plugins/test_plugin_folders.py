"""Which plugin folders the settings name: the user's, never the project's."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from dirge_py.config.load import load
from dirge_py.config.schema import Config
from dirge_py.extensions.plugins.extension import load_plugins
from dirge_py.extensions.plugins.host import PluginHost
from dirge_py.sdk.environment import enabled_tools
from dirge_py.tools.toolbox import tool_names
from dirge_py.types.extensions import RunContext

NOTHING = "def register(dirge): pass\n"
TOOL = '''
def register(dirge):
    @dirge.tool
    def lookup(key: str) -> str:
        """Look up."""
        return key
'''

_listening: list[list[str]] = []


def _hear(event: str, args: tuple[Any, ...]) -> None:
    for heard in _listening:
        heard += [os.fsdecode(arg) for arg in args if isinstance(arg, str | bytes | os.PathLike)]


@cache
def _listen() -> None:
    """Add the audit hook once, because hooks cannot be removed."""
    sys.addaudithook(_hear)


@contextmanager
def touched() -> Iterator[list[str]]:
    """Every path that the interpreter opens, lists or executes inside the block."""
    _listen()
    heard: list[str] = []
    _listening.append(heard)
    try:
        yield heard
    finally:
        _listening.remove(heard)


@pytest.fixture
def user(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's settings folder; the current folder is a project."""
    folder = home / ".config" / "dirge"
    (folder / "plugins").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    return folder


def settings(user: Path, text: str = "") -> Config:
    (user / "config.toml").write_text(text)
    return load()


RUN = RunContext(model="scripted/model")


def host_for(config: Config) -> PluginHost:
    return load_plugins(config, notify=lambda text: None)


def test_case_i07_plugins_of_an_untrusted_project_are_not_opened(user: Path, tmp_path: Path):
    plugins = tmp_path / ".dirge" / "plugins"
    plugins.mkdir(parents=True)
    (plugins / "evil.py").write_text("raise SystemExit('it was run')\n")
    (user / "plugins" / "mine.py").write_text(NOTHING)
    with touched() as paths:
        host = host_for(settings(user))
    assert [plugin.name for plugin in host.report()] == ["mine"]
    assert any(path.endswith("mine.py") for path in paths)
    assert [path for path in paths if ".dirge" in path] == []


def test_empty_plugin_folder_adds_no_hooks(user: Path):
    host = host_for(settings(user))
    assert not [*host.report(), *host.hooks(RUN), *host.around_tool(RUN), *host.order()]
    assert not isinstance(host, PluginHost)


def test_plugin_settings_can_disable_or_configure_a_plugin(user: Path):
    for name in ("a", "b"):
        (user / "plugins" / f"{name}.py").write_text(
            "def register(dirge): dirge.notify(dirge.settings['say'])\n"
        )
    host = host_for(settings(user, '[plugins.a]\nsay = "hello"\n[plugins.b]\nenabled = false\n'))
    assert host.notices() == ("a: hello",)
    assert [plugin.state for plugin in host.report()] == ["on", "off"]


def test_plugin_time_limit_comes_from_the_settings(user: Path):
    (user / "plugins" / "slow.py").write_text(
        "import threading\ndef register(dirge): threading.Event().wait()\n"
    )
    host = host_for(settings(user, "[timeouts]\nplugin_hook_s = 0.05\n"))
    assert "it took longer than 0.05 s" in host.notices()[0]


def test_plugin_tool_cannot_have_any_built_in_name(user: Path):
    for name in tool_names():
        (user / "plugins" / f"p_{name}.py").write_text(TOOL.replace("lookup", name))
    host = host_for(settings(user))
    assert host.tools() == []
    assert len(host.notices()) == len(tool_names())


@pytest.mark.parametrize(
    ("tools", "offered"),
    [
        ("", ["lookup"]),
        ("enabled = ['read']", []),
        ("enabled = ['lookup']", ["lookup"]),
        ("enabled = []", []),
        ("disabled = ['lookup']", []),
    ],
)
def test_tools_settings_also_select_plugin_tools(user: Path, tools: str, offered: list[str]):
    (user / "plugins" / "a.py").write_text(TOOL)
    config = settings(user, f"[tools]\n{tools}\n")
    assert [tool.name for tool in enabled_tools(config, host_for(config).tools())] == offered
