"""The stop checks and reminders of one run; their order is policy."""

from collections.abc import Callable, Sequence

from dirge_py.config.schema import GatesTable
from dirge_py.conversation.deps import EventForwarder
from dirge_py.guards.judge import DiffSource, SideModels, goal_check, judge_check
from dirge_py.guards.reminders import DepthTracker, depth_reminder
from dirge_py.guards.stop_checks import StopCheck, failure_check, stop_checks, todo_check
from dirge_py.guards.verification import Verification, track_verification, verification_check
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.errors import ConfigError
from dirge_py.types.hooks import Hooks, TurnInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class GateServices:
    """What the stop checks of one conversation use; without a part its check is silent."""

    judges: SideModels | None = None
    """The models that judge the work."""
    diff: DiffSource | None = None
    """Reads the change in the working tree, for the critic."""
    open_items: Callable[[], Sequence[str]] | None = None
    """The open items of the todo list."""
    depth: DepthTracker | None = None
    """Counts calls since the last prompt; it may outlive a run."""


def gates(
    config: GatesTable,
    services: GateServices,
    *,
    should_defer: Callable[[], bool] = lambda: False,
    is_fork: bool = False,
    is_reviewed: bool = False,
) -> Sequence[Hooks]:
    """Make the reminders and stop checks of one run.

    When the agent wants to stop, judge → goal → resume → verifier → todo are asked, in this order,
    and the first with a message is the only one in this run; but judge and goal, which the user
    has set up, keep their own numbers of tries. A fork gets none: its parent checks its work. While
    `should_defer`, stop checks are silent. If the work is reviewed afterwards, only `resume` is
    asked. Hooks that may add follow-ups come first.
    """
    if is_fork:
        return ()
    usage = EventForwarder()

    def follow_run(info: TurnInfo) -> None:
        usage.sink = info.emit

    verification = Verification()
    checks = [failure_check(config.resume)]
    if not is_reviewed:
        todo = [todo_check(services.open_items, config.todo)] if services.open_items else []
        judged = _judged(config, services, verification, usage)
        checks = [*judged, *checks, verification_check(verification, config.verifier), *todo]
    return [
        depth_reminder(services.depth or DepthTracker(), config.depth),
        track_verification(verification),
        Hooks(name="usage", transform_context=follow_run),
        stop_checks(checks, should_defer=should_defer),
    ]


def _judged(
    config: GatesTable, services: GateServices, verification: Verification, usage: EventForwarder
) -> Sequence[StopCheck]:
    if services.judges is None:
        return ()
    try:
        ask = services.judges.judge("critic", usage)
    except ConfigError:
        return ()  # `unusable_roles` notified the person at the start
    if ask is None:
        return ()
    checks = []
    if config.critic != "off":
        checks.append(
            judge_check(ask, mode=config.critic, verification=verification, diff=services.diff)
        )
    if config.goal:
        checks.append(
            goal_check(config.goal, ask, verification=verification, most=config.goal_checks)
        )
    return checks
