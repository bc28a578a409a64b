"""Finds and loads the plugins of a conversation, as the settings say."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dirge_py.config.paths import config_dir
from dirge_py.config.schema import Config
from dirge_py.config.table import values_of
from dirge_py.extensions.plugins.discovery import find_files, find_in_bytes, find_installed
from dirge_py.extensions.plugins.registration import Plugins
from dirge_py.lib.lazy import late
from dirge_py.tools.toolbox import tool_names
from dirge_py.types.extensions import ExtensionHost

if TYPE_CHECKING:
    from dirge_py.extensions.plugins.host import PluginHost
    from dirge_py.permission.project_trust import ProjectTrust
else:
    PluginHost = late("dirge_py.extensions.plugins.host", "PluginHost")

_PLUGIN_DEPTH = ".dirge/plugins/<name>.py".count("/")


def make(host: ExtensionHost) -> Plugins:
    return load_plugins(host.settings, notify=host.notify, project=host.project)


def load_plugins(
    config: Config, *, notify: Callable[[str], None], project: "ProjectTrust | None" = None
) -> Plugins:
    """Load every plugin of the user, of installed packages and of a trusted project.

    The user's win over others of the same name, then the packages'. A project's settings apply to
    its own plugins only, and the user's override them. `notify` gets the notices of plugins and
    about their failures, from any thread. Raises ConfigError: the project's settings contain
    something that a project may not set.
    """
    folder = config_dir(config.origin.environment) / "plugins"
    sources = [*find_files(folder), *find_installed()]
    of_project = []
    if project is not None:
        # Only files in the plugin folder itself; deeper ones are the project's own modules.
        files = {
            os.path.join(project.root, path): content
            for path, content in project.trusted("plugin").items()
            if path.count("/") == _PLUGIN_DEPTH
        }
        of_project = find_in_bytes(files)
    own = {each.name for each in of_project} - {each.name for each in sources}
    sources += of_project
    settings, refused = _plugin_settings(config, project, own)
    for notice in refused:
        notify(notice)
    if not sources and not config.plugins:
        return Plugins()
    return PluginHost(
        sources,
        settings={
            name: {key: value for key, value in table.items() if key != "enabled"}
            for name, table in settings.items()
        },
        off={name for name, table in settings.items() if not table.get("enabled", True)},
        built_in=tool_names(),
        limit_s=config.timeouts.plugin_hook_s,
        notify=notify,
    )


def _plugin_settings(
    config: Config, project: "ProjectTrust | None", own: set[str]
) -> tuple[Mapping[str, Mapping[str, Any]], Sequence[str]]:
    """Return the table of each plugin, and notices about those that a project may not set."""
    tables: dict[str, dict[str, Any]] = {}
    notices: list[str] = []
    settings = project.settings if project is not None else None
    for name, entry in settings.plugins.items() if settings is not None else ():
        if name in own:
            tables[name] = values_of(entry)
        else:
            notices.append(f"[plugins.{name}] of the project is ignored: it has no such plugin.")
    for name, entry in config.plugins.items():
        chosen = values_of(entry, only_given=name in tables)
        tables[name] = {**tables.get(name, {}), **chosen}
    return tables, notices
