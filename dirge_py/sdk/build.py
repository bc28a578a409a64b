"""From settings to a conversation: the one place where the parts meet.

Who judges the calls of one conversation, and whom it asks, from the settings.

What differs from the last commit, for a person who keeps no snapshots.

What `/plan` may do, from the settings.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dirge_py.config.models import unusable_roles, usable_model
from dirge_py.config.paths import state_dir
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
from dirge_py.conversation.conversation import Conversation
from dirge_py.conversation.deps import (
    ConversationDeps,
    EventForwarder,
    RunDeps,
    SessionDeps,
    WorkEnvironment,
)
from dirge_py.conversation.durable import (
    Engine,
    RemotelyAnswered,
    durable_interceptor,
    durable_stream,
)
from dirge_py.extensions.memory.extension import Memory
from dirge_py.extensions.memory.store import sync_at_run_end
from dirge_py.extensions.todo.extension import Todo
from dirge_py.files.log_file import Log, keep_off_the_screen
from dirge_py.files.workspace import Workspace
from dirge_py.guards.limits import SideUsage
from dirge_py.guards.side_models import SideModels
from dirge_py.guards.tool_hooks import redact_results
from dirge_py.lib.gc_tuning import begin_collecting
from dirge_py.lib.lazy import late
from dirge_py.lib.redaction import Redactor
from dirge_py.permission.authorizer import Authorizer
from dirge_py.permission.llm_judge import model_judge
from dirge_py.permission.settings import rule_keeper
from dirge_py.plan.state import NAME, describe_progress
from dirge_py.processes.output import OutputStore
from dirge_py.processes.runner import Runner
from dirge_py.providers.client import HttpClient
from dirge_py.providers.models import ModelCalls, ModelDirectory
from dirge_py.providers.recording import begin_recording, recording_client
from dirge_py.sdk.attach import GuardedAttacher
from dirge_py.sdk.environment import (
    BuildContext,
    ExecutionEnvironment,
    SessionResources,
    ToolFactory,
    open_recorder,
    open_room,
)
from dirge_py.sdk.explain import Explainer
from dirge_py.sdk.extensions import BuildHost, load_extensions
from dirge_py.sdk.fork import Forks, Parent
from dirge_py.sdk.guards import CallHooks, GuardParts, Guards
from dirge_py.sdk.options import BuildOptions
from dirge_py.sdk.sessions import (
    changes_since,
    open_store,
    plan_left,
    queued_again,
    refuse_to_send,
    restore,
    typed_dir,
)
from dirge_py.sdk.stop_checks import GateServices, shown_diff
from dirge_py.sdk.system_prompt import make_system_prompt
from dirge_py.session.file_states import UncommittedDiff
from dirge_py.session.history import LoadedSession
from dirge_py.session.metadata import SessionMetadata
from dirge_py.session.recorder import Recorder
from dirge_py.session.store import continuation_reader
from dirge_py.tools.todo_list import TodoList
from dirge_py.types.events import Sink, SystemNotice
from dirge_py.types.extensions import PromptCheck
from dirge_py.types.llm import StreamFn, ThinkingLevel
from dirge_py.types.memory import MemoryProvider
from dirge_py.types.questions import Asker
from dirge_py.types.tools import changes_something

if TYPE_CHECKING:
    from dirge_py.sdk.working_tree import WorkingTree
else:
    WorkingTree = late("dirge_py.sdk.working_tree", "WorkingTree")


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
        site = _Builder(config, asker, options or BuildOptions(), stream_fn, engine, memory, undo)
        conversation = site.conversation()
        undo.pop_all()
    return conversation


class _Builder:
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
        self.client = recording_client(HttpClient(), options.record, self.redactor.redact)
        self.models = ModelDirectory(
            config, self.client, self.redactor, is_scripted=stream_fn is not None
        )
        self.calls = ModelCalls(config, self.models, stream_fn, self.notice)
        self.stream_fn = self.calls.stream
        self.late_notices: list[str] = []
        notify = self.late_notices.append
        self.recorded = begin_recording(options.record, notify, undo)
        self.relay = EventForwarder()
        self.on_close: list[Callable[[], Awaitable[None]]] = []
        self.machine = ExecutionEnvironment(
            config, options, cwd=self.cwd, redactor=self.redactor, relay=self.relay, undo=undo
        )
        self.workspace, self.runner = self.machine.workspace, self.machine.runner
        self.store = open_store(config, self.cwd)
        self.recorder, self.session_notices = open_recorder(
            config, self.store, options.session, redactor=self.redactor, notify=notify, undo=undo
        )
        self.host = self._host()
        self.extensions = load_extensions(self.host, [Memory(memory)] if memory else [])
        remembering = self.extensions.find(Memory)
        self.memory = remembering.provider if remembering is not None else None
        self.workshop = ToolFactory(
            config,
            cwd=self.cwd,
            machine=self.machine,
            asker=asker,
            extensions=self.extensions,
            redact=self.redactor.redact,
        )
        self.prompt = make_system_prompt(
            config,
            options,
            self.cwd,
            edits=(self.extensions.edit_prompt,),
            memory=self.memory,
            sections=self.extensions.prompt_sections,
            notify=notify,
        )

    def _host(self) -> BuildHost:
        return BuildHost(
            settings=self.config,
            cwd=self.cwd,
            workspace=self.workspace,
            runner=self.runner,
            notify=self.late_notices.append,
            redactor=self.redactor,
            recorder=self.recorder,
            project=self.options.project,
        )

    def notice(self, text: str) -> None:
        self.relay(SystemNotice(text))

    def conversation(self) -> Conversation:
        room = self._room()
        conversation = Conversation(self._deps(room))
        self.host.conversation = conversation
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

    def _model(self, room: SessionResources) -> tuple[str, ThinkingLevel]:
        """The model to begin with; noted, where the session had another."""
        loaded, recorder = room.loaded, room.recorder
        kept = (loaded.choices.model, loaded.choices.thinking)
        chosen = self.models.start_with(*kept)
        if recorder is not None and chosen != kept:
            recorder.note_model(chosen[0], thinking=chosen[1])
        return chosen

    def _deps(self, room: SessionResources) -> ConversationDeps:
        loaded, recorder = room.loaded, room.recorder
        model, thinking = self._model(room)
        authorizer, guards = self._guards(room, model)
        forks = self._forks(room, guards, authorizer)
        log = self._log(recorder)
        return ConversationDeps(
            environment=self._environment(room, forks),
            run=self._run_deps(room, guards),
            session=self._session_deps(room, guards),
            models=self.models,
            model=model,
            thinking=thinking,
            for_fork=forks.make,
            notices=self._notices((*self.session_notices, *room.notices), loaded),
            late_notices=self.late_notices,
            relay=self.relay,
            sinks=self._sinks(room, guards, log),
            before_close=(self.extensions.before_close,),
            on_close=(
                forks.aclose,
                self.extensions.close,
                *self.on_close,
                guards.context.close,
                self._let_go(recorder, log),
            ),
            extensions=self.extensions,
        )

    def _environment(self, room: SessionResources, forks: Forks) -> WorkEnvironment:
        return WorkEnvironment(
            cwd=self.cwd,
            system_prompt=self.prompt.text,
            attach=self._attacher(room).attach,
            gate=room.gate,
            explain=self._explainer(room).decide,
            shells=self.machine.shells,
            sandbox=self.machine.sandbox,
            read_only_profile=lambda: str(self.machine.read_only.mechanism),
            read_tree=forks.tree,
            asset_dir=room.folders.assets,
            instruction_files=self.prompt.project_files.paths,
        )

    def _run_deps(self, room: SessionResources, guards: Guards) -> RunDeps:
        recorder = room.recorder
        return RunDeps(
            tools=room.toolbox.loop_tools,
            stream_fn=self.extensions.around_model(durable_stream(room.durable, self.stream_fn)),
            configure=guards.configure,
            bind_tools=partial(self.workshop.bound, room.folders, room.todo),
            prompts=self.prompt.prompts,
            prompt_checks=self._prompt_checks(),
            on_run_end=sync_at_run_end(self.memory, self.late_notices.append),
            on_waiting=continuation_reader(self.store, recorder.session_id) if recorder else None,
            watch=self.prompt.watch,
            steering_mode=self.config.loop.steering,
            follow_up_mode=self.config.loop.follow_up,
            max_turns=self.config.loop.max_turns,
            time_limit_s=self.config.limits.time_s,
        )

    def _session_deps(self, room: SessionResources, guards: Guards) -> SessionDeps:
        loaded, tools = room.loaded, room.toolbox.loop_tools
        return SessionDeps(
            recorder=room.recorder,
            history=loaded.messages,
            usage=loaded.usage,
            cost_usd=loaded.cost_usd,
            metadata=room.kept,
            list_sessions=self.store.list,
            uncommitted=uncommitted(
                self.runner, self.workspace, cwd=self.cwd, withholds=room.gate.withholds
            ),
            compact=partial(guards.context.compact, emit=self.relay),
            view=guards.context,
            context_report=partial(report_of, guards.context, self.prompt, tools),
            durable=room.durable,
        )

    def _explainer(self, room: SessionResources) -> Explainer:
        return Explainer(
            gate=room.gate, toolbox=room.toolbox, workspace=self.workspace, cwd=str(self.cwd)
        )

    def _sinks(self, room: SessionResources, guards: Guards, log: Log | None) -> Sequence[Sink]:
        return (
            *guards.sinks,
            *self.extensions.sinks(),
            *((log.sink,) if log else ()),
        )

    def _prompt_checks(self) -> Sequence[PromptCheck]:
        return (
            *refuse_to_send(self.store, self.options.session),
            *self.extensions.prompt_checks(),
        )

    def _room(self) -> SessionResources:
        return open_room(
            BuildContext(
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
                todo=self._todo(),
                recorder=self.recorder,
            )
        )

    def _todo(self) -> TodoList:
        todo = self.extensions.find(Todo)
        return todo.list if todo is not None else TodoList()

    def _attacher(self, room: SessionResources) -> GuardedAttacher:
        plain = Attacher(cwd=self.cwd, asset_dir=room.folders.assets)
        return GuardedAttacher(attacher=plain, gate=room.gate, asker=self.asker)

    def _notices(self, of_session: Sequence[str], loaded: LoadedSession) -> Sequence[str]:
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
            *self.extensions.notices(),
        )

    def _forks(self, room: SessionResources, guards: Guards, authorizer: Authorizer) -> Forks:
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
                extensions=self.extensions,
                asker=self.asker,
                notify=self.notice,
            )
        )

    def _guards(self, room: SessionResources, model: str) -> tuple[Authorizer, Guards]:
        """Who decides in the runs of this conversation."""
        config, gate = self.config, room.gate
        spending = SideUsage()
        judges = SideModels(
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
            extensions=self.extensions,
            calls=CallHooks(
                write_ahead=[
                    durable_interceptor(room.durable, is_mutating=changes_something),
                ],
                at_start=[authorizer.at_start],
                last=[redact_results(self.redactor.redact), authorizer.bundle()],
            ),
            touched=self.prompt.touched_folders(self.late_notices.append, self.workspace),
            on_run=(self.prompt.begin_run, self.calls.begin_run),
            prompts=self.prompt.prompts,
        )
        return authorizer, Guards(parts, model=model)

    def _context(self, room: SessionResources, judges: SideModels) -> ContextParts:
        config, recorder = self.config, room.recorder
        asked = summarise_with(judges.ask, timeout_s=config.timeouts.judge_s)
        return context_parts(
            config,
            window_of=self.models.window_tokens,
            summarise=self.extensions.around_summary(asked),
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


def authorizer_of(
    config: Config,
    room: SessionResources,
    judges: SideModels,
    *,
    machine: ExecutionEnvironment,
    asker: Asker,
    cwd: str,
) -> Authorizer:
    """The one for a conversation in `room`, whose person is `asker`."""
    recorder = room.recorder
    if config.permission.remote and recorder is not None:
        asker = RemotelyAnswered(asker, room.durable, recorder.note)
    approve = judges.judge("approve") if usable_model(config, "approve") else None
    return Authorizer(
        gate=room.gate,
        asker=asker,
        workspace=machine.workspace,
        runner=machine.runner,
        cwd=cwd,
        on_grant=recorder.note_grant if recorder is not None else lambda rule: None,
        keep_rules=rule_keeper(config),
        loop_guard=config.permission.loop_guard,
        judge=model_judge(approve) if approve is not None else None,
        judge_effect=config.permission.judge,
    )


def uncommitted(
    runner: Runner, workspace: Workspace, *, cwd: Path, withholds: Callable[[str], bool]
) -> UncommittedDiff:
    """The change with new files; `withholds` tells of a physical path that it is left out."""

    async def diff() -> str | None:
        found = await WorkingTree(
            runner=runner, cwd=str(cwd), roots=workspace.roots, withholds=withholds
        ).diff()
        return found.text if found is not None else None

    return diff


def stands(todo: TodoList, kept: SessionMetadata) -> str:
    """What a model whose context was folded must not have forgotten: its plan, and what is to do.

    The plan itself comes first, as the list was made of its steps.
    """
    return "\n\n".join(part for part in (describe_progress(kept.get(NAME)), todo.as_text()) if part)
