"""What every model call of a conversation goes through: routing, retries, then stand-ins."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from dirge_py.agent_loop.retry import RecoveryPolicy, retrying_stream_fn
from dirge_py.config.roles import level_of, usable_choice
from dirge_py.config.schema import Config
from dirge_py.lib.late import late
from dirge_py.providers.models import ModelDirectory
from dirge_py.types.errors import ConfigError
from dirge_py.types.llm import StreamFn

if TYPE_CHECKING:
    from dirge_py.providers.fallback import Fallback, StandIn
else:
    Fallback = late("dirge_py.providers.fallback", "Fallback")
    StandIn = late("dirge_py.providers.fallback", "StandIn")


class ModelCalls:
    """`stream` is `route`, or what `models` route; with retries for each model, and then with the
    models of `[roles] fallback`.

    `notify` hears of each stand-in. One that cannot be used is left out: `unusable_roles` tells.
    """

    def __init__(
        self,
        config: Config,
        models: ModelDirectory,
        route: StreamFn | None,
        notify: Callable[[str], None],
    ) -> None:
        self.stream: StreamFn = retrying_stream_fn(route or models.stream, RecoveryPolicy())
        self._fallback: Fallback | None = None
        if config.roles.fallback:
            stand_ins = _stand_ins(config)
            self._fallback = Fallback(self.stream, stand_ins, notify, models.holds_schema)
            self.stream = self._fallback.stream

    def begin_run(self) -> None:
        """A prompt opens a run: whoever was out of reach is tried again."""
        if self._fallback is not None:
            self._fallback.begin_run()


def _stand_ins(config: Config) -> "list[StandIn]":
    found = []
    for role, spec in config.roles.named():
        if role != "fallback":
            continue
        try:
            choice = usable_choice(config, spec)
        except ConfigError:
            continue  # the person was told at the start
        found.append(StandIn(choice.name, level_of(choice, spec)))
    return found
