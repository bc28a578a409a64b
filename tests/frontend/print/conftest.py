"""Fixtures that run the program as a process."""

from tests.conftest import project
from tests.support.product import product

__all__ = ["product", "project"]
