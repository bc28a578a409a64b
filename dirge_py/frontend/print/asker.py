"""Who answers questions when nobody is there: the policy of `--on-ask`."""

from collections.abc import Sequence
from typing import Literal

from dirge_py.types.questions import PermissionAnswer, PermissionRequest

OnAsk = Literal["deny", "defer", "abort"]


class PolicyAsker:
    """Gives every question the same answer."""

    def __init__(self, on_ask: OnAsk = "deny") -> None:
        self._effect: OnAsk = on_ask

    async def permission(self, requests: Sequence[PermissionRequest]) -> Sequence[PermissionAnswer]:
        return [PermissionAnswer(effect=self._effect) for _ in requests]
