"""Rules for every test: its own home, no keys, and counted skips."""

import functools
import gc
import itertools
import os
import signal
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from tests.support.project import ScriptedProject

pytest_plugins = ["pytester"]

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)

NEEDS = "needs "
"""How the reason of a skip begins when the machine lacks something a test wants."""

_REQUIRE = "DIRGE_TEST_REQUIRE"
_KEPT = frozenset({_REQUIRE})
_FOREIGN_PREFIXES = ("DIRGE_", "XDG_", "GIT_")
# Keys, and what would lead a test to another model, address, proxy, editor or colour.
_FOREIGN_ENDINGS = ("_API_KEY", "_BASE_URL", "_PROXY", "_TOKEN")
_FOREIGN = frozenset({"OLLAMA_HOST", "NO_COLOR", "FORCE_COLOR", "COLORTERM", "VISUAL", "EDITOR"})


# -- what would be done again and again

# Collecting compiles 300 modules and rewrites their assertions, and tests start hundreds of
# programs: byte code is kept even where the machine says not to.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Under `nohup`, or behind a shell's `&`, these are ignored, and so they would be by every program
# that a test starts.
for _number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
    if signal.getsignal(_number) is signal.SIG_IGN:
        _usual = signal.default_int_handler if _number is signal.SIGINT else signal.SIG_DFL
        signal.signal(_number, _usual)

# A quarter of hypothesis' own number in every run; the long runs try more. How long an example
# takes says something about the machine, and what else it does, and nothing about the program.
settings.register_profile(
    "every run", max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("long run", settings.get_profile("every run"), max_examples=300)
settings.load_profile("long run" if os.environ.get("SECURITY_SIZE") else "every run")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests with the garbage collector off, and exclude them from later collections."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        # What tests leave behind is much, and short-lived.
        gc.set_threshold(5_000, 20, 50)


# -- every test has a home of its own


def is_foreign(name: str) -> bool:
    """Whether an environment variable of the machine could affect a test."""
    if name in _KEPT:
        return False
    shouted = name.upper()
    return (
        shouted in _FOREIGN
        or shouted.startswith(_FOREIGN_PREFIXES)
        or shouted.endswith(_FOREIGN_ENDINGS)
    )


@pytest.fixture(scope="session", autouse=True)
def _homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Iterator[Path]]:
    """New home folders, with the machine's own settings and keys hidden."""
    base = tmp_path_factory.mktemp("homes")
    with pytest.MonkeyPatch.context() as patch:
        for name in filter(is_foreign, list(os.environ)):
            patch.delenv(name)
        _move_into(base, patch)
        yield (base / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def home(_homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The empty home folder of this test, to which `HOME`, `XDG_*` and `DIRGE_*` point."""
    folder = next(_homes)
    folder.mkdir()
    _move_into(folder, monkeypatch)
    return folder


def _move_into(home: Path, patch: pytest.MonkeyPatch) -> None:
    places = {
        "HOME": home,
        "XDG_CONFIG_HOME": home / ".config",
        "XDG_STATE_HOME": home / ".local" / "state",
        "XDG_DATA_HOME": home / ".local" / "share",
        "XDG_CACHE_HOME": home / ".cache",
        "DIRGE_CONFIG_DIR": home / ".config" / "dirge",
        "DIRGE_STATE_DIR": home / ".local" / "state" / "dirge",
    }
    for name, place in places.items():
        patch.setenv(name, str(place))
    # No test looks for the model servers of this machine at their usual ports.
    patch.setenv("DIRGE_LOCAL_SERVERS", "")


@pytest.fixture(scope="session", autouse=True)
def _once() -> Iterator[None]:
    """Caches the entry points of installed packages for a process."""
    from dirge_py.extensions.plugins import extension

    find = extension.find_installed
    found = functools.lru_cache(8)(lambda _path: find())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extension, "find_installed", lambda: found(tuple(sys.path)))
        yield


@pytest.fixture
def open_tmp_path() -> Iterator[Path]:
    """A `tmp_path` that every user of the machine can reach, for all fixtures of the test.

    Those of pytest lie in a folder that is closed to others, again with every run that starts.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        folder.chmod(0o755)
        yield folder


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if "open_tmp_path" not in request.fixturenames:
        return tmp_path
    folder: Path = request.getfixturevalue("open_tmp_path")
    return folder


# -- what tests of several packages share


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "ScriptedProject":
    """A project folder that is the working directory, with settings, a scripted model and user."""
    from tests.support.project import ScriptedProject

    project = ScriptedProject(tmp_path)
    monkeypatch.chdir(project.folder)
    return project


# -- a test that lacks something is counted, and fails where everything is required


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return _required((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return _required((yield))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    lacks = [lack for report in terminalreporter.getreports("skipped") if (lack := _lack(report))]
    if lacks:
        terminalreporter.section("not tested here")
        for lack in sorted(set(lacks)):
            terminalreporter.line(f"{lacks.count(lack):>4}  {lack}")


def _required(report: Report) -> Report:
    lack = _lack(report)
    if lack and os.environ.get(_REQUIRE) == "all":
        report.outcome = "failed"
        report.longrepr = f"{lack}, and {_REQUIRE}=all lets nothing be left out."
    return report


def _lack(report: pytest.TestReport | pytest.CollectReport) -> str:
    """The text after `needs` of a test that was skipped for that reason, else empty."""
    if not report.skipped or not isinstance(report.longrepr, tuple):
        return ""
    reason = report.longrepr[2].removeprefix("Skipped: ")
    return reason if reason.startswith(NEEDS) else ""
