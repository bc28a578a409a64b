"""Who decides in the runs of one conversation, in one list: its order is policy."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from dirge_py.agent_loop.cancellation import timeout_interceptor
from dirge_py.agent_loop.merge import compose
from dirge_py.config.models import level_of, role_choice
from dirge_py.config.schema import Config
from dirge_py.context.hooks import ContextHooks, ContextParts, for_fork
from dirge_py.context.instructions import TouchedFolders
from dirge_py.context.prompts import PromptBook
from dirge_py.context.summary import ReadFile
from dirge_py.conversation.deps import RunSettings
from dirge_py.conversation.extensions import ExtensionSet
from dirge_py.extensions.plugins.registration import Plugins
from dirge_py.guards.limits import Limits, Meter, SideUsage
from dirge_py.guards.recovery import (
    EscalationBudget,
    announce_server_compaction,
    escalate_on_failure,
    resume_broken_answers,
    shrink_on_overflow,
)
from dirge_py.guards.reminders import DepthTracker
from dirge_py.guards.repetition import StormBreaker
from dirge_py.guards.tool_hooks import hide_unavailable_tools, limit_tool_retries
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.sdk.stop_checks import GateServices, gates
from dirge_py.types.extensions import RunContext
from dirge_py.types.hooks import Hooks, LoopConfig, RequestSettings
from dirge_py.types.messages import Usage
from dirge_py.types.tools import Interceptor, ToolValidator


@dataclass(frozen=True, slots=True, kw_only=True)
class CallHooks:
    """What goes around the calls of a conversation's runs, first and last of all."""

    write_ahead: Sequence[Interceptor] = ()
    """Outermost around a call of a recorded run: it is in the journal before anything happens."""
    at_start: Sequence[Interceptor] = ()
    """Innermost around a call, behind those of plugins: the last before it begins."""
    last: Sequence[Hooks] = ()
    """Nothing comes after these: secrets are taken out, then permission decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardParts:
    """What the guards of one conversation are made of."""

    config: Config
    """The settings."""
    cost_of: Callable[[Usage, str], float | None]
    """What that usage of that model costs; None where nobody knows."""
    validate: ToolValidator
    """Checks the arguments of calls."""
    asset_dir: str
    """Where pictures are stored."""
    context: ContextParts
    """What the view of the history is made of."""
    gates: GateServices
    """What checks whether a run may stop."""
    spending: SideUsage
    """What models besides the main one used."""
    extensions: ExtensionSet
    """The capabilities."""
    calls: CallHooks
    """What goes around calls, first and last."""
    touched: Callable[[], TouchedFolders]
    """Makes what tells the model of instruction files in folders it touches."""
    prompts: PromptBook
    """The prompts kept in files."""
    on_run: Sequence[Callable[[], None]] = ()
    """Called when a prompt opens a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkPlace:
    """What the guards of a fork have of their own that works elsewhere, or may do less there."""

    permission: Hooks
    validate: ToolValidator
    read_file: ReadFile
    reread: Callable[[Sequence[str]], str]


class Guards:
    """Configures runs. What outlives a run (budgets, what was folded) is kept here."""

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
        )
        self._escalations = EscalationBudget(most=config.loop.escalations)
        self._escalation = role_choice(config, "escalate")
        self._touched = parts.touched()
        self.context = ContextHooks(
            replace(parts.context, on_compacted=self._note_compaction), model=model
        )
        self.sinks = (self.context.sink, self._touched.sink)

    def _note_compaction(self) -> None:
        self._storm.note_compaction()
        self._touched.forget()

    def for_fork(
        self, model: str, extensions: ExtensionSet, place: ForkPlace | None = None
    ) -> "Guards":
        """Guards for a conversation that was forked off: its own memory, and no gates.

        `place` is what differs where it works elsewhere.
        """
        services = replace(self._parts.gates, depth=DepthTracker())
        parts = replace(
            self._parts,
            context=for_fork(self._parts.context),
            gates=services,
            extensions=extensions,
        )
        if place is not None:
            context = replace(parts.context, read_file=place.read_file, reread=place.reread)
            last = (*parts.calls.last[:-1], place.permission)
            calls = replace(parts.calls, last=last)
            parts = replace(parts, context=context, calls=calls, validate=place.validate)
        return Guards(parts, model=model, is_fork=True)

    def configure(self, run: RunSettings) -> LoopConfig:
        """The loop's configuration for one run, its guards fresh."""
        config, extensions = self._parts.config, self._parts.extensions
        if not self._is_fork and not run.is_continued:
            for begin in self._parts.on_run:
                begin()
        around = timeout_interceptor(config.timeouts.tool_s, config.timeouts.tools)
        written_ahead = self._parts.calls.write_ahead if run.is_recorded else ()
        context = run.context(is_fork=self._is_fork)
        bundles = self._bundles(run, context)
        if (plugins := extensions.find(Plugins)) is not None:
            plugins.note_order(bundles)
        prompt = self._parts.prompts.current
        base = LoopConfig(
            model=run.model,
            provider=run.model.partition("/")[0],
            thinking_level=run.thinking,
            request=RequestSettings(chunk_timeout_s=prompt.chunk_s if prompt is not None else None),
            tool_execution=config.tools.execution,
            max_parallel=config.tools.max_parallel,
            validate=self._parts.validate,
            scavenge=config.loop.scavenge,
            check_aborted=extensions.check_aborted(),
            asset_dir=self._parts.asset_dir,
            # What an extension does around a call happens after the call was written down.
            interceptors=[
                *extensions.around_tool(context, is_first=True),
                *written_ahead,
                *extensions.around_tool(context, is_first=False),
                *self._parts.calls.at_start,
                around,
            ],
        )
        return compose(*bundles, config=base)

    def _bundles(self, run: RunSettings, context: RunContext) -> Sequence[Hooks]:
        """The order: what was typed; what ends or redirects a run; who adds to it; permission."""
        parts, loop = self._parts, self._parts.config.loop
        extensions = parts.extensions
        is_silent = self._is_fork or run.single_turn
        meter = self._meter(run)
        # A run that is done must not end at a limit because of what a gate asks besides.
        asked_to = parts.gates.should_defer
        services = replace(
            parts.gates,
            should_defer=lambda: meter.is_last_turn or (asked_to is not None and asked_to()),
        )
        return [
            run.bundle,
            *extensions.hooks(context, "first"),
            hide_unavailable_tools(),
            meter.bundle(),
            self._storm.bundle(),
            limit_tool_retries(parts.config.tools.retries),
            self.context.bundle(run.model),
            self._touched.bundle(),
            resume_broken_answers(loop.recoveries),
            shrink_on_overflow(self.context.shrink),
            announce_server_compaction(),
            self._escalate(run),
            *extensions.hooks(context, "usual"),
            # A gate stays silent when anybody before it has something to say.
            *gates(loop.gates, services, is_fork=is_silent, is_reviewed=run.is_reviewed),
            *extensions.hooks(context, "last"),
            *run.further,
            *parts.calls.last,
        ]

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
        most = self._parts.config.limits
        return Meter(
            Limits(
                turns=run.max_turns,
                requests=most.requests,
                tool_calls=most.tool_calls,
                input_tokens=most.input_tokens,
                output_tokens=most.output_tokens,
                tokens=most.tokens,
                cost_usd=most.cost_usd,
                time_s=most.time_s,
            ),
            cost_of=self._parts.cost_of,
            spending=self._parts.spending,
        )
