"""A scripted model, a fake model service, a clock and checks, for tests of code that uses dirge."""

from dirge_py.testing.checks import EventRecorder, assert_balanced, assert_event_grammar
from dirge_py.testing.fake_clock import FakeClock
from dirge_py.testing.fake_service import FakeService, NoReply, RawReply, ReceivedRequest
from dirge_py.testing.scripted_model import ScriptedModel
from dirge_py.testing.wire_formats import ModelReply

__all__ = [
    "EventRecorder",
    "FakeClock",
    "FakeService",
    "ModelReply",
    "NoReply",
    "RawReply",
    "ReceivedRequest",
    "ScriptedModel",
    "assert_balanced",
    "assert_event_grammar",
]
