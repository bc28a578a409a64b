"""Several bundles of hooks made into one, with one rule per hook and one policy for failures."""

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from dirge_py.agent_loop.answers import checked
from dirge_py.agent_loop.convert import Converter
from dirge_py.agent_loop.prepare import with_arguments
from dirge_py.agent_loop.race import Aborted, until_aborted
from dirge_py.agent_loop.results import unchecked
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import DirgeError, ProviderError
from dirge_py.types.events import SystemNotice
from dirge_py.types.hooks import (
    HOOK_NAMES,
    AfterToolCallResult,
    Answer,
    BeforeToolCallResult,
    Bundle,
    Context,
    Defer,
    EditArgs,
    LoopConfig,
    StopRun,
    TurnInfo,
    TurnUpdate,
)
from dirge_py.types.messages import Message
from dirge_py.types.tools import LoopToolResult, ToolCall, ToolValidator

_logger = logging.getLogger(__name__)

Hook = Callable[..., Any]


def compose(*bundles: Bundle, config: LoopConfig | None = None) -> LoopConfig:
    """`config` with its own hooks and those of `bundles` merged, in this order.

    | hook                             | rule                                          | one that raises       |
    |----------------------------------|-----------------------------------------------|-----------------------|
    | transform_context, convert_to_llm, after_tool_call | chain: each sees what the previous returned | unchanged |
    | before_tool_call                 | edits chain, validated after each; the first Answer or Defer ends it, but a call that was allowed is not deferred | blocks the call |
    | prepare_next_turn                | merged field by field, later wins             | no change             |
    | should_stop_after_turn           | the first StopRun or True                     | no                    |
    | get_steering_messages            | concatenated                                  | nothing from it       |
    | get_followup_messages            | concatenated, each sees `so_far`              | nothing from it       |
    | get_api_key                      | the first that is not None                    | error of that call    |

    A hook that returns what it may not has failed, too. Failures are logged and told in a notice. A
    StopRun goes through, for `after_tool_call` once all have seen the result. Once the run is
    aborted, a hook that does not come back counts as one without an answer, but a result that an
    `after_tool_call` did not let pass is withheld: see `Bundle.only_watches`. All nine hooks of the
    result are set.
    """  # noqa: E501
    config = config or LoopConfig()
    merged = MergedHooks((config, *bundles), config.validate)
    hooks: dict[str, Any] = {name: getattr(merged, name) for name in HOOK_NAMES}
    return replace(config, **hooks)


def merged_hooks(config: LoopConfig) -> "MergedHooks":
    """The hooks of `config` as one set; those that `compose` made are one already."""
    owners = {getattr(getattr(config, name), "__self__", None) for name in HOOK_NAMES}
    owner = owners.pop()
    if not owners and isinstance(owner, MergedHooks):
        return owner
    return MergedHooks((config,), config.validate)


class MergedHooks:
    """The nine hooks of several bundles, one method each; `compose` states their rules."""

    def __init__(self, bundles: Sequence[Bundle], validate: ToolValidator | None) -> None:
        self._bundles = bundles
        self._validate = validate
        self._converter = Converter()

    def _each(self, name: str) -> Iterator[tuple[Bundle, Hook]]:
        for bundle in self._bundles:
            hook = getattr(bundle, name)
            if hook is not None:
                yield bundle, hook

    async def transform_context(self, info: TurnInfo) -> Context:
        for bundle, hook in self._each("transform_context"):
            changed = await _ask("transform_context", bundle, hook, info)
            if changed is not None:
                info = replace(info, context=changed)
        return info.context

    async def convert_to_llm(
        self, info: TurnInfo, messages: Sequence[Message]
    ) -> Sequence[Message]:
        converted: Sequence[Message] | None = None
        for bundle, hook in self._each("convert_to_llm"):
            current = messages if converted is None else converted
            answer = await _ask("convert_to_llm", bundle, hook, info, current)
            converted = converted if answer is None else answer
        return self._converter.convert(messages) if converted is None else converted

    async def before_tool_call(self, info: TurnInfo, call: ToolCall) -> BeforeToolCallResult | None:
        edit: EditArgs | None = None
        for bundle, hook in self._each("before_tool_call"):
            try:
                answer = await _call("before_tool_call", hook, info, call, signal=info.signal)
            except StopRun:
                raise
            except Aborted:
                return None  # dispatch looks at the signal before it looks at this
            except Exception as error:
                _report(bundle, hook, info, error, "the call is blocked")
                return _blocked_by(bundle, error)
            if isinstance(answer, Defer) and _is_allowed(info, call):
                continue  # this was decided; who comes after still has a word in it
            if isinstance(answer, (Answer, Defer)):
                return answer
            if isinstance(answer, EditArgs):
                call = with_arguments(call, answer.args, self._validate)
                # What the next hooks judge, not what the last one may still have in its hands.
                edit = EditArgs(call.arguments)
        return edit

    async def after_tool_call(
        self, info: TurnInfo, call: ToolCall, result: LoopToolResult
    ) -> AfterToolCallResult | None:
        merged: AfterToolCallResult | None = None
        stop: StopRun | None = None
        for bundle, hook in self._each("after_tool_call"):
            try:
                change = await _ask(
                    "after_tool_call", bundle, hook, info, call, result,
                    if_aborted=None if bundle.only_watches else _withheld(result),
                )  # fmt: skip
            except StopRun as asked:
                # The result is recorded all the same: what hides its secrets must still see it.
                stop, change = stop or asked, asked.change
            if change is not None:
                result = changed_result(result, change)
                merged = _overlaid(merged, change)
        if stop is not None:
            stop.change = merged
            raise stop
        return merged

    async def prepare_next_turn(self, info: TurnInfo) -> TurnUpdate:
        update = TurnUpdate()
        for bundle, hook in self._each("prepare_next_turn"):
            change = await _ask("prepare_next_turn", bundle, hook, info)
            update = _overlaid(update, change) or update
        return update

    async def should_stop_after_turn(self, info: TurnInfo) -> bool:
        for bundle, hook in self._each("should_stop_after_turn"):
            if await _ask("should_stop_after_turn", bundle, hook, info):
                return True
        return False

    async def get_steering_messages(self, info: TurnInfo) -> Sequence[Message]:
        return await self._collected("get_steering_messages", info)

    async def get_followup_messages(
        self, info: TurnInfo, so_far: Sequence[Message]
    ) -> Sequence[Message]:
        return await self._collected("get_followup_messages", info, so_far)

    async def get_api_key(self, provider: str) -> str | None:
        for bundle, hook in self._each("get_api_key"):
            try:
                key: str | None = await _call("get_api_key", hook, provider, signal=None)
            except (StopRun, DirgeError):
                raise
            except Exception as error:
                _logger.exception("hook %r of %s failed", hook, bundle.name)
                text = f"`{bundle.name}`: get_api_key failed ({error!r})."
                raise ProviderError(text, kind="auth") from error
            if key is not None:
                return key
        return None

    async def _collected(
        self, name: str, info: TurnInfo, so_far: Sequence[Message] | None = None
    ) -> Sequence[Message]:
        """What all hooks of this name add, also when a later one stops the run."""
        added: list[Message] = []
        for bundle, hook in self._each(name):
            seen = () if so_far is None else ([*so_far, *added],)
            try:
                answer = await _ask(name, bundle, hook, info, *seen)
            except StopRun as stop:
                stop.undelivered = (*added, *stop.undelivered)
                raise
            added.extend(answer or ())
        return added


async def _ask(
    name: str, bundle: Bundle, hook: Hook, info: TurnInfo, *rest: Any, if_aborted: Any = None
) -> Any:
    """The hook's answer; None when it failed, `if_aborted` when the run was aborted meanwhile."""
    try:
        return await _call(name, hook, info, *rest, signal=info.signal)
    except StopRun:
        raise
    except Aborted:
        return if_aborted
    except Exception as error:
        _report(bundle, hook, info, error, "the run goes on without it")
        return None


async def _call(name: str, hook: Hook, *args: Any, signal: AbortSignal | None) -> Any:
    try:
        answer = hook(*args)
        if inspect.isawaitable(answer):
            # Only what waits needs a task of its own: there are dozens of hooks in a turn.
            waiting = _awaited(answer)
            answer = await (waiting if signal is None else until_aborted(waiting, signal))
    except SystemExit as error:
        # Only a person may end the program.
        raise RuntimeError(f"It tried to exit ({error.code}).") from error
    if isinstance(answer, StopRun):
        raise answer
    return checked(name, answer)


async def _awaited(answer: Awaitable[Any]) -> Any:
    try:
        return await answer
    except SystemExit as error:
        # Only a person may end the program; in a task this would end the event loop first.
        raise RuntimeError(f"It tried to exit ({error.code}).") from error


def changed_result(result: LoopToolResult, change: AfterToolCallResult) -> LoopToolResult:
    """`result` with every field that `change` names replaced in full."""
    fields = _present(change)
    if "content" in fields:
        fields["content"] = tuple(fields["content"])
    return replace(result, **fields)


def _withheld(result: LoopToolResult) -> AfterToolCallResult:
    kept = unchecked(result)
    return AfterToolCallResult(
        content=kept.content, details=kept.details, is_error=kept.is_error, terminate=kept.terminate
    )


def _is_allowed(info: TurnInfo, call: ToolCall) -> bool:
    decision = info.decisions.get(call.id)
    return decision is not None and decision.allow


def _overlaid(below: Any, above: Any) -> Any:
    if below is None or above is None:
        return above
    return replace(below, **_present(above))


def _present(change: AfterToolCallResult | TurnUpdate) -> dict[str, Any]:
    fields = {name: getattr(change, name) for name in change.__slots__}
    return {name: value for name, value in fields.items() if value is not None}


def _blocked_by(bundle: Bundle, error: Exception) -> Answer:
    text = f"Blocked: the `before_tool_call` hook of `{bundle.name}` failed ({error!r})."
    return Answer(text, details={"outcome": "denied"})


def _report(bundle: Bundle, hook: Hook, info: TurnInfo, error: Exception, so: str) -> None:
    _logger.error("hook %r of %s failed", hook, bundle.name, exc_info=error)
    name = getattr(hook, "__name__", "a hook")
    info.emit(SystemNotice(f"`{bundle.name}`: {name} failed ({error!r}); {so}."))
