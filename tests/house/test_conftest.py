"""The rules of tests/conftest.py: separate homes, and counted skips."""

import os
from pathlib import Path

import pytest

from tests.conftest import is_foreign

CONFTEST = Path(__file__).parents[1] / "conftest.py"

LACKING = """
import pytest

def test_runs(): pass
def test_wants_a_program(): pytest.skip("needs tmux")
@pytest.mark.skipif(True, reason="needs tmux")
def test_wants_it_too(): pass
def test_is_for_another_system(): pytest.skip("only on macOS")
"""


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A separate test suite under our conftest."""
    # Plugins keep state per process, and this one runs two pytests.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeconftest(CONFTEST.read_text(encoding="utf-8"))
    pytester.makepyfile(LACKING)
    return pytester


def test_tests_skipped_for_a_missing_program_are_counted(suite, monkeypatch):
    monkeypatch.delenv("DIRGE_TEST_REQUIRE", raising=False)

    result = suite.runpytest_inprocess("-p", "no:cacheprovider")

    result.assert_outcomes(passed=1, skipped=3)
    result.stdout.fnmatch_lines(["*not tested here*", "   2  needs tmux"])


def test_missing_program_that_is_required_fails_the_test(suite, monkeypatch):
    monkeypatch.setenv("DIRGE_TEST_REQUIRE", "all")

    result = suite.runpytest_inprocess("-p", "no:cacheprovider")

    result.assert_outcomes(passed=1, skipped=1, failed=1, errors=1)


def test_module_without_a_required_program_fails(suite, monkeypatch):
    monkeypatch.setenv("DIRGE_TEST_REQUIRE", "all")
    suite.makepyfile(test_whole='import pytest\npytest.skip("needs x", allow_module_level=True)')

    result = suite.runpytest_inprocess("-p", "no:cacheprovider", "test_whole.py")

    result.assert_outcomes(errors=1)


def test_tests_see_no_settings_of_the_machine(home):
    foreign = {name: value for name, value in os.environ.items() if is_foreign(name)}
    assert foreign.pop("DIRGE_LOCAL_SERVERS") == ""
    assert [name for name, value in foreign.items() if str(home) not in value] == []
    assert Path.home() == home
    assert list(home.iterdir()) == []


def test_variables_with_keys_or_settings_count_as_foreign():
    assert all(map(is_foreign, ("OPENAI_API_KEY", "GIT_DIR", "https_proxy", "DIRGE_MODEL")))
    assert not any(map(is_foreign, ("PATH", "DIRGE_TEST_REQUIRE", "SSL_CERT_FILE")))
