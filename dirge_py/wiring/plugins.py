"""The plugins of a conversation, as the settings want them."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from dirge_py.config.paths import config_dir
from dirge_py.config.schema import Config
from dirge_py.lib.late import late
from dirge_py.plugin_host.absent import NoPlugins
from dirge_py.plugin_host.finding import find_files, find_installed
from dirge_py.tools.base import Tool
from dirge_py.tools.registry import names

if TYPE_CHECKING:
    from dirge_py.plugin_host.host import PluginHost
else:
    PluginHost = late("dirge_py.plugin_host.host", "PluginHost")

Plugins: TypeAlias = "PluginHost | NoPlugins"


def load_plugins(config: Config, *, notify: Callable[[str], None]) -> Plugins:
    """Every plugin of the user and of installed packages, loaded.

    Nothing of the project is looked at: what a repository brings along may not run unasked.
    `notify` gets what plugins and their failures have to say later; from any thread.
    """
    folder = config_dir(config.origin.environment) / "plugins"
    found = [*find_files(folder), *find_installed()]
    if not found and not config.plugins:
        return NoPlugins()
    return PluginHost(
        found,
        settings={name: entry.settings for name, entry in config.plugins.items()},
        off={name for name, entry in config.plugins.items() if not entry.enabled},
        built_in=names(),
        limit_s=config.timeouts.plugin_hook_s,
        notify=notify,
    )


def plugin_tools(config: Config, host: Plugins) -> list[Tool[Any]]:
    """The tools of plugins that `[tools]` and the flags leave."""
    wanted, unwanted = config.tools.enabled, config.tools.disabled
    return [
        tool
        for tool in host.tools
        if (wanted is None or tool.name in wanted) and tool.name not in unwanted
    ]
