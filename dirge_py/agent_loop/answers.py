"""What each hook may answer: everything else counts as a hook that failed."""

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from dirge_py.types.hooks import AfterToolCallResult, Answer, Context, Defer, EditArgs, TurnUpdate
from dirge_py.types.llm import ThinkingLevel
from dirge_py.types.messages import (
    AssistantMessage,
    CustomMessage,
    DocumentBlock,
    ImageBlock,
    SystemMessage,
    TextBlock,
    ToolResultMessage,
    UserMessage,
)

_MESSAGES = (UserMessage, AssistantMessage, ToolResultMessage, SystemMessage, CustomMessage)
_RESULT_BLOCKS = (TextBlock, ImageBlock, DocumentBlock)
_MESSAGE_LIST: tuple[type, ...] = (list, tuple, type(None))

ACCEPTED: Mapping[str, tuple[type, ...]] = {
    "transform_context": (Context, type(None)),
    "convert_to_llm": _MESSAGE_LIST,
    "before_tool_call": (EditArgs, Answer, Defer, type(None)),
    "after_tool_call": (AfterToolCallResult, type(None)),
    "prepare_next_turn": (TurnUpdate, type(None)),
    "should_stop_after_turn": (bool, type(None)),
    "get_steering_messages": _MESSAGE_LIST,
    "get_followup_messages": _MESSAGE_LIST,
    "get_api_key": (str, type(None)),
}


def checked(name: str, answer: Any) -> Any:
    """`answer`, if the hook called `name` may give it. Plugins are strangers: types are hopes.

    Raises:
        TypeError: it may not; the message says what it was.
    """
    if not isinstance(answer, ACCEPTED[name]):
        raise TypeError(f"It returned {type(answer).__name__}.")
    match answer:
        case list() | tuple():
            _all(answer, _MESSAGES, "message")
        case Context():
            _check_context(answer)
        case TurnUpdate():
            _check_update(answer)
        case EditArgs(args=args) if not isinstance(args, Mapping):
            raise TypeError(f"It returned arguments that are {type(args).__name__}.")
        case Answer(content=content, details=details):
            if not isinstance(content, str):
                _all(content, _RESULT_BLOCKS, "block of a result")
            _check_details(details)
        case AfterToolCallResult(content=content, details=details):
            _all(content or (), _RESULT_BLOCKS, "block of a result")
            _check_details(details or {})
    return answer


def _check_context(context: Context) -> None:
    _all(context.messages, _MESSAGES, "message")
    if not isinstance(context.system_prompt, str):
        raise TypeError(f"Its system prompt is {type(context.system_prompt).__name__}.")
    for tool in context.tools:
        if not callable(getattr(tool, "execute", None)):
            raise TypeError(f"It returned {type(tool).__name__} for a tool.")


def _check_update(update: TurnUpdate) -> None:
    if update.context is not None:
        checked("transform_context", update.context)
    _all(update.continue_with or (), _MESSAGES, "message")
    if not isinstance(update.role, str | None):
        raise TypeError(f"It returned a role that is {type(update.role).__name__}.")
    if not isinstance(update.model, str | None):
        raise TypeError(f"It returned a model that is {type(update.model).__name__}.")
    if update.thinking_level not in (None, *get_args(ThinkingLevel)):
        raise TypeError(f"It returned the thinking level {update.thinking_level!r}.")


def _check_details(details: Any) -> None:
    if not isinstance(details, Mapping):
        raise TypeError(f"Its details are {type(details).__name__}.")


def _all(items: Any, kinds: tuple[type, ...], what: str) -> None:
    if isinstance(items, str) or not isinstance(items, Sequence):
        raise TypeError(f"It returned {type(items).__name__} for a list of {what}s.")
    for item in items:
        if not isinstance(item, kinds):
            raise TypeError(f"It returned {type(item).__name__} for a {what}.")
