"""The fixtures of whole conversations and of the program from outside."""

from tests.conversation.conftest import room
from tests.frontend.print.product import product

__all__ = ["product", "room"]
