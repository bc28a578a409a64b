"""Finding and loading plugins, and the notices about it."""

import io
import sys
import threading
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from dirge_py.extensions.plugins import discovery
from dirge_py.extensions.plugins.calls import as_plugin, split_stdout
from dirge_py.extensions.plugins.discovery import find_files, find_installed
from dirge_py.extensions.plugins.host import PluginHost
from dirge_py.tools.toolbox import tool_names
from tests.support.plugins import SHORT_S, PluginFolder


def loaded(plugin_folder: PluginFolder, **options: Any) -> PluginHost:
    plugin_folder.found = find_files(plugin_folder.folder)
    return plugin_folder.host(**options)


def states(host: PluginHost) -> dict[str, str]:
    return {plugin.name: plugin.state for plugin in host.report()}


def test_plugin_files_load_in_name_order_without_writing_bytecode(plugin_folder: PluginFolder):
    for name in ("zebra", "ant", "_hidden", ".dot"):
        plugin_folder.write(name, "def register(dirge): dirge.on('turn_start', print)")
    (plugin_folder.folder / "notes.txt").write_text("no plugin")
    host = loaded(plugin_folder)
    assert [plugin.name for plugin in host.report()] == ["ant", "zebra"]
    assert host.notices() == ()
    assert not (plugin_folder.folder / "__pycache__").exists()


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def register(dirge):\n    x = = 1\n", ["invalid syntax", "odd.py, line 2"]),
        ("import nowhere_to_be_found\n", ["ModuleNotFoundError", "odd.py, line 1"]),
        (
            "def register(dirge):\n    x = 1\n    raise KeyError('x')\n",
            ["KeyError: 'x'", "odd.py, line 3"],
        ),
        ("import sys\nsys.exit(3)\n", ["it tried to exit (3)"]),
        ("def register(dirge):\n    raise SystemExit\n", ["it tried to exit"]),
        ("register = 3\n", ["has no `def register(dirge)`"]),
        ("", ["has no `def register(dirge)`"]),
        ("async def register(dirge): pass\n", ["has to be a plain `def`"]),
        ("def register(): pass\n", ["TypeError"]),
        ("def register(dirge): dirge.on('turn_start', 3)\n", ["3 isn't a function"]),
        ("def register(dirge): dirge.tool(lambda x: x, name='odd')\n", ["has no annotation"]),
        ("def register(dirge): dirge.command('No Name', 'x', print)\n", ["cannot be a command"]),
        ("\0", ["null bytes"]),
        ("# coding: nonsense\n", ["unknown encoding"]),
        ("import json\njson.loads('{')\n", ["JSONDecodeError", "odd.py, line 2"]),
    ],
)
def test_plugin_that_cannot_load_is_reported_with_line_and_others_load(
    plugin_folder: PluginFolder, source: str, words: list[str]
):
    plugin_folder.write("odd", source)
    plugin_folder.write("well", "def register(dirge): dirge.on('turn_start', print)")
    host = loaded(plugin_folder)
    [notice] = host.notices()
    assert notice.startswith("plugin `odd` is not loaded: ")
    assert [
        word for word in [*words, str(plugin_folder.folder / "odd.py")] if word not in notice
    ] == []
    assert states(host) == {"odd": "failed", "well": "on"}


def test_registrations_of_a_plugin_that_fails_to_load_are_removed(plugin_folder: PluginFolder):
    plugin_folder.write(
        "odd",
        """
        def register(dirge):
            dirge.on("before_tool_call", print)
            dirge.tool(lookup)
            dirge.command("odd", "x", print)
            1 / 0

        def lookup(key: str) -> str:
            "Look up."
        """,
    )
    host = loaded(plugin_folder)
    assert (host.hooks(), host.tools(), host.commands(), host.order()) == ([], [], [], [])


def test_unreadable_plugin_files_are_reported(plugin_folder: PluginFolder):
    (plugin_folder.folder / "folder.py").mkdir()
    (plugin_folder.folder / "gone.py").symlink_to(plugin_folder.folder / "nothing")
    host = loaded(plugin_folder)
    assert states(host) == {"folder": "failed", "gone": "failed"}
    assert len(host.notices()) == 2


def test_a_plugin_that_hangs_while_loading_is_skipped(plugin_folder: PluginFolder):
    released = threading.Event()

    def hangs(dirge: Any) -> None:
        released.wait()
        late.append(refusal_of(dirge))

    late: list[str] = []
    done = threading.Event()

    def refusal_of(dirge: Any) -> str:
        try:
            dirge.on("turn_start", print)
        except Exception as error:
            return str(error)
        finally:
            done.set()
        return "accepted"

    host = plugin_folder.add("slow", hangs).add("well", lambda dirge: None).host(limit_s=SHORT_S)
    assert states(host) == {"slow": "failed", "well": "on"}
    assert "it took longer than 0.05 s" in host.notices()[0]
    released.set()
    assert done.wait(20)
    assert host.order() == []


def test_case_i05_plugin_tool_with_a_built_in_name_is_refused(plugin_folder: PluginFolder):
    def register(dirge: Any) -> None:
        @dirge.tool(name="read")
        def read_all(path: str) -> str:
            """Read."""
            return ""

    host = plugin_folder.add("greedy", register).host(built_in=tool_names())
    assert "the tool `read` cannot be added: a built-in tool has that name" in host.notices()[0]
    assert host.tools() == []


def test_tool_name_of_another_plugin_is_refused(plugin_folder: PluginFolder):
    def register(dirge: Any) -> None:
        @dirge.tool
        def lookup(key: str) -> str:
            """Look up."""
            return key

    host = plugin_folder.add("a", register).add("b", register).host()
    assert "the plugin `a` has that name" in host.notices()[0]
    assert [tool.name for tool in host.tools()] == ["lookup"]
    assert states(host) == {"a": "on", "b": "failed"}


def test_disabled_plugin_is_not_run(plugin_folder: PluginFolder):
    plugin_folder.write("odd", "raise SystemExit('it was run')")
    host = loaded(plugin_folder, off={"odd"}, settings={"odd": {}})
    assert host.notices() == ()
    assert states(host) == {"odd": "off"}


def test_plugin_gets_its_settings_and_unknown_plugin_settings_are_reported(
    plugin_folder: PluginFolder,
):
    seen: list[Any] = []
    plugin_folder.add("a", lambda dirge: seen.append((dirge.name, dict(dirge.settings))))
    host = plugin_folder.host(settings={"a": {"n": 1}, "b": {}})
    assert seen == [("a", {"n": 1})]
    assert host.notices() == ("[plugins.b]: there is no such plugin.",)


def test_tools_and_commands_can_only_be_added_in_register(plugin_folder: PluginFolder):
    kept: list[Any] = []
    plugin_folder.add("late", kept.append).host()
    for add in (lambda d: d.tool(print), lambda d: d.command("x", "y", print)):
        with pytest.raises(Exception, match="only be added in `register`"):
            add(kept[0])


# -- installed packages


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An installed package with an entry point."""
    site = tmp_path / "site"
    folder = site / "songs-1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: songs\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(
        "[dirge.plugins]\nsongs = songs_plugin\nverse = songs_plugin:register_verse\n"
    )
    (site / "songs_plugin.py").write_text(
        "def register(dirge): dirge.on('turn_start', print)\n"
        "def register_verse(dirge): dirge.on('turn_end', print)\n"
    )
    monkeypatch.syspath_prepend(str(site))
    yield site
    sys.modules.pop("songs_plugin", None)


@pytest.mark.usefixtures("package")
def test_installed_package_provides_plugins_as_module_or_function(plugin_folder: PluginFolder):
    assert {each.name for each in metadata.entry_points(group=discovery.GROUP)} >= {
        "songs",
        "verse",
    }
    plugin_folder.found = find_installed()
    host = plugin_folder.host()
    report = {plugin.name: plugin for plugin in host.report()}
    assert report["songs"].where == "package songs"
    assert [hook.point for hook in report["verse"].hooks] == ["turn_end"]


@pytest.mark.usefixtures("package")
def test_plugin_file_overrides_installed_package_of_the_same_name(plugin_folder: PluginFolder):
    path = plugin_folder.write("songs", "def register(dirge): dirge.on('turn_end', print)")
    plugin_folder.found = [*find_files(plugin_folder.folder), *find_installed()]
    host = plugin_folder.host()
    [songs] = [plugin for plugin in host.report() if plugin.name == "songs"]
    assert songs.where == str(path)
    assert "plugin `songs` of package songs is not loaded" in host.notices()[0]


# -- output of plugins


def test_output_of_plugins_goes_to_stderr(
    plugin_folder: PluginFolder, monkeypatch: pytest.MonkeyPatch
):
    out, err = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    plugin_folder.write(
        "loud",
        """
        import sys, pprint
        print("importing")
        def register(dirge):
            sys.stdout.write("registering\\n")
            pprint.pprint(["library"])
        """,
    )
    loaded(plugin_folder)
    sys.stdout.write("ours\n")
    assert out.getvalue() == "ours\n"
    assert err.getvalue() == "importing\nregistering\n['library']\n"


def test_stdout_is_split_only_once(monkeypatch: pytest.MonkeyPatch):
    out, err = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    split_stdout()
    first = sys.stdout
    split_stdout()
    assert sys.stdout is first
    with as_plugin():
        sys.stdout.write("theirs\n")
    assert (out.getvalue(), err.getvalue()) == ("", "theirs\n")
