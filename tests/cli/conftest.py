"""Fixtures that run the program as a process."""

from tests.support.product import product

__all__ = ["product"]
