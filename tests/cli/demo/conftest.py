"""The fixtures that run the program from outside."""

from tests.support.product import product

__all__ = ["product"]
