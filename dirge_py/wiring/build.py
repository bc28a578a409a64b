"""From settings to a conversation: the one place where the parts meet."""

import shutil
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from dirge_py import __version__
from dirge_py.agent_loop.guards.limits import Limits, limits
from dirge_py.agent_loop.hooks import LoopConfig
from dirge_py.agent_loop.merge import compose
from dirge_py.agent_loop.retry import RecoveryPolicy, retrying_stream_fn
from dirge_py.calls import Interceptor
from dirge_py.config.paths import state_dir
from dirge_py.config.schema import Config
from dirge_py.context.attachments import Attacher
from dirge_py.conversation import Conversation
from dirge_py.files.workspace import Workspace
from dirge_py.lib.garbage import begin_collecting
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.parts import Parts, RunSettings
from dirge_py.permission.gate import Gate
from dirge_py.processes.environment import EnvironmentPolicy
from dirge_py.processes.outputs import OutputStore
from dirge_py.processes.runner import Runner
from dirge_py.providers.client import HttpClient
from dirge_py.questions import Asker
from dirge_py.secrets.redactor import Redactor
from dirge_py.session.history import Loaded
from dirge_py.session.names import project_root
from dirge_py.session.recorder import Recorder
from dirge_py.session.store import Store
from dirge_py.streams import StreamFn
from dirge_py.telemetry.log_file import LogFile
from dirge_py.tools.base import Services
from dirge_py.tools.toolbox import Toolbox
from dirge_py.wiring.attach import GuardedAttacher
from dirge_py.wiring.authorize import Authorizer
from dirge_py.wiring.explain import Explainer
from dirge_py.wiring.models import ModelDirectory
from dirge_py.wiring.options import BuildOptions
from dirge_py.wiring.prompt import SystemPrompt
from dirge_py.wiring.rules import key_variables, open_gate
from dirge_py.wiring.scrub import scrub
from dirge_py.wiring.sessions import changes_since, open_journal
from dirge_py.wiring.toolset import chosen_tools


def build(
    config: Config,
    asker: Asker,
    options: BuildOptions | None = None,
    *,
    stream_fn: StreamFn | None = None,
) -> Conversation:
    """A conversation in the current folder. `stream_fn` stands in for the configured providers.

    Raises:
        NoProvider: no model can be talked to.
        ConfigError: a setting or rule does not hold.
        SessionError: the session asked for cannot be opened.
    """
    # What it takes to get here has been imported; what comes now also goes.
    begin_collecting()
    with ExitStack() as undo:
        site = _Site(config, asker, options or BuildOptions(), stream_fn, undo)
        conversation = site.conversation()
        undo.pop_all()
    return conversation


@dataclass(frozen=True, slots=True, kw_only=True)
class _Folders:
    """Where this conversation keeps what is not in its journal."""

    assets: Path
    output: Path


class _Site:
    """Everything under construction, for one conversation. `undo` is for when that fails."""

    def __init__(
        self,
        config: Config,
        asker: Asker,
        options: BuildOptions,
        stream_fn: StreamFn | None,
        undo: ExitStack,
    ) -> None:
        self.config = config
        self.asker = asker
        self.options = options
        self.undo = undo
        self.cwd = Path.cwd()
        self.redactor = Redactor()
        self.client = HttpClient()
        self.models = ModelDirectory(
            config, self.client, self.redactor, is_scripted=stream_fn is not None
        )
        self.stream_fn = retrying_stream_fn(stream_fn or self.models.stream, RecoveryPolicy())
        self.late_notices: list[str] = []
        self.on_close: list[Callable[[], Awaitable[None]]] = []
        self.workspace = Workspace([self.cwd, *options.add_dirs], self.cwd)
        undo.callback(self.workspace.close)
        environment = EnvironmentPolicy(withheld=key_variables(config))
        self.runner = Runner(environment)
        self.prompt = SystemPrompt(config, options, self.cwd)
        self.store = Store(
            state_dir(config.origin.environment),
            project_root(self.cwd),
            app_version=__version__,
        )

    def conversation(self) -> Conversation:
        recorder, notices = self._open_recorder()
        loaded = recorder.load() if recorder is not None else Loaded()
        folders = self._folders(recorder)
        gate = open_gate(self.config, self.options, self.workspace, folders.output)
        _take_up(gate, loaded)
        toolbox = self._toolbox(folders)
        explainer = Explainer(
            gate=gate, toolbox=toolbox, workspace=self.workspace, cwd=str(self.cwd)
        )
        model, thinking = self.models.start_with(loaded)
        if recorder is not None and (model, thinking) != (loaded.model, loaded.thinking):
            recorder.note_model(model, thinking=thinking)
        log = self._log(recorder)
        parts = Parts(
            cwd=self.cwd,
            model=model,
            thinking=thinking,
            models=self.models,
            tools=toolbox.loop_tools,
            stream_fn=self.stream_fn,
            configure=self._configure(gate, toolbox, folders, recorder),
            system_prompt=self.prompt.text,
            attach=GuardedAttacher(
                attacher=Attacher(cwd=self.cwd, asset_dir=folders.assets),
                gate=gate,
                asker=self.asker,
            ).attach,
            explain=explainer.decide,
            gate=gate,
            recorder=recorder,
            list_sessions=self.store.list,
            instruction_files=self.prompt.project_files.paths,
            notices=(
                *self.options.notices,
                *notices,
                *loaded.notices,
                *changes_since(loaded, cwd=self.cwd),
                *self.models.notices,
                *self.prompt.project_files.notices,
            ),
            late_notices=self.late_notices,
            history=loaded.messages,
            usage=loaded.usage,
            cost_usd=loaded.cost_usd,
            steering_mode=self.config.loop.steering,
            follow_up_mode=self.config.loop.follow_up,
            max_turns=self.config.loop.max_turns,
            time_limit_s=self.config.limits.time_s,
            sinks=(log.sink,) if log else (),
            on_close=(*self.on_close, self._let_go(recorder, log)),
        )
        return Conversation(parts)

    def _open_recorder(self) -> tuple[Recorder | None, Sequence[str]]:
        choice = self.options.session
        if not self.config.session.save:
            return None, ()
        journal, notices = open_journal(self.store, choice)
        if journal is None:
            return None, notices
        recorder = Recorder(
            journal, redact=self.redactor.redact_known, on_notice=self.late_notices.append
        )
        self.undo.callback(recorder.close)
        return recorder, notices

    def _folders(self, recorder: Recorder | None) -> _Folders:
        if recorder is not None:
            own = self.store.folder / recorder.session_id
            return _Folders(assets=own / "assets", output=own / "output")
        temporary = Path(tempfile.mkdtemp(prefix="dirge-"))
        self.undo.callback(shutil.rmtree, temporary, ignore_errors=True)

        async def remove() -> None:
            shutil.rmtree(temporary, ignore_errors=True)

        self.on_close.append(remove)
        return _Folders(assets=temporary / "assets", output=temporary / "output")

    def _toolbox(self, folders: _Folders) -> Toolbox:
        services = Services(
            files=self.workspace,
            processes=self.runner,
            outputs=OutputStore(folders.output),
            command_timeout_s=self.config.timeouts.bash_s,
        )
        return Toolbox(chosen_tools(self.config), services, str(self.cwd))

    def _configure(
        self, gate: Gate, toolbox: Toolbox, folders: _Folders, recorder: Recorder | None
    ) -> Callable[[RunSettings], LoopConfig]:
        authorizer = Authorizer(
            gate=gate,
            asker=self.asker,
            workspace=self.workspace,
            runner=self.runner,
            cwd=str(self.cwd),
            on_grant=recorder.note_grant if recorder is not None else lambda rule: None,
        )
        write_ahead: list[Interceptor] = [recorder.interceptor] if recorder is not None else []
        config, models = self.config, self.models

        def configure(run: RunSettings) -> LoopConfig:
            base = LoopConfig(
                model=run.model,
                provider=run.model.partition("/")[0],
                thinking_level=run.thinking,
                tool_execution=config.tools.execution,
                max_parallel=config.tools.max_parallel,
                validate=toolbox.validate,
                asset_dir=str(folders.assets),
                interceptors=write_ahead if run.is_recorded else [],
            )
            # The order is policy: limits see every turn first, permission has the last word on a
            # call, and what the person typed is there before anything a guard wants to say.
            return compose(
                run.bundle,
                limits(
                    Limits(
                        turns=run.max_turns,
                        requests=config.limits.requests,
                        tool_calls=config.limits.tool_calls,
                        tokens=config.limits.tokens,
                        cost_usd=config.limits.cost_usd,
                        time_s=config.limits.time_s,
                    ),
                    cost_of=lambda usage, model: models.cost_usd(model, usage),
                ),
                scrub(self.redactor.redact),
                authorizer.bundle(),
                config=base,
            )

        return configure

    def _log(self, recorder: Recorder | None) -> LogFile | None:
        if not self.options.log:
            return None
        folder = state_dir(self.config.origin.environment) / "log"
        session_id = recorder.session_id if recorder else None
        log = LogFile(folder / "dirge.jsonl", self.redactor.redact, session_id=session_id)
        log.record("session", model=self.models.main.name, cwd=str(self.cwd))
        return log

    def _let_go(
        self, recorder: Recorder | None, log: LogFile | None
    ) -> Callable[[], Awaitable[None]]:
        async def let_go() -> None:
            await self.runner.shutdown()
            await self.client.aclose()
            if recorder is not None:
                recorder.close()
            if log is not None:
                log.close()
            self.workspace.close()

        return let_go


def _take_up(gate: Gate, loaded: Loaded) -> None:
    """Give the gate back what the session had allowed."""
    for rule in loaded.grants:
        gate.add_grant(rule)
