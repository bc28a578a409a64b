"""The hooks of a run in one list, whose order is policy, its stop checks, and attachments."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import Protocol, get_args

from dirge_py.agent_loop.cancellation import timeout_interceptor
from dirge_py.agent_loop.merge import compose
from dirge_py.config.models import level_of, role_choice
from dirge_py.config.schema import Config, GatesTable
from dirge_py.context.attachments import Attacher, mentions
from dirge_py.context.hooks import ContextHooks, for_fork
from dirge_py.context.instructions import TouchedFolders
from dirge_py.context.prompts import PromptBook
from dirge_py.context.view import ContextParts
from dirge_py.conversation.deps import EventForwarder, Pictures, RunSettings
from dirge_py.conversation.extensions import ExtensionSet
from dirge_py.extensions.plugins.registration import Plugins
from dirge_py.guards.broken_answers import ask_again
from dirge_py.guards.judge import DiffSource, SideModels, goal_check, judge_check
from dirge_py.guards.limits import LimitsInForce, Meter, SideUsage
from dirge_py.guards.recovery import (
    EscalationBudget,
    announce_server_compaction,
    escalate_on_failure,
    resume_broken_answers,
    shrink_on_overflow,
)
from dirge_py.guards.reminders import DepthTracker, depth_reminder
from dirge_py.guards.repetition import StormBreaker
from dirge_py.guards.stop_checks import StopCheck, failure_check, stop_checks, todo_check
from dirge_py.guards.tool_hooks import (
    end_at_fatal_errors,
    hide_unavailable_tools,
    limit_tool_calls,
    limit_tool_retries,
    note_result_limits,
    offer_only,
    redact_results,
)
from dirge_py.guards.verification import Verification, track_verification, verification_check
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.permission.authorizer import Authorizer
from dirge_py.permission.engine import PermissionEngine, suggest_flags
from dirge_py.session.recorder import SessionMetadata
from dirge_py.tools.toolbox import check_result
from dirge_py.types.errors import ConfigError, FileError
from dirge_py.types.events import Sink, SystemNotice
from dirge_py.types.extensions import HookStage, RunContext
from dirge_py.types.hooks import Hooks, LoopConfig, TurnInfo
from dirge_py.types.llm import RequestSettings
from dirge_py.types.messages import Usage, UserMessage
from dirge_py.types.questions import Asker, PermissionRequest
from dirge_py.types.tools import Claim, Interceptor, ToolValidator


class Clock(Protocol):
    """Seconds since some start, and a sleep on the same clock."""

    def __call__(self) -> float: ...
    async def sleep(self, delay_s: float, /) -> None: ...


class WallClock:
    """The monotonic clock of the system."""

    def __call__(self) -> float:
        return time.monotonic()

    async def sleep(self, delay_s: float, /) -> None:
        await asyncio.sleep(delay_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardParts:
    """What the guards of one conversation use."""

    config: Config
    """The settings."""
    limits: LimitsInForce
    """Limits of the runs and the session; `turns` None: each run brings its own."""
    cost_of: Callable[[Usage, str], float | None]
    """Returns the cost of that usage of that model in USD; None if the price is unknown."""
    validate: ToolValidator
    """Checks the arguments of calls."""
    asset_dir: str | None
    """Folder for images; None: they are not stored."""
    context: ContextParts
    """What the view of the history uses."""
    spending: SideUsage
    """Counts the usage of models besides the main one."""
    extensions: ExtensionSet
    """The extensions of the conversation."""
    authorizer: Authorizer
    """Decides about calls, after all other hooks."""
    write_ahead: Sequence[Interceptor] = ()
    """Outermost interceptors of recorded runs: they write a call to the journal before it runs."""
    gates: Callable[..., Sequence[Hooks]] = lambda **run: ()
    """Makes the stop checks of a run: `gates` with its services."""
    touched: Callable[[], TouchedFolders] | None = None
    """Makes the hooks that send the model the instruction files of folders it touches."""
    prompts: PromptBook = field(default_factory=lambda: PromptBook(()))
    """The prompt files that `/prompt` offers."""
    on_run: Callable[[], None] = lambda: None
    """Called when a prompt starts a run."""
    clock: Clock = field(default_factory=WallClock)
    """The clock of time limits, and of waits after broken answers."""


class Guards:
    """Configures runs, and holds the state that outlives a run: budgets, the compacted view."""

    def __init__(self, parts: GuardParts, *, model: str, is_fork: bool = False) -> None:
        config = parts.config
        self._parts = parts
        self._is_fork = is_fork
        storm = config.loop.storm
        self._storm = StormBreaker(
            storm.window,
            storm.threshold,
            exempt=storm.exempt,
            mutating=storm.mutating,
            enabled=storm.enabled,
            failures=config.loop.gates.failures,
            clock=parts.clock,
        )
        self._escalations = EscalationBudget(most=config.loop.escalations)
        self._escalation = role_choice(config, "escalate")
        self._verification = Verification()
        self._touched = parts.touched() if parts.touched is not None else None
        self.context = ContextHooks(
            replace(parts.context, on_compacted=self._note_compaction), model=model
        )
        touched = [self._touched.sink] if self._touched is not None else []
        self.sinks: Sequence[Sink] = (self.context.sink, *touched)

    def _note_compaction(self) -> None:
        self._storm.note_compaction()
        if self._touched is not None:
            self._touched.forget()

    def for_fork(
        self,
        model: str,
        extensions: ExtensionSet,
        place: Callable[[GuardParts], GuardParts] = lambda parts: parts,
    ) -> "Guards":
        """Return the guards of a fork: with new state and without stop checks.

        `place` replaces the parts that differ in another folder or with fewer rights.
        """
        parts = replace(self._parts, context=for_fork(self._parts.context), extensions=extensions)
        return Guards(place(parts), model=model, is_fork=True)

    def configure(self, run: RunSettings) -> LoopConfig:
        """Return the configuration of the loop for one run, with new guards."""
        config, extensions = self._parts.config, self._parts.extensions
        if not (self._is_fork or run.is_continued or run.by_program):
            self._parts.on_run()
        around = timeout_interceptor(config.timeouts.tool_s, config.timeouts.tools)
        written_ahead = self._parts.write_ahead if run.is_recorded else ()
        context = run.context(is_fork=self._is_fork)
        bundles = self._bundles(run, context)
        plugins = extensions.find(Plugins)
        if plugins is not None and not (self._is_fork or run.by_program):
            plugins.note_order(bundles)
        prompt = self._parts.prompts.current
        base = LoopConfig(
            model=run.model,
            provider=run.model.partition("/")[0],
            thinking_level=run.thinking,
            request=RequestSettings(chunk_timeout_s=prompt.chunk_s if prompt is not None else None),
            tool_execution=config.tools.execution,
            max_parallel=config.tools.max_parallel,
            only_reads=self._parts.authorizer.only_reads,
            validate=self._parts.validate,
            repair=not run.by_program,
            scavenge=config.loop.scavenge,
            check_aborted=extensions.check_aborted(),
            asset_dir=self._parts.asset_dir,
            # Interceptors of extensions run after the call was written to the journal.
            clock=self._parts.clock,
            interceptors=[
                *extensions.around_tool(context, is_first=True),
                *written_ahead,
                *extensions.around_tool(context, is_first=False),
                self._parts.authorizer.at_start,
                around,
                self._storm.time_call,
                check_result,
            ],
        )
        return compose(*bundles, config=base)

    def _bundles(self, run: RunSettings, context: RunContext) -> Sequence[Hooks]:
        """All hooks in order: typed input, guards, extensions, stop checks, permission."""
        parts, extensions, guest = self._parts, self._parts.extensions, self._escalation
        redacting = redact_results(parts.context.redact)
        last = [redacting, note_result_limits(), parts.authorizer.bundle()]
        if run.by_program:
            stages: Sequence[HookStage] = get_args(HookStage)
            return [*(each for stage in stages for each in extensions.hooks(context, stage)), *last]
        meter, prompt = self._meter(run), parts.prompts.current
        allowed_tools: Sequence[Hooks] = ()
        if prompt is not None and prompt.allow_tools is not None:
            allowed_tools = [offer_only(prompt.allow_tools, f"prompt {prompt.name}")]
        return [
            run.bundle,
            *extensions.hooks(context, "first"),
            hide_unavailable_tools(),
            *allowed_tools,
            meter.bundle(),
            self._storm.bundle(),
            limit_tool_calls(parts.config.tools.most_calls),
            limit_tool_retries(parts.config.tools.retries),
            end_at_fatal_errors(frozenset(parts.config.tools.fatal_errors)),
            self.context.bundle(run.model),
            *([self._touched.bundle()] if self._touched is not None else []),
            resume_broken_answers(parts.config.loop.recoveries, sleep=parts.clock.sleep),
            ask_again(
                scavenges=parts.config.loop.scavenge,
                can_ask=lambda: not (run.single_turn or meter.is_last_turn),
                allowed=prompt.allow_tools if prompt is not None else None,
            ),
            announce_server_compaction(),
            self._escalate(run),
            *extensions.hooks(context, "usual"),
            # A stop check stays silent if an earlier hook adds a message.
            *self._stop_checks(run, meter),
            shrink_on_overflow(
                self.context.shrink,
                lambda: guest.name if guest and guest.name != run.chosen_model() else None,
            ),
            *extensions.hooks(context, "last"),
            *run.further,
            *last,
        ]

    def _stop_checks(self, run: RunSettings, meter: Meter) -> Sequence[Hooks]:
        if not run.is_continued:
            self._verification = Verification()
        return self._parts.gates(
            verification=self._verification,
            # A finished run must not end at a limit because a check asks for another turn.
            should_defer=lambda: meter.is_last_turn,
            is_fork=self._is_fork or run.single_turn,
            is_reviewed=run.is_reviewed,
        )

    def _escalate(self, run: RunSettings) -> Hooks:
        stronger = self._escalation
        return escalate_on_failure(
            stronger.name if stronger is not None else None,
            self._escalations,
            home=run.chosen_model,
            level=level_of(stronger, self._parts.config.roles.escalate or "") if stronger else None,
            home_level=run.chosen_thinking,
        )

    def _meter(self, run: RunSettings) -> Meter:
        meter = Meter(
            self._parts.limits,
            turns=run.max_turns,
            cost_of=self._parts.cost_of,
            clock=self._parts.clock,
            spending=self._parts.spending,
        )
        if not self._is_fork:
            self._parts.limits.run_used = meter.used
        return meter


GOAL = "goal"
"""The name of the goal among the values of a session."""


class SessionGoal:
    """What the runs of a session must reach: what `/goal` set, else `goal` of the settings."""

    def __init__(self, configured: str | None, values: SessionMetadata | None = None) -> None:
        self._configured = configured or ""
        self._values = values or SessionMetadata()

    @property
    def text(self) -> str:
        """The goal; "" if there is none."""
        own = self._values.get(GOAL)
        return own if isinstance(own, str) else self._configured

    def note_met(self, text: str, info: TurnInfo) -> None:
        """Remove the goal `text` of the session, which is met; a newer or configured one stays."""
        if text == self._values.get(GOAL):
            info.emit(SystemNotice(f"The goal is met, and off now: {text}"))
            self._values.put(GOAL, None)


def gates(
    config: GatesTable,
    *,
    judges: SideModels | None = None,
    diff: DiffSource | None = None,
    open_items: Callable[[], Sequence[str]] | None = None,
    goal: SessionGoal | None = None,
    depth: DepthTracker | None = None,
    verification: Verification | None = None,
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

    `judges` judge the work, `diff` reads the change in the working tree for the critic, and
    `open_items` the open items of the todo list; without one its check is silent. `goal` is that of
    the session, which replaces the one in the settings. `depth` counts calls since the last prompt.
    `verification` has what was edited and checked before a continued run; None: nothing was.
    """
    if is_fork:
        return ()
    usage = EventForwarder()

    def follow_run(info: TurnInfo) -> None:
        usage.sink = info.emit

    verification = verification or Verification()
    checks = [failure_check(config.resume)]
    if not is_reviewed:
        todo = [todo_check(open_items, config.todo)] if open_items else []
        judged = _judged(
            config, judges, diff, verification, usage, goal or SessionGoal(config.goal)
        )
        checks = [*judged, *checks, verification_check(verification, config.verifier), *todo]
    return [
        depth_reminder(depth or DepthTracker(), config.depth),
        track_verification(verification),
        Hooks(name="usage", transform_context=follow_run),
        stop_checks(checks, should_defer=should_defer),
    ]


def _judged(
    config: GatesTable,
    judges: SideModels | None,
    diff: DiffSource | None,
    verification: Verification,
    usage: EventForwarder,
    goal: SessionGoal,
) -> Sequence[StopCheck]:
    if judges is None:
        return ()
    try:
        ask = judges.judge("critic", usage)
    except ConfigError:
        return ()  # `unusable_roles` notified the person at the start
    checks = []
    if config.critic != "off" and ask is not None:
        checks.append(judge_check(ask, mode=config.critic, verification=verification, diff=diff))
    if goal.text:
        most, judge = config.goal_checks, ask or partial(judges.ask, "critic")
        met = partial(goal.note_met, goal.text)
        checks.append(
            goal_check(goal.text, judge, verification=verification, most=most, on_met=met)
        )
    return checks


def guarded_attach(
    attacher: Attacher, gate: PermissionEngine, asker: Asker
) -> Callable[[str, Pictures], Awaitable[UserMessage]]:
    """Return a function that attaches the files which a prompt mentions as `@path`.

    The rules for reads of calls hold for them. Its second argument holds pasted images by name. It
    raises FileError: a file can't be read, or reading it is not allowed. Then send nothing.
    """
    cwd = str(attacher.cwd)

    async def attach(text: str, pictures: Pictures) -> UserMessage:
        for written, path in mentions(text, attacher.cwd):
            await check(written, path)
        return await asyncio.to_thread(attacher.attach, text, pictures)

    async def check(written: str, path: Path) -> None:
        decision = gate.decide([Claim("read", str(path))], cwd)
        effect, policy = decision.effect, decision.policy
        if effect == "ask":
            request = PermissionRequest(
                call_id="", tool_name="attach", claims=decision.claims, cwd=cwd
            )
            (answer,) = await asker.permission([request])
            effect, policy = ("allow" if answer.effect == "allow" else "deny"), "answer"
        gate.history.record(
            tool="attach",
            call_id="",
            decision=decision,
            effect="allow" if effect == "allow" else "deny",
            policy=policy,
            reason=decision.reason,
        )
        if effect == "allow":
            return
        flags = suggest_flags(decision)
        raise FileError(
            f"@{written} was not attached: {decision.reason}.",
            hint=f"{flags} would allow it. " * bool(flags) + "Without the @ it is plain text.",
        )

    return attach
