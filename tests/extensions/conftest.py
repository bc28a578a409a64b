"""The fixtures of whole conversations and of the program from outside."""

from tests.support.product import product

__all__ = ["product"]
