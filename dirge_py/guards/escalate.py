"""Lets a stronger model make the next call after one that the model could not get right."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dirge_py.types.events import EscalationActivated
from dirge_py.types.hooks import Bundle, TurnInfo, TurnUpdate
from dirge_py.types.llm import ThinkingLevel
from dirge_py.types.messages import ToolResultMessage
from dirge_py.types.tools import LoopToolResult, ToolCall

SYNTAX_ERROR = "Syntax error in "
"""How a result begins that tells of a syntax error without naming the file in its details."""


@dataclass(slots=True)
class EscalationBudget:
    """How many calls the stronger model may still make in a session; wiring keeps it."""

    most: int = 3
    spent: int = 0

    @property
    def is_spent(self) -> bool:
        return self.spent >= self.most


def escalate(
    model: str | None,
    budget: EscalationBudget,
    *,
    home: Callable[[], str],
    level: ThinkingLevel | None = None,
    home_level: Callable[[], ThinkingLevel | None] = lambda: None,
) -> Bundle:
    """Hooks that give one call to `model` (`alias/id`; None: nothing happens) when it is needed.

    That is after a turn with a call whose arguments stayed invalid, or with a change that left a
    file with a syntax error (`details["syntax_error"]`, its path). `home` tells the model that was
    chosen, now: the one to return to afterwards, whatever was switched meanwhile; it is asked the
    same when the stronger one does not answer. `level` is how much that one thinks, None as much as
    the other does; `home_level` is returned to with `home`. Made anew for every run; a budget is
    spent when the call is made, not when it is planned.
    """
    plan = _Plan(model or "", budget, home, level, home_level)
    return Bundle(
        name="escalate",
        transform_context=plan.before_model,
        after_tool_call=plan.after_call,
        prepare_next_turn=plan.after_turn,
    )


class _Plan:
    def __init__(
        self,
        model: str,
        budget: EscalationBudget,
        home: Callable[[], str],
        level: ThinkingLevel | None,
        home_level: Callable[[], ThinkingLevel | None],
    ) -> None:
        self._model = model
        self._budget = budget
        self._home = home
        self._level = level
        self._home_level = home_level
        self._reason = ""
        self._is_away = False
        self._executed: set[str] = set()

    def after_call(self, _info: TurnInfo, call: ToolCall, _result: LoopToolResult) -> None:
        # A tool that ran and asks for other arguments is its own matter: these were valid.
        self._executed.add(call.id)

    def after_turn(self, info: TurnInfo) -> TurnUpdate | None:
        was_away, self._is_away = self._is_away, False
        self._reason = self._reason_in(info.tool_results)
        self._executed.clear()
        home = self._home()
        if self._reason and self._model not in ("", home) and not self._budget.is_spent:
            self._is_away = True
            return TurnUpdate(model=self._model, thinking_level=self._level, role="escalate")
        self._reason = ""
        if not was_away:
            return None
        # A stronger model that cannot be reached must not end a run that could go on without it.
        answer = info.message
        is_void = answer is not None and answer.stop_reason == "error" and not answer.content
        return TurnUpdate(
            model=home,
            thinking_level=self._home_level(),
            continue_with=() if is_void else None,
        )

    def before_model(self, info: TurnInfo) -> None:
        if not self._reason:
            return
        self._budget.spent += 1
        info.emit(EscalationActivated(provider=self._model, reason=self._reason))
        self._reason = ""

    def _reason_in(self, results: Sequence[ToolResultMessage]) -> str:
        """The first thing that went wrong in a way a stronger model may mend; empty if nothing."""
        for result in results:
            is_invalid = result.details.get("outcome") == "invalid"
            if is_invalid and result.tool_call_id not in self._executed:
                return f"repair_exhausted: {result.tool_name}"
            path = _broken_file(result)
            if path:
                return f"syntactic_failure: {result.tool_name} {path}"
        return ""


def _broken_file(result: ToolResultMessage) -> str:
    path = result.details.get("syntax_error")
    if isinstance(path, str) and path:
        return path
    if result.is_error and result.text.startswith(SYNTAX_ERROR):
        return result.text.removeprefix(SYNTAX_ERROR).split("\n", 1)[0].partition(":")[0].strip()
    return ""
