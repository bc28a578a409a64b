"""Merges several sets of hooks into one, with one rule per hook and one policy for failures."""

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, get_args

from dirge_py.agent_loop.cancellation import Aborted, until_aborted
from dirge_py.agent_loop.tool_calls import with_arguments, withheld_result
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import DirgeError, ProviderError
from dirge_py.types.events import SystemNotice
from dirge_py.types.history import GrowingHistory
from dirge_py.types.hooks import (
    HOOK_NAMES,
    AfterToolCallResult,
    BeforeToolCallResult,
    Context,
    Defer,
    EditArgs,
    Hooks,
    LoopConfig,
    StopRun,
    ToolOverride,
    TurnInfo,
    TurnUpdate,
)
from dirge_py.types.llm import ThinkingLevel
from dirge_py.types.messages import (
    AssistantMessage,
    CustomMessage,
    DocumentBlock,
    ImageBlock,
    Message,
    SystemMessage,
    TextBlock,
    ToolResultMessage,
    UserMessage,
)
from dirge_py.types.tools import LoopToolResult, ToolCall, ToolValidator

_MESSAGE_LIST: tuple[type, ...] = (list, tuple, type(None))

Hook = Callable[..., Any]
ACCEPTED_RESULTS: Mapping[str, tuple[type, ...]] = {
    "transform_context": (Context, type(None)),
    "convert_to_llm": _MESSAGE_LIST,
    "before_tool_call": (EditArgs, ToolOverride, Defer, type(None)),
    "after_tool_call": (AfterToolCallResult, type(None)),
    "prepare_next_turn": (TurnUpdate, type(None)),
    "should_stop_after_turn": (bool, type(None)),
    "get_steering_messages": _MESSAGE_LIST,
    "get_followup_messages": _MESSAGE_LIST,
    "get_api_key": (str, type(None)),
}
GUIDANCE = "[Guidance for the current task, not a new task. Take it into account and continue.]\n"

_MESSAGES = (UserMessage, AssistantMessage, ToolResultMessage, SystemMessage, CustomMessage)
_RESULT_BLOCKS = (TextBlock, ImageBlock, DocumentBlock)

_logger = logging.getLogger(__name__)


def compose(*bundles: Hooks, config: LoopConfig | None = None) -> LoopConfig:
    """Return `config` with its own hooks and those of `bundles` merged, in this order.

    | hook                             | rule                                          | one that raises       |
    |----------------------------------|-----------------------------------------------|-----------------------|
    | transform_context, convert_to_llm, after_tool_call | chain: each sees what the previous returned | unchanged |
    | before_tool_call                 | edits chain, validated after each; the first Answer or Defer ends it, but a call that was allowed is not deferred | blocks the call |
    | prepare_next_turn                | merged field by field, later wins             | no change             |
    | should_stop_after_turn           | the first StopRun or True                     | no                    |
    | get_steering_messages            | concatenated                                  | nothing from it       |
    | get_followup_messages            | concatenated, each sees `so_far`              | nothing from it       |
    | get_api_key                      | the first that is not None                    | error of that call    |

    A hook that returns a value of a wrong type has failed, too. Failures are logged and shown in a
    notice. A StopRun is passed on, by `after_tool_call` once all hooks have seen the result. After
    an abort, a hook that does not return counts as one without an answer, but a result that an
    `after_tool_call` hook did not see is withheld: see `Hooks.only_watches`. All nine hooks are set.
    """  # noqa: E501
    config = config or LoopConfig()
    merged = MergedHooks((config, *bundles), config.validate)
    hooks: dict[str, Any] = {name: getattr(merged, name) for name in HOOK_NAMES}
    return replace(config, **hooks)


def merged_hooks(config: LoopConfig) -> "MergedHooks":
    """Return the hooks of `config` as one set; a config from `compose` already holds one."""
    owners = {getattr(getattr(config, name), "__self__", None) for name in HOOK_NAMES}
    owner = owners.pop()
    if not owners and isinstance(owner, MergedHooks):
        return owner
    return MergedHooks((config,), config.validate)


class MergedHooks:
    """The nine hooks of several bundles, one method each; `compose` states their rules."""

    def __init__(self, bundles: Sequence[Hooks], validate: ToolValidator | None) -> None:
        self._bundles = bundles
        self._validate = validate
        self._converter = HistoryConverter()

    def _each(self, name: str) -> Iterator[tuple[Hooks, Hook]]:
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
        edited, answer = await self.check_call(info, call)
        return EditArgs(edited.arguments) if answer is None and edited is not call else answer

    async def check_call(
        self, info: TurnInfo, call: ToolCall
    ) -> tuple[ToolCall, ToolOverride | Defer | None]:
        """Return the call with the edits of all `before_tool_call` hooks, and their answer."""
        for bundle, hook in self._each("before_tool_call"):
            try:
                answer = await _call("before_tool_call", hook, info, call, signal=info.signal)
            except StopRun:
                raise
            except Aborted:
                return call, None  # dispatch checks the signal before this result
            except Exception as error:
                _report(bundle, hook, info, error, "the call is blocked")
                text = (
                    f"Blocked: the `before_tool_call` hook of `{bundle.name}` failed ({error!r})."
                )
                return call, ToolOverride(text, details={"outcome": "denied"})
            decision = info.decisions.get(call.id)
            if isinstance(answer, Defer) and decision is not None and decision.allow:
                continue  # it is allowed; later hooks may still block it
            if isinstance(answer, (ToolOverride, Defer)):
                return call, answer
            if isinstance(answer, EditArgs):
                # Validating copies: the next hooks must not judge an object that this hook has.
                call = with_arguments(call, answer.args, self._validate)
                if answer.note:
                    call = replace(call, notes=(*call.notes, answer.note))
        return call, None

    async def after_tool_call(
        self, info: TurnInfo, call: ToolCall, result: LoopToolResult
    ) -> AfterToolCallResult | None:
        merged: AfterToolCallResult | None = None
        stop: StopRun | None = None
        for bundle, hook in self._each("after_tool_call"):
            try:
                rest, withheld = (info, call, result), partial(_withheld_change, result)
                unchecked = _no_change if bundle.only_watches else withheld
                change = await _ask("after_tool_call", bundle, hook, *rest, if_aborted=unchecked)
            except StopRun as error:
                # The result is recorded in any case: hooks that remove secrets must still see it.
                stop, change = stop or error, error.change
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

    @property
    def has_api_keys(self) -> bool:
        """Whether a hook may return a key."""
        return any(bundle.get_api_key is not None for bundle in self._bundles)

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
        """Collect what all hooks of this name return, also when a later one stops the run."""
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


def _no_change() -> None:
    return None


async def _ask(
    name: str,
    bundle: Hooks,
    hook: Hook,
    info: TurnInfo,
    *rest: Any,
    if_aborted: Callable[[], Any] = _no_change,
) -> Any:
    """Return the hook's answer; None if it failed, `if_aborted()` if the run was aborted."""
    try:
        return await _call(name, hook, info, *rest, signal=info.signal)
    except StopRun:
        raise
    except Aborted:
        return if_aborted()
    except Exception as error:
        _report(bundle, hook, info, error, "the run continues without it")
        return None


async def _call(name: str, hook: Hook, *args: Any, signal: AbortSignal | None) -> Any:
    try:
        answer = hook(*args)
        if inspect.isawaitable(answer):
            # Only a hook that awaits needs a task: there are dozens of hooks in a turn.
            waiting = _awaited(answer)
            answer = await (waiting if signal is None else until_aborted(waiting, signal))
    except SystemExit as error:
        # Only the user may exit the program.
        raise RuntimeError(f"It tried to exit ({error.code}).") from error
    if isinstance(answer, StopRun):
        raise answer
    return check_hook_result(name, answer)


async def _awaited(answer: Awaitable[Any]) -> Any:
    try:
        return await answer
    except SystemExit as error:
        # Only the user may exit the program; in a task, this would end the event loop first.
        raise RuntimeError(f"It tried to exit ({error.code}).") from error


def changed_result(result: LoopToolResult, change: AfterToolCallResult) -> LoopToolResult:
    """Return `result` with every field that `change` names replaced in full."""
    fields = _present(change)
    if "content" in fields:
        fields["content"] = tuple(fields["content"])
    return replace(result, **fields)


def _withheld_change(result: LoopToolResult) -> AfterToolCallResult:
    withheld = withheld_result(result)
    return AfterToolCallResult(**{n: getattr(withheld, n) for n in AfterToolCallResult.__slots__})


def _overlaid(below: Any, above: Any) -> Any:
    if below is None or above is None:
        return above
    return replace(below, **_present(above))


def _present(change: AfterToolCallResult | TurnUpdate) -> dict[str, Any]:
    fields = {name: getattr(change, name) for name in change.__slots__}
    return {name: value for name, value in fields.items() if value is not None}


def _report(bundle: Hooks, hook: Hook, info: TurnInfo, error: Exception, so: str) -> None:
    _logger.error("hook %r of %s failed", hook, bundle.name, exc_info=error)
    name = getattr(hook, "__name__", "a hook")
    info.emit(SystemNotice(f"`{bundle.name}`: {name} failed ({error!r}); {so}."))


def check_hook_result(name: str, answer: Any) -> Any:
    """Return `answer` if the hook `name` may return it; raises TypeError otherwise."""
    if not isinstance(answer, ACCEPTED_RESULTS[name]):
        raise TypeError(f"It returned {type(answer).__name__}.")
    match answer:
        case list() | tuple():
            _check_items(answer, _MESSAGES, "message")
        case Context(messages=messages, system_prompt=prompt, tools=tools):
            _check_items(messages, _MESSAGES, "message")
            _check_type(prompt, str, "Its system prompt is {}.")
            for tool in tools:
                if not callable(getattr(tool, "execute", None)):
                    raise TypeError(f"It returned {type(tool).__name__} for a tool.")
        case TurnUpdate(context=context, continue_with=continue_with, thinking_level=level):
            if context is not None:
                check_hook_result("transform_context", context)
            _check_items(continue_with or (), _MESSAGES, "message")
            _check_type(answer.role, str | None, "It returned a role that is {}.")
            _check_type(answer.model, str | None, "It returned a model that is {}.")
            if level not in (None, *get_args(ThinkingLevel)):
                raise TypeError(f"It returned the thinking level {level!r}.")
        case EditArgs(args=args, note=note):
            _check_type(args, Mapping, "It returned arguments that are {}.")
            _check_type(note, str, "It returned a note that is {}.")
        case ToolOverride(content=content, details=details):
            if not isinstance(content, str):
                _check_items(content, _RESULT_BLOCKS, "block of a result")
            _check_type(details, Mapping, "Its details are {}.")
        case AfterToolCallResult(content=content, details=details):
            _check_items(content or (), _RESULT_BLOCKS, "block of a result")
            _check_type(details or {}, Mapping, "Its details are {}.")
    return answer


def _check_type(value: Any, kind: Any, problem: str) -> None:
    if not isinstance(value, kind):
        raise TypeError(problem.format(type(value).__name__))


def _check_items(items: Any, kinds: tuple[type, ...], what: str) -> None:
    if isinstance(items, str) or not isinstance(items, Sequence):
        raise TypeError(f"It returned {type(items).__name__} for a list of {what}s.")
    for item in items:
        _check_type(item, kinds, f"It returned {{}} for a {what}.")


def default_convert_to_llm(messages: Sequence[Message]) -> list[Message]:
    """Drop the messages that models do not read, and mark steering as guidance.

    The mark is added here, so history keeps the text as typed. Assistant messages without content,
    which services reject, and those that a guardrail withheld are dropped.
    """
    return [
        _as_guidance(message)
        for message in messages
        if not isinstance(message, CustomMessage)
        and not (
            isinstance(message, AssistantMessage) and (message.withheld or not message.content)
        )
    ]


class HistoryConverter:
    """`default_convert_to_llm` for a growing history: converted messages are cached."""

    def __init__(self) -> None:
        self._history = GrowingHistory[Message]()

    def convert(self, messages: Sequence[Message]) -> Sequence[Message]:
        new = self._history.new(messages)
        self._history.add(new, default_convert_to_llm(new))
        return tuple(self._history.made)


def _as_guidance(message: Message) -> Message:
    if not isinstance(message, UserMessage) or message.origin != "steering":
        return message
    first, *rest = message.content or (TextBlock(""),)
    if isinstance(first, TextBlock):
        return replace(message, content=(TextBlock(GUIDANCE + first.text), *rest))
    return replace(message, content=(TextBlock(GUIDANCE), first, *rest))
