"""`[web]` in the settings, and the resulting service."""

from collections.abc import Callable
from pathlib import Path

import pytest

from dirge_py.config.load import load
from dirge_py.config.schema import Config
from dirge_py.extensions.web.extension import (
    search_key_variables,
    web_access,
)
from dirge_py.tools.web.service import WebService
from dirge_py.types.errors import ConfigError, ToolFailed
from tests.support.web_site import Reply, serving

Load = Callable[..., Config]


@pytest.fixture
def loaded(tmp_path: Path) -> Load:
    def load_text(text: str, **environment: str) -> Config:
        file = tmp_path / "config.toml"
        file.write_text(text, encoding="utf-8")
        return load(None, environment, file)

    return load_text


def open_web_service(config: Config) -> tuple[WebService, list[str]]:
    """The service, and the secrets that it reported."""
    secrets: list[str] = []
    web = web_access(config, secrets.append)
    assert web is not None
    return web, secrets


def test_default_settings_allow_fetching_but_not_searching(loaded: Load) -> None:
    web, _ = open_web_service(loaded(""))
    assert web.target("https://docs.example/").host == "docs.example"
    assert web.search is None
    assert "set `search` under `[web]`" in web.search_problem


@pytest.mark.parametrize("op", ["network", "*"])
def test_deny_rule_for_network_disables_web(loaded: Load, op: str) -> None:
    rule = f'[[permission.rule]]\nop = "{op}"\nmatch = "*"\neffect = '
    assert web_access(loaded(rule + '"deny"'), [].append) is None
    assert web_access(loaded(rule + '"ask"'), [].append) is not None


async def test_web_settings_apply_to_requests(loaded: Load) -> None:
    async with serving({"/": Reply(body="x" * 5000, type="text/plain")}) as site:
        web, _ = open_web_service(
            loaded(f'[web]\nprivate_hosts = ["{site.place}"]\nmax_bytes = 100')
        )
        page = await web.page(web.target(site.url))
    assert (len(page.text), page.is_whole) == (100, False)


async def test_local_search_url_is_reachable_only_by_search(loaded: Load) -> None:
    hit = '{"results": [{"title": "t", "url": "https://a.example/", "content": "c"}]}'
    async with serving({"/search": hit}) as site:
        web, _ = open_web_service(loaded(f'[web]\nsearch = "searxng"\nsearch_url = "{site.url}"'))
        assert web.search is not None
        found = await web.search.find("q", 5)
        with pytest.raises(ToolFailed, match="is not fetched"):
            web.target(site.url)
    assert [each.url for each in found] == ["https://a.example/"]
    assert web.search.host == "127.0.0.1"


def test_search_key_is_read_from_environment_and_kept_secret(loaded: Load) -> None:
    usual, secrets = open_web_service(loaded('[web]\nsearch = "brave"', BRAVE_API_KEY="abc-123"))
    assert usual.search is not None
    assert secrets == ["abc-123"]
    own = loaded('[web]\nsearch = "exa"\nsearch_key_env = "MY_KEY"', MY_KEY="def-456")
    assert open_web_service(own)[1] == ["def-456"]
    assert {"MY_KEY", "BRAVE_API_KEY", "EXA_API_KEY"} <= set(search_key_variables(own))


async def test_remote_search_uses_proxy_and_local_search_does_not(loaded: Load) -> None:
    hit = '{"results": [{"title": "t", "url": "https://a.example/"}]}'
    async with serving({"http://s.example/search": hit}) as proxy, serving({"/search": hit}) as own:
        proxied = f'[web]\nproxy = "http://me:geheim@{proxy.place}"\nsearch = "searxng"\n'
        far, secrets = open_web_service(loaded(f'{proxied}search_url = "http://s.example"'))
        near, _ = open_web_service(loaded(f'{proxied}search_url = "{own.url}"'))
        assert far.search is not None and near.search is not None
        assert len(await far.search.find("q", 5)) == 1
        assert len(await near.search.find("q", 5)) == 1
    assert (len(proxy.requests), len(own.requests)) == (1, 1)
    assert secrets == ["geheim"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('search = "tavily"', "set TAVILY_API_KEY in the environment"),
        ('search = "exa"\nsearch_key_env = "MINE"', "set MINE in the environment"),
        ('search = "searxng"', "set `search_url`"),
    ],
)
def test_missing_search_setting_is_named(loaded: Load, text: str, words: str) -> None:
    web, _ = open_web_service(loaded(f"[web]\n{text}"))
    assert web.search is None
    assert words in web.search_problem


@pytest.mark.parametrize(
    "text",
    [
        'private_hosts = ["http://x/"]',
        'search = "searxng"\nsearch_url = "localhost:8888"',
        'search = "brave"\nsearch_url = "http://search.example/"',
        'proxy = "socks5://h:1"',
        'proxy = "proxy:3128"',
        'proxy = "http://secret@"',
    ],
)
def test_invalid_web_setting_is_config_error(loaded: Load, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        open_web_service(loaded(f"[web]\n{text}", BRAVE_API_KEY="abc-123"))
    assert "`[web]`" in str(caught.value) or "`search_url`" in str(caught.value)
    assert "secret" not in str(caught.value)
