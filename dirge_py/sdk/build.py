"""From settings to a conversation: the one place where the parts meet.

`build` makes the conversations of the product. A program's `Agent` uses the same
`ConversationBuilder` with other parts (`sdk/assembly.py`).
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dirge_py.config.models import unusable_roles, usable_model, with_own_model
from dirge_py.config.paths import state_dir
from dirge_py.config.schema import Config
from dirge_py.context.hooks import Ask, context_parts, file_reader, relay_to, summarise_with
from dirge_py.context.prompts import NamedPrompt, PromptBook, follow_prompt
from dirge_py.context.view import ContextParts
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
    open_durable,
)
from dirge_py.conversation.extensions import ExtensionSet
from dirge_py.conversation.settings import BEFORE_PROMPT
from dirge_py.extensions.memory.extension import Memory
from dirge_py.extensions.plugins.registration import Plugins
from dirge_py.extensions.todo.extension import Todo
from dirge_py.extensions.web.extension import Web
from dirge_py.files.assets import AssetStore
from dirge_py.files.log_file import Log, keep_off_the_screen
from dirge_py.files.workspace import Workspace
from dirge_py.guards.judge import SideModels
from dirge_py.guards.limits import LimitsInForce, SideUsage
from dirge_py.lib.garbage_collector import begin_collecting
from dirge_py.lib.redaction import Redactor
from dirge_py.permission.authorizer import Authorizer
from dirge_py.permission.engine import PermissionEngine
from dirge_py.permission.project_trust import ProjectTrust
from dirge_py.permission.settings import open_engine, rule_keeper, wide_workspace_notices
from dirge_py.plan.state import NAME, describe_progress, notice_at_start
from dirge_py.processes.output import OutputStore
from dirge_py.processes.runner import Runner
from dirge_py.providers.client import HttpClient
from dirge_py.providers.models import ModelDirectory, model_calls, with_sampling
from dirge_py.sdk.environment import (
    ExecutionEnvironment,
    Workplace,
    chosen_tools,
    enabled_tools,
    temporary_folder,
)
from dirge_py.sdk.extensions import load_extensions
from dirge_py.sdk.fork import Forks, WorkFolder, work_environment
from dirge_py.sdk.guards import GuardParts, Guards, SessionGoal, gates
from dirge_py.sdk.options import BuildOptions, SessionChoice
from dirge_py.sdk.sessions import (
    changes_since,
    delete_unused,
    drop_grants,
    open_journal,
    open_store,
    queued_again,
    refuse_to_send,
    restore,
    restore_mode,
    session_limits,
    typed_dir,
)
from dirge_py.sdk.system_prompt import make_system_prompt
from dirge_py.sdk.working_tree import WorkingTree
from dirge_py.session.history import LoadedSession
from dirge_py.session.recorder import Recorder, SessionMetadata
from dirge_py.session.store import Store, continuation_reader
from dirge_py.tools.base import Redact, ToolLimits, ToolServices
from dirge_py.tools.todo_list import TodoList
from dirge_py.tools.toolbox import Toolbox
from dirge_py.types.events import EMBED, SystemNotice, UsageReported
from dirge_py.types.llm import Models, StreamFn, ThinkingLevel
from dirge_py.types.memory import MemoryProvider
from dirge_py.types.messages import Usage
from dirge_py.types.questions import Asker, SupportsForms
from dirge_py.types.tools import Interceptor, LoopTool, changes_something

if TYPE_CHECKING:
    from dirge_py.providers.embeddings import Embeddings


def build(
    config: Config,
    asker: Asker,
    options: BuildOptions | None = None,
    *,
    stream_fn: StreamFn | None = None,
    engine: Engine | None = None,
    memory: MemoryProvider | None = None,
) -> Conversation:
    """Build a conversation in the current folder.

    `stream_fn` replaces the configured providers (then none is needed), `engine` the local one,
    `memory` the store that the settings name.

    Raises NoProvider: no model can be used; ConfigError: a setting or rule is wrong; SessionError:
    the session can't be opened.
    """
    # The imports are done: from here on garbage is collected.
    begin_collecting()
    keep_off_the_screen()
    if stream_fn is not None:
        config = with_own_model(config)
    with ExitStack() as undo:
        builder = _ProductBuilder(
            config, asker, options or BuildOptions(), stream_fn, engine, memory, undo
        )
        conversation = builder.make()
        undo.pop_all()
    return conversation


def _check_syntax(path: str, before: str, after: str) -> str:
    from dirge_py.tools.syntax_check import check_syntax

    return check_syntax(path, before, after)


class ConversationBuilder:
    """Builds one conversation, as the `ExtensionHost` of its extensions; a subclass chooses parts.

    `resources` close with the conversation. `undo` closes them if the building fails, and removes
    what is useless then.
    """

    client: HttpClient
    sessions: Store | None
    models: Models
    model: str
    thinking: ThinkingLevel
    workspace: Workspace
    runner: Runner
    gate: PermissionEngine
    limits: LimitsInForce
    extensions: ExtensionSet
    authorizer: Authorizer
    guards: Guards

    settings: Config | None = None
    """The settings, for extensions; None in a program that uses dirge as a library."""
    project: ProjectTrust | None = None
    conversation: Conversation | None = None

    def __init__(self, config: Config, *, cwd: Path, redactor: Redactor, undo: ExitStack) -> None:
        self.config = config
        self.cwd = cwd
        self.redactor = redactor
        self.redact, self.add_secret = redactor.redact, redactor.add
        self.undo = undo
        self.resources = undo.enter_context(ExitStack())
        self.late_notices: list[str] = []
        self.notify = self.late_notices.append
        self.relay = EventForwarder()
        self.spending = SideUsage()
        self.recorder: Recorder | None = None
        self.loaded = LoadedSession()
        self.session_id = ""
        self.metadata = SessionMetadata()

    def show_notice(self, text: str, /) -> None:
        """Show the person a notice."""
        self.relay(SystemNotice(text))

    def store(self, name: str) -> Path:
        """Return the folder where an extension may store files. It may not exist yet."""
        return state_dir(self.config.origin.environment) / "extensions" / name

    def open_session(self, store: Store, choice: SessionChoice) -> Sequence[str]:
        """Open the session to write, and load it; returns notices. Raises SessionError."""
        journal, notices = open_journal(store, choice)
        if journal is None:
            return notices
        redact = self.redactor.redact_known
        self.recorder = recorder = Recorder(
            journal, redact=redact, cwd=self.cwd, on_notice=self.notify
        )
        self.resources.callback(recorder.close)
        if choice.fork and choice.continuation is None:
            # The new session is on disk already, but useless without the conversation.
            self.undo.callback(store.discard, journal.id)
        self.loaded, self.session_id = recorder.load(), recorder.session_id
        stored = self.loaded.choices.settings
        self.metadata = SessionMetadata(stored, recorder.note_setting, recorder.begin)
        return notices

    def authorize(self, asker: Asker, **more: Any) -> None:
        """Make what decides about calls; `more` are further arguments of `Authorizer`."""
        recorder = self.recorder
        self.authorizer = Authorizer(
            engine=self.gate,
            asker=asker,
            workspace=self.workspace,
            runner=self.runner,
            cwd=str(self.cwd),
            on_grant=recorder.note_grant if recorder is not None else lambda rule: None,
            **more,
        )

    def context(self, ask: Ask, summary_model: str, **more: Any) -> ContextParts:
        """What the view of the history uses; `ask` calls the model of summaries."""
        summarise = summarise_with(ask, timeout_s=self.config.timeouts.judge_s)
        return context_parts(
            self.config,
            window_of=self.models.window_tokens,
            summarise=self.extensions.around_summary(summarise),
            summary_model=summary_model,
            save=self.recorder.note_compaction if self.recorder else lambda record: None,
            records=self.loaded.compactions,
            **more,
        )

    def guard(self, context: ContextParts, asset_dir: Path | None, **more: Any) -> None:
        """Make the guards; `more` are further parts of `GuardParts`."""
        parts = GuardParts(
            config=self.config,
            limits=self.limits,
            cost_of=lambda usage, model: self.models.cost_usd(model, usage),
            asset_dir=str(asset_dir) if asset_dir is not None else None,
            context=context,
            spending=self.spending,
            extensions=self.extensions,
            authorizer=self.authorizer,
            write_ahead=self.write_ahead(),
            **more,
        )
        self.guards = Guards(parts, model=self.model)

    def write_ahead(self) -> Sequence[Interceptor]:
        """Return the interceptors that write each call to the journal before it starts."""
        return [self.recorder.interceptor] if self.recorder is not None else []

    def deps(
        self,
        environment: WorkEnvironment,
        stream_fn: StreamFn,
        tools: Sequence[LoopTool],
        bind_tools: Callable[[Sequence[Any]], Sequence[LoopTool]],
    ) -> ConversationDeps:
        """The parts of the conversation."""
        on_waiting = None
        if self.sessions is not None and self.session_id:
            on_waiting = continuation_reader(self.sessions, self.session_id)
        return ConversationDeps(
            environment=environment,
            run=RunDeps(
                tools=tools,
                stream_fn=self.extensions.around_model(stream_fn),
                configure=self.guards.configure,
                prompts=PromptBook(()),
                bind_tools=bind_tools,
                prompt_checks=self.extensions.prompt_checks(),
                on_run_end=self.extensions.on_run_end,
                on_waiting=on_waiting,
                max_turns=self.config.loop.max_turns,
                limits=self.limits,
            ),
            session=SessionDeps(
                recorder=self.recorder,
                loaded=self.loaded,
                metadata=self.metadata,
                view=self.guards.context,
                context_report=self.guards.context.report,
            ),
            models=self.models,
            model=self.model,
            thinking=self.thinking,
            late_notices=self.late_notices,
            relay=self.relay,
            extensions=self.extensions,
            sinks=(*self.guards.sinks, *self.extensions.sinks()),
            before_close=(self.extensions.before_close,),
            on_close=(self.extensions.close, self.guards.context.close, self.close),
        )

    async def close(self) -> None:
        """End the commands, and close the connections, the session and the folders."""
        try:
            await self.client.aclose()
        finally:
            self.resources.close()


class _ProductBuilder(ConversationBuilder):
    """Builds a conversation from settings and flags."""

    sessions: Store

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
        super().__init__(config, cwd=Path.cwd(), redactor=Redactor(), undo=undo)
        self.asker = asker
        self.options = options
        self.engine = engine
        self.log: Log | None = None
        self._open_models(stream_fn)
        self.environment = ExecutionEnvironment(
            config, options, self.resources, cwd=self.cwd, redactor=self.redactor, relay=self.relay
        )
        self.workspace, self.runner = self.environment.workspace, self.environment.runner
        self.sessions = open_store(config, self.cwd)
        if options.session.kind == "view":
            self.loaded = self.sessions.view(options.session.id)
        self.session_notices = (
            self.open_session(self.sessions, options.session) if config.session.save else ()
        )
        self.settings, self.project = config, options.project
        given = [Memory(memory, self.notify)] if memory else []
        self.extensions = load_extensions(self, given)
        todo = self.extensions.find(Todo)
        self.todo = todo.list if todo is not None else TodoList()
        self.folder = (
            self.sessions.folder / self.session_id
            if self.session_id
            else temporary_folder(self.resources)
        )
        self.prompt = make_system_prompt(
            config,
            options,
            self.cwd,
            edits=(self.extensions.edit_prompt,),
            sections=self.extensions.prompt_sections,
            plugin_tools=[tool.name for tool in self.extensions.tools()],
        )
        self.durable = open_durable(self.sessions, self.recorder, engine)

    def _open_models(self, stream_fn: StreamFn | None) -> None:
        from dirge_py.providers.recording import RecordingClient, begin_recording

        config, record = self.config, self.options.record
        self.client = HttpClient()
        if record is not None:
            self.client = RecordingClient(self.client, record, self.redact)
        self.models = self.directory = ModelDirectory(
            config,
            self.client,
            self.redactor,
            is_scripted=stream_fn is not None,
            notify=self.show_notice,
        )
        route = with_sampling(stream_fn or self.directory.stream, self.options.sampling)
        self.call_model, self.begin_calls = model_calls(
            config, self.directory, route, self.show_notice
        )
        self.recording_notices = begin_recording(record, self.notify, self.undo)

    def make_tools(self, workplace: Workplace, cwd: Path, todo: TodoList) -> Toolbox:
        """The tools that settings and flags enable, of extensions, too, for work in `workplace`."""
        added = self.extensions.tools()
        built_in = chosen_tools(self.config, [tool.name for tool in added])
        tools = [*built_in, *enabled_tools(self.config, added)]
        return Toolbox(tools, self._tool_services(workplace, todo), str(cwd))

    def _tool_services(self, workplace: Workplace, todo: TodoList) -> ToolServices:
        config, asker = self.config, self.asker
        web, memory = self.extensions.find(Web), self.extensions.find(Memory)
        return ToolServices(
            files=workplace.workspace,
            processes=workplace.runner,
            shells=workplace.shells,
            web=web.service if web is not None else None,
            unavailable={"websearch": web.service.search_problem} if web is not None else {},
            outputs=OutputStore(self.folder / "output"),
            assets=AssetStore(self.folder / "assets"),
            todo=todo,
            syntax=_check_syntax,
            redact=self.redact,
            memory=memory.provider if memory is not None else None,
            ask=asker.question if isinstance(asker, SupportsForms) else None,
            limits=ToolLimits(
                command_timeout_s=config.timeouts.bash_s,
                quiet_s=config.timeouts.quiet_s,
                budget_chars=config.tools.result_budget_chars,
            ),
            session_id=self.session_id,
        )

    def make(self) -> Conversation:
        notices = self._restore_choices()
        self.toolbox = self.make_tools(self.environment.workplace, self.cwd, self.todo)
        self.conversation = conversation = Conversation(self._deps(notices))
        restore(
            conversation,
            self.loaded,
            todo=self.todo,
            workspace=self.workspace,
            typed_dir=typed_dir(self.config, self.cwd),
            redact=self.redact,
        )
        return conversation

    def _restore_choices(self) -> Sequence[str]:
        """Mode, grants, prompt, todo list and model as the session had them; returns notices."""
        loaded, recorder, config = self.loaded, self.recorder, self.config
        self.gate = open_engine(
            config,
            self.options,
            self.workspace,
            self.folder / "output",
            is_sandboxed=bool(self.environment.sandbox),
        )
        self.gate.history.redact = self.redact
        self.gate.history.restore(loaded.choices.decisions)
        settings = loaded.choices.settings
        follow_prompt(
            self.prompt.prompts,
            self.gate,
            stored=settings.get("prompt"),
            note=partial(recorder.note_setting, "prompt") if recorder else lambda name: None,
        )
        self._apply_prompt(self.prompt.prompts.current)
        self.prompt.prompts.on_change.append(self._apply_prompt)
        self.todo.load(settings.get("todo"))
        self.limits = session_limits(config, loaded)
        stored = (loaded.choices.model, loaded.choices.thinking)
        self.model, self.thinking = self.directory.start_with(*stored)
        self._use_model_of_prompt()
        if recorder is None:
            return ()
        self.gate.history.on_record = recorder.note_decision
        self.todo.on_change = partial(recorder.note_setting, "todo")
        if (self.model, self.thinking) != stored:
            recorder.note_model(self.model, thinking=self.thinking)
        return (*restore_mode(config, self.gate, loaded, recorder), *drop_grants(loaded, recorder))

    def _apply_prompt(self, prompt: NamedPrompt | None) -> None:
        """Let only the plugins act that the prompt in use names, with its memory.

        A notice names the tools of the prompt that don't exist.
        """
        if unknown := self.prompt.prompts.unknown_tools:
            self.notify(unknown)
        if (memory := self.extensions.find(Memory)) is not None:
            memory.use_scope(prompt.name if prompt is not None and prompt.memory == "own" else "")
        if (plugins := self.extensions.find(Plugins)) is not None:
            allowed = prompt.plugins if prompt is not None else None
            plugins.allow_only(allowed, by=f"The prompt {prompt.name}" if prompt else "")

    def _use_model_of_prompt(self) -> None:
        """Start with the model of the prompt that `--prompt` names, unless a flag names one."""
        prompt, chosen = self.prompt.prompts.current, self.config.origin.chosen
        if self.options.prompt is None or prompt is None or not prompt.model:
            return
        if chosen.model is None and chosen.provider is None:
            before = (self.model, self.thinking)
            self.model, level = self.directory.resolve(prompt.model)
            self.thinking = level or self.thinking
            if self.model != before[0]:
                self.metadata.put(BEFORE_PROMPT, [self.model, *before])

    def _deps(self, notices: Sequence[str]) -> ConversationDeps:
        self._guard()
        forks = Forks(self)
        place = WorkFolder(
            cwd=self.cwd,
            workspace=self.workspace,
            gate=self.gate,
            sandbox=self.environment.sandbox,
            prompt=self.prompt,
            tree=forks.tree,
        )
        stream_fn, config = self.call_model, self.config
        if self.engine is not None:
            stream_fn = durable_stream(self.durable, stream_fn)
        deps = self.deps(
            work_environment(self, place, self.toolbox, self.environment.shells),
            stream_fn,
            self.toolbox.loop_tools,
            self.toolbox.bind_tools,
        )
        self._open_log()
        return replace(
            deps,
            run=replace(
                deps.run,
                prompts=self.prompt.prompts,
                prompt_checks=(
                    *refuse_to_send(self.sessions, self.options.session),
                    *deps.run.prompt_checks,
                ),
                watch=self.prompt.watch,
                steering_mode=config.loop.steering,
                follow_up_mode=config.loop.follow_up,
            ),
            session=replace(
                deps.session,
                list_sessions=self.sessions.list,
                uncommitted=self._working_tree().text,
                context_report=partial(
                    self.guards.context.report, prompt=self.prompt, tools=self.toolbox.loop_tools
                ),
                embed=self._embed,
                durable=self.durable,
            ),
            for_fork=forks.make,
            notices=self._notices(notices),
            sinks=(*deps.sinks, self.log.sink) if self.log is not None else deps.sinks,
            on_close=(forks.aclose, *deps.on_close, partial(delete_unused, config)),
        )

    def write_ahead(self) -> Sequence[Interceptor]:
        if self.engine is not None:
            return [durable_interceptor(self.durable, is_mutating=changes_something)]
        return super().write_ahead()

    async def _embed(
        self, texts: Sequence[str], *, model: str, notice: Callable[[str], None]
    ) -> "Embeddings":
        from dirge_py.providers import embeddings

        config = self.config
        answer = await embeddings.embed_texts(
            config, self.client, texts, model=model, notice=notice
        )
        if tokens := answer.usage.prompt_tokens or answer.usage.total_tokens:
            alias = embeddings.split_model_name(config, model)[0] or self.directory.main.alias
            usage, name = Usage(input=tokens), f"{alias}/{answer.model}"
            self.spending.add(usage, name)
            self.relay(UsageReported(usage=usage, model=name, role=EMBED))
        return answer

    def _notices(self, of_choices: Sequence[str]) -> Sequence[str]:
        loaded = self.loaded
        return (
            *self.options.notices,
            *self.recording_notices,
            *self.session_notices,
            *of_choices,
            *loaded.notices,
            *queued_again(loaded),
            *filter(None, [notice_at_start(loaded.choices.settings.get(NAME))]),
            *changes_since(loaded, cwd=self.cwd),
            *self.directory.notices,
            *wide_workspace_notices(self.config, self.workspace),
            *self.environment.notices,
            *self.prompt.prompts.notices,
            *unusable_roles(self.config),
            *self.prompt.project_files.notices,
            *self.extensions.notices(),
        )

    def _guard(self) -> None:
        from dirge_py.permission.questions import model_judge

        config, asker, recorder, redact = self.config, self.asker, self.recorder, self.redact
        judges = SideModels(
            config=config,
            stream_fn=self.call_model,
            emit=self.relay,
            on_usage=self.spending.add,
            redact=redact,
        )
        if config.permission.remote and recorder is not None:
            asker = RemotelyAnswered(asker, self.durable, recorder.note)
        approve = judges.judge("approve") if usable_model(config, "approve") else None
        self.authorize(
            asker,
            keep_rules=rule_keeper(config),
            loop_guard=config.permission.loop_guard,
            judge=model_judge(approve) if approve is not None else None,
            judge_effect=config.permission.judge,
        )
        context = self.context(
            judges.ask,
            usable_model(config, "summarize"),
            read_file=file_reader(self.workspace),
            relay=relay_to(OutputStore(self.folder / "output")),
            redact=redact,
            standing=partial(describe_open_work, self.todo, self.metadata),
            reread=self.prompt.reread,
        )
        self.guard(
            context,
            self.folder / "assets",
            validate=self.toolbox.validate,
            gates=partial(
                gates,
                config.loop.gates,
                judges=judges,
                diff=self._working_tree(redact).diff if config.roles.critic else None,
                open_items=self.todo.open_items,
                goal=SessionGoal(config.loop.gates.goal, self.metadata),
            ),
            touched=self.prompt.touched_folders(self.notify, self.workspace),
            on_run=self.begin_calls,
            prompts=self.prompt.prompts,
        )

    def _working_tree(self, redact: Redact = str) -> WorkingTree:
        return WorkingTree(
            runner=self.runner,
            cwd=str(self.cwd),
            roots=self.workspace.roots,
            withholds=self.gate.withholds,
            redact=redact,
        )

    def _open_log(self) -> None:
        if not self.options.log:
            return
        file = state_dir(self.config.origin.environment) / "log" / "dirge.jsonl"
        self.log = Log(file, self.redact, session_id=self.session_id or None)
        self.log.record("session", model=self.directory.main.name, cwd=str(self.cwd))
        self.resources.callback(self.log.close)

    async def close(self) -> None:
        try:
            await self.environment.close()
        finally:
            await super().close()


def describe_open_work(todo: TodoList, metadata: SessionMetadata) -> str:
    """Describe the plan and the todo list, for the summary of a compaction.

    The plan comes first: the list is made from its steps.
    """
    parts = (describe_progress(metadata.get(NAME)), todo.as_text())
    return "\n\n".join(part for part in parts if part)
