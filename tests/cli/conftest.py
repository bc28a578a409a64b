"""The fixtures that run the program from outside."""

from tests.headless.product import product

__all__ = ["product"]
