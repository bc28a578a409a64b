"""The fake model service of `dirge_py.testing`, by the name that tests use."""

from dirge_py.testing.fake_service import (
    FakeService,
    NoReply,
    RawReply,
    ReceivedRequest,
    ServiceReply,
    cut,
)
from dirge_py.testing.wire_formats import BreakKind, ModelReply

__all__ = [
    "BreakKind",
    "FakeService",
    "ModelReply",
    "NoReply",
    "RawReply",
    "ReceivedRequest",
    "ServiceReply",
    "cut",
]
