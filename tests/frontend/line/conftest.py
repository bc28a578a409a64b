"""A place to work in, and one model for all conversations of a test."""

from tests.ui.conftest import project

__all__ = ["project"]
