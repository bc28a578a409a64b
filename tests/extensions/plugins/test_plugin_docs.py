"""docs/plugins.md lists the whole interface, and its examples load."""

import re

import pytest

from dirge_py.extensions.plugins.api import PluginApi
from dirge_py.extensions.plugins.registration import PROMPT_POINTS
from dirge_py.types.hooks import HOOK_NAMES
from tests.extensions.plugins.test_loading import loaded
from tests.house.source import ROOT
from tests.support.plugins import PluginFolder

PAGE = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_manual_has_a_row_for_every_hook_point() -> None:
    rows = set(re.findall(r"^\| `(\w+)` \| `", PAGE, re.MULTILINE))
    assert rows == {*HOOK_NAMES, *PROMPT_POINTS}


def test_manual_describes_every_member_of_the_plugin_api() -> None:
    offered = {name for name in vars(PluginApi) if not name.startswith("_")} | {"log"}
    told = set(re.findall(r"`dirge\.(\w+)", PAGE))
    assert offered - {"end_registering"} == told - {"plugins"}


def test_manual_describes_every_example_plugin() -> None:
    files = {path.name for path in (ROOT / "plugins").glob("*.py")}
    assert set(re.findall(r"^\| `(\w+\.py)` \|", PAGE, re.MULTILINE)) == files


@pytest.mark.parametrize("source", EXAMPLES)
def test_examples_of_the_manual_load(plugin_folder: PluginFolder, source: str) -> None:
    plugin_folder.write("example", source)
    host = loaded(plugin_folder)
    assert host.notices() == ()
    [report] = host.report()
    assert report.hooks or report.tools
