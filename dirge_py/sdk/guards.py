"""The hooks of a run in one list, whose order is policy, and the check of attachments."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from dirge_py.agent_loop.cancellation import timeout_interceptor
from dirge_py.agent_loop.merge import compose
from dirge_py.config.models import level_of, role_choice
from dirge_py.config.schema import Config
from dirge_py.context.attachments import Attacher, mentions
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
from dirge_py.guards.repetition import StormBreaker
from dirge_py.guards.tool_hooks import hide_unavailable_tools, limit_tool_retries
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.permission.engine import PermissionEngine, suggest_flags
from dirge_py.permission.questions import asked_claims
from dirge_py.sdk.stop_checks import GateServices, gates
from dirge_py.types.errors import FileError
from dirge_py.types.events import Sink
from dirge_py.types.extensions import RunContext
from dirge_py.types.hooks import Hooks, LoopConfig, RequestSettings
from dirge_py.types.messages import Usage, UserMessage
from dirge_py.types.questions import Asker, PermissionRequest
from dirge_py.types.tools import Claim, Interceptor, ToolValidator


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
    limits: Limits
    """The most that one run may use; the most turns come with each run."""
    cost_of: Callable[[Usage, str], float | None]
    """What that usage of that model costs; None where the price is unknown."""
    validate: ToolValidator
    """Checks the arguments of calls."""
    asset_dir: str | None
    """Where pictures are stored; None where they are not."""
    context: ContextParts
    """What the view of the history is made of."""
    spending: SideUsage
    """What models besides the main one used."""
    extensions: ExtensionSet
    """The capabilities."""
    calls: CallHooks
    """What goes around calls, first and last."""
    gates: GateServices | None = None
    """What checks whether a run may stop; None: nothing does."""
    touched: Callable[[], TouchedFolders] | None = None
    """Makes what tells the model of instruction files in folders it touches."""
    prompts: PromptBook | None = None
    """The prompts kept in files."""
    on_run: Sequence[Callable[[], None]] = ()
    """Called when a prompt opens a run."""
    clock: Callable[[], float] = time.monotonic
    """Seconds since some start, for limits of time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkPlace:
    """What differs for the guards of a fork that works elsewhere, or may do less there."""

    permission: Hooks
    """Judges its calls."""
    validate: ToolValidator
    """Checks the arguments of its calls."""
    read_file: ReadFile
    """Reads the files that are shown again after a summary."""
    reread: Callable[[Sequence[str]], str]
    """Its system prompt for tools of these names, its files read anew."""


class Guards:
    """Configures runs. What outlives a run (budgets, what was compacted) is kept here."""

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
        self, model: str, extensions: ExtensionSet, place: ForkPlace | None = None
    ) -> "Guards":
        """Guards for a fork: a memory of their own, and no stop checks.

        `place` is what differs where it works elsewhere.
        """
        parts = replace(self._parts, context=for_fork(self._parts.context), extensions=extensions)
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
        book = self._parts.prompts
        prompt = book.current if book is not None else None
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
            clock=self._parts.clock,
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
        parts, extensions = self._parts, self._parts.extensions
        meter = self._meter(run)
        return [
            run.bundle,
            *extensions.hooks(context, "first"),
            hide_unavailable_tools(),
            meter.bundle(),
            self._storm.bundle(),
            limit_tool_retries(parts.config.tools.retries),
            self.context.bundle(run.model),
            *([self._touched.bundle()] if self._touched is not None else []),
            resume_broken_answers(parts.config.loop.recoveries),
            shrink_on_overflow(self.context.shrink),
            announce_server_compaction(),
            self._escalate(run),
            *extensions.hooks(context, "usual"),
            # A stop check stays silent when anybody before it has something to say.
            *self._stop_checks(run, meter),
            *extensions.hooks(context, "last"),
            *run.further,
            *parts.calls.last,
        ]

    def _stop_checks(self, run: RunSettings, meter: Meter) -> Sequence[Hooks]:
        services = self._parts.gates
        if services is None:
            return ()
        # A run that is done must not end at a limit because of what a check asks besides.
        asked_to = services.should_defer
        services = replace(
            services,
            should_defer=lambda: meter.is_last_turn or (asked_to is not None and asked_to()),
        )
        return gates(
            self._parts.config.loop.gates,
            services,
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
        most = self._parts.limits
        return Meter(
            most if most.turns is not None else replace(most, turns=run.max_turns),
            cost_of=self._parts.cost_of,
            clock=self._parts.clock,
            spending=self._parts.spending,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedAttacher:
    """Reads the files that a prompt mentions as `@path`, under the same rules as reads of calls."""

    attacher: Attacher
    """Reads them."""
    gate: PermissionEngine
    """Judges whether they may be read."""
    asker: Asker
    """Is asked about those that need a question."""

    async def attach(self, text: str, pictures: Mapping[str, bytes]) -> UserMessage:
        """`text` with its attachments; `pictures` are those that it names, by their names.

        Raises:
            FileError: one of them must not or can't be read. Then send nothing.
        """
        for written, path in mentions(text, self.attacher.cwd):
            await self._check(written, path)
        return await asyncio.to_thread(self.attacher.attach, text, pictures)

    async def _check(self, written: str, path: Path) -> None:
        claims = [Claim("read", str(path))]
        decision = self.gate.decide(claims, str(self.attacher.cwd))
        effect, policy = decision.effect, str(decision.policy)
        if effect == "ask":
            request = PermissionRequest(
                call_id="",
                tool_name="attach",
                claims=asked_claims(decision),
                cwd=str(self.attacher.cwd),
            )
            (answer,) = await self.asker.permission([request])
            effect, policy = ("allow" if answer.effect == "allow" else "deny"), "answer"
        self.gate.history.record(
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
            hint=f"{flags} would allow it. " * bool(flags) + "Without the @ it is only a name.",
        )
