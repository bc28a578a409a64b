"""A scripted model, a clock and checks, for tests of code that uses dirge."""

from dirge_py.testing.balance import assert_balanced
from dirge_py.testing.fake_clock import FakeClock
from dirge_py.testing.grammar import assert_event_grammar
from dirge_py.testing.recording import EventRecorder
from dirge_py.testing.scripted_model import ScriptedModel

__all__ = ["EventRecorder", "FakeClock", "ScriptedModel", "assert_balanced", "assert_event_grammar"]
