"""From settings to a conversation: the one place where the parts meet."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from dirge_py.config.paths import state_dir
from dirge_py.config.roles import unusable_roles, usable_model
from dirge_py.config.schema import Config
from dirge_py.context.attachments import Attacher
from dirge_py.context.hooks import (
    ContextParts,
    context_parts,
    file_reader,
    relay_to,
    report_of,
    summarise_with,
)
from dirge_py.context.prompt_source import SystemPrompt
from dirge_py.conversation.conversation import Conversation
from dirge_py.conversation.deps import Parts, PromptCheck, Relay
from dirge_py.conversation.durable.recording import Engine
from dirge_py.conversation.durable.seams import durable_interceptor, durable_stream
from dirge_py.extensions.guardrails.hooks import Guardrails
from dirge_py.extensions.memory.base import MemoryProvider
from dirge_py.extensions.memory.providers import at_run_end, open_memory
from dirge_py.extensions.plugins.loading import load_plugins
from dirge_py.files.log.log_records import Log, keep_off_the_screen
from dirge_py.guards.judges import Judges
from dirge_py.guards.limits import Spending
from dirge_py.guards.redaction import scrub
from dirge_py.lib.garbage import begin_collecting
from dirge_py.lib.redactor import Redactor
from dirge_py.permission.authorizer import Authorizer
from dirge_py.processes.outputs import OutputStore
from dirge_py.providers.client import HttpClient
from dirge_py.providers.model_calls import ModelCalls
from dirge_py.providers.models import ModelDirectory
from dirge_py.providers.recording import begin_recording, recorded
from dirge_py.sdk.attach import GuardedAttacher
from dirge_py.sdk.authorizing import authorizer_of
from dirge_py.sdk.explain import Explainer
from dirge_py.sdk.forks import Forks, Parent
from dirge_py.sdk.guards import GuardParts, Guards
from dirge_py.sdk.machine import Machine
from dirge_py.sdk.options import BuildOptions
from dirge_py.sdk.plan import plan_terms, stands
from dirge_py.sdk.restoring import plan_left, queued_again, restore
from dirge_py.sdk.room import Room, Site, open_room
from dirge_py.sdk.sessions import changes_since, open_store, refuse_to_send, typed_dir
from dirge_py.sdk.stop_checks import GateServices, shown_diff
from dirge_py.sdk.uncommitted import uncommitted
from dirge_py.sdk.workshop import Workshop
from dirge_py.session.continuations import continuations
from dirge_py.session.history import Loaded
from dirge_py.session.recorder import Recorder, may_change_something
from dirge_py.types.events import Sink, SystemNotice
from dirge_py.types.llm import StreamFn, ThinkingLevel
from dirge_py.types.questions import Asker


def build(
    config: Config,
    asker: Asker,
    options: BuildOptions | None = None,
    *,
    stream_fn: StreamFn | None = None,
    engine: Engine | None = None,
    memory: MemoryProvider | None = None,
) -> Conversation:
    """A conversation in the current folder.

    `stream_fn` stands in for the configured providers, `engine` for the one in this process,
    `memory` for what the settings keep.

    Raises:
        NoProvider: no model can be talked to.
        ConfigError: a setting or rule does not hold.
        SessionError: the session asked for cannot be opened.
    """
    # What it takes to get here has been imported; what comes now also goes.
    begin_collecting()
    keep_off_the_screen()
    with ExitStack() as undo:
        site = _Site(config, asker, options or BuildOptions(), stream_fn, engine, memory, undo)
        conversation = site.conversation()
        undo.pop_all()
    return conversation


class _Site:
    """Everything under construction, for one conversation. `undo` is for when that fails."""

    def __init__(
        self,
        config: Config,
        asker: Asker,
        options: BuildOptions,
        stream_fn: StreamFn | None,
        engine: Engine | None,
        memory: MemoryProvider | None,
        undo: ExitStack,
    ) -> None:
        self.config = config
        self.asker = asker
        self.options = options
        self.engine = engine
        self.undo = undo
        self.cwd = Path.cwd()
        self.redactor = Redactor()
        self.client = recorded(HttpClient(), options.record, self.redactor.redact)
        self.models = ModelDirectory(
            config, self.client, self.redactor, is_scripted=stream_fn is not None
        )
        self.calls = ModelCalls(config, self.models, stream_fn, self.notice)
        self.stream_fn = self.calls.stream
        self.late_notices: list[str] = []
        notify = self.late_notices.append
        self.recorded = begin_recording(options.record, notify, undo)
        self.plugins = load_plugins(config, notify=notify, project=options.project)
        self.relay = Relay()
        self.checks = Guardrails(config.guardrail, redact=self.redactor.redact, notice=notify)
        self.on_close: list[Callable[[], Awaitable[None]]] = []
        self.machine = Machine(
            config, options, cwd=self.cwd, redactor=self.redactor, relay=self.relay, undo=undo
        )
        self.workspace, self.runner = self.machine.workspace, self.machine.runner
        self.memory = memory or open_memory(config, self.cwd, self.redactor.redact)
        self.workshop = Workshop(
            config,
            cwd=self.cwd,
            machine=self.machine,
            asker=asker,
            plugins=self.plugins,
            redact=self.redactor.redact,
            memory=self.memory,
        )
        self.prompt = SystemPrompt(
            config, options, self.cwd, self.plugins.prompt_edits, memory=self.memory, notify=notify
        )
        self.store = open_store(config, self.cwd)

    def notice(self, text: str) -> None:
        self.relay(SystemNotice(text))

    def conversation(self) -> Conversation:
        room = self._room()
        conversation = Conversation(_with_session(self._parts(room), room))
        restore(
            conversation,
            room.loaded,
            recorder=room.recorder,
            todo=room.todo,
            workspace=self.workspace,
            cwd=self.cwd,
            typed_dir=typed_dir(self.config, self.cwd),
            redact=self.redactor.redact,
        )
        return conversation

    def _model(self, room: Room) -> tuple[str, ThinkingLevel]:
        """The model to begin with; noted, where the session had another."""
        loaded, recorder = room.loaded, room.recorder
        chosen = self.models.start_with(loaded.model, loaded.thinking)
        if recorder is not None and chosen != (loaded.model, loaded.thinking):
            recorder.note_model(chosen[0], thinking=chosen[1])
        return chosen

    def _parts(self, room: Room) -> Parts:
        loaded, recorder = room.loaded, room.recorder
        model, thinking = self._model(room)
        authorizer, guards = self._guards(room, model)
        forks = self._forks(room, guards, authorizer)
        log = self._log(recorder)
        return Parts(
            cwd=self.cwd,
            model=model,
            thinking=thinking,
            models=self.models,
            tools=room.toolbox.loop_tools,
            stream_fn=self.checks.around_model(durable_stream(room.durable, self.stream_fn)),
            configure=guards.configure,
            system_prompt=self.prompt.text,
            attach=self._attacher(room).attach,
            explain=self._explainer(room).decide,
            gate=room.gate,
            uncommitted=uncommitted(
                self.runner, self.workspace, cwd=self.cwd, withholds=room.gate.withholds
            ),
            asset_dir=room.folders.assets,
            list_sessions=self.store.list,
            instruction_files=self.prompt.project_files.paths,
            notices=self._notices(room.notices, loaded),
            late_notices=self.late_notices,
            steering_mode=self.config.loop.steering,
            follow_up_mode=self.config.loop.follow_up,
            max_turns=self.config.loop.max_turns,
            time_limit_s=self.config.limits.time_s,
            prompt_checks=self._prompt_checks(),
            compact=partial(guards.context.compact, emit=self.relay),
            view=guards.context,
            context_report=partial(report_of, guards.context, self.prompt, room.toolbox.loop_tools),
            plugins=self.plugins,
            shells=self.machine.shells,
            sandbox=self.machine.sandbox,
            read_only_profile=lambda: str(self.machine.read_only.mechanism),
            prompts=self.prompt.prompts,
            on_waiting=continuations(self.store, recorder.session_id) if recorder else None,
            bind_tools=partial(self.workshop.bound, room.folders, room.todo),
            for_fork=forks.make,
            tree=forks.tree,
            durable=room.durable,
            plan_terms=plan_terms(self.config),
            memory=self.memory,
            on_run_end=at_run_end(self.memory, self.late_notices.append),
            relay=self.relay,
            watch=self.prompt.watch,
            sinks=self._sinks(room, guards, log),
            before_close=[taking.aclose for taking in room.run_snapshots],
            on_close=(
                forks.aclose,
                self.plugins.aclose,
                *self.on_close,
                guards.context.close,
                self._let_go(recorder, log),
            ),
        )

    def _explainer(self, room: Room) -> Explainer:
        return Explainer(
            gate=room.gate, toolbox=room.toolbox, workspace=self.workspace, cwd=str(self.cwd)
        )

    def _sinks(self, room: Room, guards: Guards, log: Log | None) -> Sequence[Sink]:
        return (
            *guards.sinks,
            self.plugins.on_event,
            *(taking.sink for taking in room.run_snapshots),
            *((log.sink,) if log else ()),
        )

    def _prompt_checks(self) -> Sequence[PromptCheck]:
        return (
            *refuse_to_send(self.store, self.options.session),
            *self.plugins.prompt_checks,
            *self.checks.prompt_checks,
        )

    def _room(self) -> Room:
        return open_room(
            Site(
                config=self.config,
                cwd=self.cwd,
                options=self.options,
                machine=self.machine,
                workshop=self.workshop,
                prompt=self.prompt,
                store=self.store,
                redactor=self.redactor,
                late_notices=self.late_notices,
                undo=self.undo,
                on_close=self.on_close,
                engine=self.engine,
            )
        )

    def _attacher(self, room: Room) -> GuardedAttacher:
        plain = Attacher(cwd=self.cwd, asset_dir=room.folders.assets)
        return GuardedAttacher(attacher=plain, gate=room.gate, asker=self.asker)

    def _notices(self, of_session: Sequence[str], loaded: Loaded) -> Sequence[str]:
        return (
            *self.options.notices,
            *self.recorded,
            *of_session,
            *loaded.notices,
            *queued_again(loaded),
            *plan_left(loaded),
            *changes_since(loaded, cwd=self.cwd),
            *self.models.notices,
            *self.machine.notices,
            *self.prompt.prompts.notices,
            *unusable_roles(self.config),
            *self.prompt.project_files.notices,
            *self.plugins.notices,
        )

    def _forks(self, room: Room, guards: Guards, authorizer: Authorizer) -> Forks:
        return Forks(
            Parent(
                config=self.config,
                options=self.options,
                cwd=self.cwd,
                machine=self.machine,
                workshop=self.workshop,
                folders=room.folders,
                prompt=self.prompt,
                gate=room.gate,
                guards=guards,
                authorizer=authorizer,
                asker=self.asker,
                notify=self.notice,
            )
        )

    def _guards(self, room: Room, model: str) -> tuple[Authorizer, Guards]:
        """Who decides in the runs of this conversation."""
        config, gate = self.config, room.gate
        spending = Spending()
        judges = Judges(
            config=config,
            stream_fn=self.stream_fn,
            tell=self.relay,
            spent=spending.add,
            redact=self.redactor.redact,
        )
        machine, cwd = self.machine, str(self.cwd)
        authorizer = authorizer_of(config, room, judges, machine=machine, asker=self.asker, cwd=cwd)
        parts = GuardParts(
            config=config,
            cost_of=lambda usage, name: self.models.cost_usd(name, usage),
            validate=room.toolbox.validate,
            asset_dir=str(room.folders.assets),
            context=self._context(room, judges),
            checks=self.checks,
            gates=GateServices(
                judges=judges,
                diff=shown_diff(
                    config,
                    runner=self.runner,
                    workspace=self.workspace,
                    cwd=cwd,
                    withholds=gate.withholds,
                    redact=self.redactor.redact,
                ),
                open_items=room.todo.open_items,
            ),
            spending=spending,
            plugins=self.plugins,
            write_ahead=[
                *(taking.interceptor for taking in room.run_snapshots),
                durable_interceptor(room.durable, is_mutating=may_change_something),
            ],
            at_start=[authorizer.at_start],
            snapshots=[taking.bundle() for taking in room.run_snapshots],
            touched=self.prompt.touched_folders(self.late_notices.append, self.workspace),
            on_run=(self.prompt.begin_run, self.calls.begin_run),
            last=[scrub(self.redactor.redact), authorizer.bundle()],
            prompts=self.prompt.prompts,
        )
        return authorizer, Guards(parts, model=model)

    def _context(self, room: Room, judges: Judges) -> ContextParts:
        config, recorder = self.config, room.recorder
        asked = summarise_with(judges.ask, timeout_s=config.timeouts.judge_s)
        return context_parts(
            config,
            window_of=self.models.window_tokens,
            summarise=self.plugins.summarising(asked),
            summary_model=usable_model(config, "summarize"),
            read_file=file_reader(self.workspace),
            relay=relay_to(OutputStore(room.folders.output)),
            redact=self.redactor.redact,
            save=recorder.note_compaction if recorder is not None else lambda record: None,
            records=room.loaded.compactions,
            standing=partial(stands, room.todo, room.kept),
            reread=self.prompt.reread,
        )

    def _log(self, recorder: Recorder | None) -> Log | None:
        if not self.options.log:
            return None
        file = state_dir(self.config.origin.environment) / "log" / "dirge.jsonl"
        log = Log(file, self.redactor.redact, session_id=recorder.session_id if recorder else None)
        log.record("session", model=self.models.main.name, cwd=str(self.cwd))
        self.undo.callback(log.close)
        return log

    def _let_go(self, recorder: Recorder | None, log: Log | None) -> Callable[[], Awaitable[None]]:
        async def let_go() -> None:
            await self.machine.close()
            await self.client.aclose()
            if recorder is not None:
                recorder.close()
            if log is not None:
                log.close()

        return let_go


def _with_session(parts: Parts, room: Room) -> Parts:
    """The parts with what the session brings along."""
    return replace(
        parts,
        recorder=room.recorder,
        snapshots=room.snapshots,
        history=room.loaded.messages,
        usage=room.loaded.usage,
        cost_usd=room.loaded.cost_usd,
        kept=room.kept,
        todo=room.todo,
    )
