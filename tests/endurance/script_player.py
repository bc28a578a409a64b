"""Runs the scripts of weak models through the whole product, and prints the results."""

import os
import shutil
import statistics
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dirge_py.agent_loop.history import open_calls
from dirge_py.providers.scripted import Reply
from dirge_py.sdk.options import SessionChoice
from dirge_py.testing import ScriptedModel
from dirge_py.types.abort import AbortSignal
from dirge_py.types.events import AgentEnd, LoopEvent
from dirge_py.types.hooks import Hooks
from dirge_py.types.llm import LlmContext, StreamEvent, StreamOptions
from dirge_py.types.messages import Message, ToolResultMessage, UserMessage
from dirge_py.types.outcomes import Done, MaxTurns, Outcome
from dirge_py.types.tools import ToolCall
from tests.endurance.weak_models import FILES, WeakModel
from tests.support.project import ScriptedProject

CAP = 60
"""The turns after which a run ends by its limit, so that a loop was never noticed."""
NOTICED_AFTER = 6
"""How many repeated calls of a loop may run before it is noticed."""


@dataclass
class Played:
    """What became of one script."""

    model: WeakModel
    outcome: Outcome | None = None
    crash: str = ""
    requests: int = 0
    unanswered: int = 0
    changed: list[str] = field(default_factory=list)
    """Files that are other than the model meant."""
    has_run: bool = False
    """Whether a call ran with the arguments that the model meant."""
    noticed_after: int | None = None
    """The number of calls that ran before a loop was noticed."""
    was_told: bool = False
    """Whether the model was told about a fault of its answer."""

    @property
    def problems(self) -> list[str]:
        """Return which of the promises this run breaks."""
        broken = []
        if self.crash:
            broken.append("crash")
        if self.unanswered:
            broken.append("unanswered call")
        if self.requests > CAP + 1:
            broken.append("over the cap")
        if self.changed:
            broken.append("wrong change")
        match self.model.expected:
            case "repaired" if not self.has_run:
                broken.append("not repaired")
            case "noticed" if self.repeats is None or self.repeats > NOTICED_AFTER:
                broken.append("loop unnoticed")
            case "told" if not self.was_told or isinstance(self.outcome, Done):
                broken.append("silent end")
        return broken

    @property
    def repeats(self) -> int | None:
        """The repeated calls that ran until the loop was noticed; None: it never was."""
        if self.noticed_after is None or isinstance(self.outcome, MaxTurns):
            return None
        return max(0, self.noticed_after - self.model.period)


_LOOK = Reply(calls=[("read", {"path": "app.py"})])
"""Sent first, because an edit needs a look at the file."""


class _Endless(ScriptedModel):
    def __init__(self, model: WeakModel) -> None:
        super().__init__()
        self.replies = list(model.replies)
        self._model = model

    async def stream(
        self, context: LlmContext, options: StreamOptions, signal: AbortSignal
    ) -> AsyncIterator[StreamEvent]:
        if len(self.seen) >= len(self.replies):
            again = self._model.again
            number = len(self.seen) - len(self._model.replies)
            reply = again(number) if again is not None else Reply(text="That is done.")
            self.replies = [*self.replies, reply]
        async for event in super().stream(context, options, signal):
            yield event


class Player:
    """Plays scripts one after the other in one project, which is as new for each."""

    def __init__(self, base: Path) -> None:
        self._project = ScriptedProject(base)
        self._project.configure(f"[loop]\nmax_turns = {CAP}\n")

    async def play(self, model: WeakModel) -> Played:
        """Play one script. Never raises an Exception: a crash is recorded."""
        folder = self._project.folder
        shutil.rmtree(folder)
        folder.mkdir()
        for name, content in FILES.items():
            (folder / name).write_text(content)
        os.chdir(folder)
        played, script, events = Played(model), _Endless(model), list[LoopEvent]()
        if model.expected in ("repaired", "refused"):
            script.replies = [_LOOK, *script.replies]
        self._project.model = script
        conversation = self._project.build(self._project.user, SessionChoice(kind="none"))
        try:
            conversation.settings.set_mode("yolo")
            conversation.subscribe(events.append)
            given: list[ToolCall] = []
            watch = Hooks(name="truth", before_tool_call=lambda _, call: given.append(call))
            await conversation.send("Do it.", bundles=[watch])
            played.has_run = model.arguments is None or any(
                call.problem is None and call.arguments.items() >= model.arguments.items()
                for call in given
            )
            played.unanswered = len(open_calls(conversation.messages) or ())
            self._judge(played, events, conversation.messages)
        except Exception as error:
            played.crash = f"{type(error).__name__}: {error}"
        finally:
            await conversation.close()
        played.requests = len(script.seen)
        return played

    def _judge(
        self, played: Played, events: Sequence[LoopEvent], messages: Sequence[Message]
    ) -> None:
        model, folder = played.model, self._project.folder
        played.outcome = next(event.outcome for event in events if isinstance(event, AgentEnd))
        now = {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}
        meant = {**FILES, **model.files} if model.expected == "repaired" else dict(FILES)
        is_unrepaired = now == FILES
        if model.expected != "survives" and not is_unrepaired:
            played.changed = [name for name in {*now, *meant} if now.get(name) != meant.get(name)]
        calls = 0
        for message in messages[1:]:
            if isinstance(message, ToolResultMessage):
                calls += 1
                if message.details.get("outcome") == "suppressed":
                    played.noticed_after = played.noticed_after or calls - 1
            elif isinstance(message, UserMessage):
                played.was_told = True
                played.noticed_after = played.noticed_after or calls
        if isinstance(played.outcome, Done) and played.outcome.stopped_by:
            played.noticed_after = played.noticed_after or calls


def table(runs: Sequence[Played]) -> str:
    """Return the table of all kinds, and the worst faults below it."""
    rows = [f"{'kind':<28}{'scripts':>8}{'kept':>7}{'broken promises':>40}"]
    kinds: dict[str, list[Played]] = defaultdict(list)
    for run in runs:
        kinds[run.model.kind].append(run)
    for kind, played in kinds.items():
        counts: dict[str, int] = defaultdict(int)
        for run in played:
            for problem in run.problems:
                counts[problem] += 1
        kept = sum(not run.problems for run in played)
        words = ", ".join(f"{count} {problem}" for problem, count in sorted(counts.items()))
        rows.append(f"{kind:<28}{len(played):>8}{kept:>7}  {words:>38}")
    noticed = [run.repeats for run in kinds.get("loops", ()) if run.repeats is not None]
    if noticed:
        rows.append(
            f"loops noticed after {statistics.median(noticed):g} repeated calls (median), "
            f"{max(noticed)} at most"
        )
    worst: dict[str, int] = defaultdict(int)
    for run in runs:
        for problem in run.problems:
            worst[f"{problem}: {run.model.name.partition(':')[0]}"] += 1
    rows += [f"  {count:>4}  {name}" for name, count in sorted(worst.items(), key=lambda i: -i[1])]
    return "\n".join(rows)
