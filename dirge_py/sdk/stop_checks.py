"""The gates and reminders of one run, in the order that is policy."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dirge_py.config.schema import Config, GatesTable
from dirge_py.files.workspace import Workspace
from dirge_py.guards.judge import SideModels
from dirge_py.guards.reminders import DepthTracker, depth_reminder, failure_reminder
from dirge_py.guards.stop_checks import failure_check, suppress_while, todo_check
from dirge_py.guards.verification import Verification, track_verification, verification_check
from dirge_py.lib.lazy import late
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.processes.runner import Runner
from dirge_py.types.errors import ConfigError
from dirge_py.types.events import Sink, UsageReported
from dirge_py.types.hooks import Hooks, TurnInfo

if TYPE_CHECKING:
    from dirge_py.guards.judge import DiffSource, goal_check, judge_check
    from dirge_py.sdk.working_tree import WorkingTree
else:
    WorkingTree = late("dirge_py.sdk.working_tree", "WorkingTree")
    goal_check = late("dirge_py.guards.judge", "goal_check")
    judge_check = late("dirge_py.guards.judge", "judge_check")


@dataclass(frozen=True, slots=True, kw_only=True)
class GateServices:
    """What the gates of one conversation use; what is None has nothing to say.

    `depth` may outlive runs. While `should_defer` the end of a run is not the end of the work.
    """

    judges: SideModels | None = None
    diff: "DiffSource | None" = None
    open_items: Callable[[], Sequence[str]] | None = None
    depth: DepthTracker | None = None
    should_defer: Callable[[], bool] | None = None


def gates(
    config: GatesTable, services: GateServices, *, is_fork: bool = False, is_reviewed: bool = False
) -> Sequence[Hooks]:
    """Fresh bundles for one run: depth, failures, resume → verifier → judge → goal → todo.

    A fork gets none: it answers to whoever forked it. Where the work is reviewed afterwards, nobody
    else judges it: the first three only. What may add follow-ups comes before these.
    """
    if is_fork:
        return ()
    voice = _Voice()
    verification = Verification()
    while_working = [
        depth_reminder(services.depth or DepthTracker(), config.depth),
        *([failure_reminder(config.failures)] if config.failures else []),
        track_verification(verification),
        voice.bundle(),
        failure_check(config.resume),
    ]
    at_the_end = [
        verification_check(verification, config.verifier),
        *_judged(config, services, verification, voice),
        *([todo_check(services.open_items, config.todo)] if services.open_items else []),
    ]
    bundles = while_working if is_reviewed else [*while_working, *at_the_end]
    if services.should_defer is None:
        return bundles
    return [suppress_while(services.should_defer, bundle) for bundle in bundles]


def _judged(
    config: GatesTable, services: GateServices, verification: Verification, voice: "_Voice"
) -> Sequence[Hooks]:
    if services.judges is None:
        return ()
    try:
        ask = services.judges.judge("critic", voice.tell)
    except ConfigError:
        return ()  # the person was told at the start: `unusable_roles`
    if ask is None:
        return ()
    bundles = []
    if config.critic != "off":
        bundles.append(
            judge_check(ask, mode=config.critic, verification=verification, diff=services.diff)
        )
    if config.goal:
        bundles.append(
            goal_check(config.goal, ask, verification=verification, most=config.goal_checks)
        )
    return bundles


class _Voice:
    """The ear of the run that goes on, for what happens outside of its own model calls."""

    def __init__(self) -> None:
        self._emit: Sink | None = None

    def bundle(self) -> Hooks:
        return Hooks(name="usage", transform_context=self._listen)

    def tell(self, event: UsageReported) -> None:
        if self._emit is not None:
            self._emit(event)

    def _listen(self, info: TurnInfo) -> None:
        self._emit = info.emit


def shown_diff(
    config: Config,
    *,
    runner: Runner,
    workspace: Workspace,
    cwd: str,
    withholds: Callable[[str], bool],
    redact: Callable[[str], str],
) -> "DiffSource | None":
    """What the critic is shown of the working tree; nothing where there is no critic."""
    if not config.roles.critic:
        return None
    return WorkingTree(
        runner=runner, cwd=cwd, roots=workspace.roots, withholds=withholds, redact=redact
    ).diff
