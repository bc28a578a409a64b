"""The fixture `project`, in the test's home."""

from tests.ui.conftest import project

__all__ = ["project"]
