"""Web access as an extension; its parts are loaded only where settings may be wrong."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from dirge_py.config.schema import Config, WebTable
from dirge_py.lib.lazy import late
from dirge_py.tools.web.lazy_service import LazyWebService
from dirge_py.types.extensions import Extension, ExtensionHost

if TYPE_CHECKING:
    from dirge_py.extensions.web.service import open_web
    from dirge_py.tools.web.service import WebService
else:
    open_web = late("dirge_py.extensions.web.service", "open_web")

WebAccess: TypeAlias = "WebService | LazyWebService | None"

SEARCH_KEY_VARIABLES = ("BRAVE_API_KEY", "EXA_API_KEY", "TAVILY_API_KEY")


class Web(Extension):
    """What the web tools use."""

    name = "web"
    summary = "reads pages and searches the web"

    def __init__(self, service: "WebService | LazyWebService") -> None:
        self.service = service
        """Fetches pages and searches."""


def make(host: ExtensionHost) -> Web | None:
    service = web_access(host.settings, host.add_secret)
    return Web(service) if service is not None else None


def web_access(config: Config, keep_secret: Callable[[str], None]) -> WebAccess:
    """The web of one conversation; None where a rule denies all of it to every call.

    `keep_secret` is told the key of the search service.

    Raises:
        ConfigError: a setting of `[web]` does not hold.
    """
    if any(
        rule.effect == "deny" and rule.op in ("network", "*") and rule.match in ("*", "**")
        for rule in config.permission.rule
    ):
        return None
    make = partial(open_web, config, keep_secret)
    return LazyWebService(make) if config.web == WebTable() else make()


def search_key_variables(config: Config) -> list[str]:
    """The environment variables that may hold a search key: they never reach a command."""
    named = [config.web.search_key_env] if config.web.search_key_env else []
    return [*named, *SEARCH_KEY_VARIABLES]
