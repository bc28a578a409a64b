"""Fixtures: homes of an earlier version, and the current program."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.compatibility.model_service import Service
from tests.compatibility.old_homes import OldHome
from tests.compatibility.program_forks import Program


@pytest.fixture(scope="session")
def program() -> Iterator[Program]:
    with Program() as program:
        yield program


@pytest.fixture
def service() -> Iterator[Service]:
    with Service() as service:
        yield service


@pytest.fixture
def home(tmp_path: Path, program: Program, service: Service) -> Callable[[str], OldHome]:
    """Restores a home by its name."""
    return lambda name: OldHome(name, tmp_path.resolve() / "base", program, service)
