"""The fixtures that run the program from outside."""

from tests.conftest import project
from tests.support.product import product

__all__ = ["product", "project"]
