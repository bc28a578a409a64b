"""A scripted model, a clock and checks, for tests of code that uses dirge."""

from dirge_py.testing.checks import EventRecorder, assert_balanced, assert_event_grammar
from dirge_py.testing.fake_clock import FakeClock
from dirge_py.testing.scripted_model import ScriptedModel

__all__ = ["EventRecorder", "FakeClock", "ScriptedModel", "assert_balanced", "assert_event_grammar"]
