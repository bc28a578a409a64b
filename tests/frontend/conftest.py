"""A place to work in, and one model for all conversations of a test."""

from tests.ui.conftest import room

__all__ = ["room"]
