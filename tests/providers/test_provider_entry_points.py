"""Provider types that installed packages bring as entry points."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dirge_py import Agent
from dirge_py.config.load import load
from dirge_py.lib.redaction import Redactor
from dirge_py.providers.client import HttpClient
from dirge_py.providers.models import ModelDirectory
from dirge_py.providers.registry import find_provider
from dirge_py.sdk.doctor.providers import check_providers
from dirge_py.types.errors import ConfigError

CODE = """
from dirge_py.types.llm import StreamDone, TextDelta

def make(settings, http):
    async def stream(context, options, signal):
        yield TextDelta(f"{settings.alias} answers as {options.model}.")
        yield StreamDone()
    return stream
"""
SETTINGS = '[providers.work]\ntype = "acme"\nmodel = "m1"\n'
Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs a package with the type `acme`; returns the folder it is in."""
    site = tmp_path / "site"

    def installed(code: str = CODE, target: str = "acme_dirge:make", where: Path = site) -> Path:
        folder = where / "acme_dirge-1.0.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-dirge\nVersion: 1.0\n")
        (folder / "entry_points.txt").write_text(f"[dirge.providers]\nacme = {target}\n")
        (where / "acme_dirge.py").write_text(code)
        monkeypatch.syspath_prepend(str(where))
        return where

    yield installed
    sys.modules.pop("acme_dirge", None)


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    file = tmp_path / "config.toml"
    file.write_text(SETTINGS + "[session]\nsave = false\n")
    return file


async def test_model_of_installed_provider_type_answers(install: Install, settings: Path) -> None:
    install()

    async with Agent.from_config(settings) as agent:
        result = await agent.run("hi")

    assert result.response == "work answers as work/m1."


@pytest.mark.parametrize(
    ("code", "target"),
    [
        (CODE + "PROVIDER = make\n", "acme_dirge"),
        (
            CODE + "from dirge_py.providers.registry import Provider\n"
            "PROVIDER = Provider(name='acme', make=make)\n",
            "acme_dirge:PROVIDER",
        ),
    ],
)
def test_entry_point_may_be_function_provider_or_module(
    install: Install, code: str, target: str
) -> None:
    install(code, target)

    assert find_provider("acme").name == "acme"


def test_settings_load_without_importing_provider_package(install: Install, settings: Path) -> None:
    install("raise RuntimeError('imported')")

    assert load(path=settings).providers["work"].type == "acme"
    assert "acme_dirge" not in sys.modules


@pytest.mark.parametrize(
    ("code", "target", "why"),
    [
        ("import there_is_no_such_module", "acme_dirge:make", "there_is_no_such_module"),
        ("raise SystemExit('no licence')", "acme_dirge:make", "no licence"),
        ("make = 3", "acme_dirge:make", "it is int"),
        ("", "acme_dirge:make", "no attribute 'make'"),
    ],
)
def test_broken_provider_package_gives_notice_and_other_models_work(
    install: Install, settings: Path, code: str, target: str, why: str
) -> None:
    install(code, target)
    other = '[providers.other]\ntype = "ollama"\nmodel = "m2"\n'
    settings.write_text(f'provider = "work"\n{SETTINGS}{other}')

    models = ModelDirectory(load(environment={}, path=settings), HttpClient(), Redactor())

    [notice] = models.notices
    assert "The provider type `acme` of package acme-dirge cannot be" in notice and why in notice
    assert models.resolve("other/m2")[0] == "other/m2"


def test_doctor_warns_about_broken_provider_package(install: Install, settings: Path) -> None:
    install("import there_is_no_such_module")
    environment = {"DIRGE_LOCAL_SERVERS": ""}
    config = load(environment=environment, path=settings)

    [found] = [
        each
        for each in check_providers(config, environment, is_offline=False)
        if each.name == "provider work"
    ]

    assert (found.state, "there_is_no_such_module" in found.words) == ("warning", True)


@pytest.mark.parametrize("error", ["ValueError", "SystemExit"])
async def test_provider_package_that_fails_at_start_is_run_error(
    install: Install, settings: Path, error: str
) -> None:
    install(f"def make(settings, http): raise {error}('no region')")

    async with Agent.from_config(settings) as agent:
        outcome = await agent.start("hi")

    assert "no region" in str(outcome)


def test_provider_package_in_project_folder_is_not_loaded(
    install: Install, settings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    install(where=project / "lib")
    for folder in (project, project / "lib"):
        monkeypatch.chdir(folder)
        with pytest.raises(ConfigError, match="no provider type `acme`"):
            load(path=settings)


def test_unknown_provider_type_is_config_error(settings: Path) -> None:
    with pytest.raises(ConfigError, match="no provider type `acme`"):
        load(path=settings)


def test_unknown_provider_type_is_config_error_without_working_folder(
    tmp_path: Path, settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()

    with pytest.raises(ConfigError, match="no provider type `acme`"):
        load(environment={}, path=settings)
