"""A room to talk in."""

from tests.conversation.conftest import room

__all__ = ["room"]
