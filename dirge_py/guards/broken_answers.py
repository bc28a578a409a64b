"""Answers that are none: calls written as text, and nothing at all. The model is asked again.

These are no stop checks: they don't judge the work, and the run can't end well without them. What
was asked is counted in the history, so that runs can be driven turn by turn.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import pairwise

from dirge_py.agent_loop.answer_schema import TOOL
from dirge_py.agent_loop.history import CALL_AS_TEXT, is_about_written_call, messages_since_prompt
from dirge_py.agent_loop.text_tool_calls import (
    FENCE,
    MOST_BYTES,
    ToolArguments,
    WrittenCall,
    blank_out,
    calls_in_text,
    scan,
    thinking_and_text,
    tool_arguments,
    without_quotations,
)
from dirge_py.agent_loop.tool_calls import signature
from dirge_py.lib.lazy import late_pattern
from dirge_py.types.hooks import Hooks, StopRun, TurnInfo, TurnUpdate
from dirge_py.types.messages import AssistantMessage, Message, UserMessage, user_text
from dirge_py.types.outcomes import Failed
from dirge_py.types.tools import LoopTool, LoopToolResult, ToolCall

MOST_WRITTEN = 2
"""How often a run asks for a call that was written as text."""
MOST_EMPTY = 3
"""How often a run asks for an answer that was empty; two in a row end it before."""

EMPTY_KIND = "empty_answer"
"""The `Failed.kind` of a run whose model gave no answer."""
_INVISIBLE = dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff"))
"""Characters without width; models send them in place of an answer."""

EMPTY = (
    "Your answer was empty: it had neither text nor a tool call. Continue with the task. If it is "
    "done, say so, and what the result is."
)
_NOTHING_RAN = (
    "` as text, so nothing ran. Make it as a tool call. If it was only an example for the user, "
    "repeat your answer with the example behind `>`."
)
_WRITTEN_HINT = (
    "Use a model that supports tool calls. For a local one, check that its server has the chat "
    "template and the tool-call parser of this model."
)
_EMPTY_HINT = "Use /continue to ask it once more, or use another model."

_MARKUP = late_pattern(
    r"</?(?:[\w-]{1,20}:)?[\w-]{1,40}(?:=[^<>]{0,80})?>|</?[|｜][^<>]{1,60}>"
    r"|\[/?TOOL_CALLS\]|\b(?:assistant|commentary|assistantcommentary|analysis)\b"
)
_PUNCTUATION = " \t\n[](),;`"
_EXAMPLE = late_pattern(
    r"\b(?:examples?\s*(?::|of\b|calls?\b|,|\.|$)|for (?:example|instance)|e\. ?g\."
    r"|looks? (?:like (?:this|so)|as follows|so)|show(?:s|n|ing)? (?:you|how)|illustrat\w+"
    r"|Beispiel|z\. ?B\.|so aus|par exemple|por ejemplo|per esempio)",
    re.IGNORECASE,
)
_DESCRIBES = late_pattern(
    r"\b(?:looks? like|such as|formats?|form|syntax|shape|schema|structure|would|could|means?"
    r"|log(?:s|ged)?|record(?:s|ed)?|stor(?:es|ed)|sen(?:ds|t)|receiv(?:es|ed)|return(?:s|ed)"
    r"|contain(?:s|ed)|print(?:s|ed)?|outputs?|shows?|shown|traces?|says?|said"
    r"|wrote|writes|payload|transcript|journal|document(?:s|ed)|equivalent|instead of|earlier"
    r"|previous(?:ly)?|you (?:can|may))\b",
    re.IGNORECASE,
)
_ANNOUNCES = late_pattern(
    r"\b(?:(?:I|we)(?:['’]ll| will| am going to|['’]m going to| need to| must| should| have to)"
    r"|let(?:['’]s| me| us)|(?:now|next|first|then),? (?:I|we)|next step)\b"
    r"(?!\s+(?:also\s+)?(?:know|explain|show|describe|walk|summari[sz]e)\b)"
    r"|(?:^|[.!?:]\s+)(?:Calling|Reading|Running|Checking|Opening|Searching|Listing|Editing"
    r"|Writing|Creating|Looking|Using)\b",
    re.IGNORECASE | re.MULTILINE,
)
_MOST_INTRODUCTION = 300
_NEAR = 1000
"""How many characters around a call show what it is."""


def ask_again(
    *,
    scavenges: bool = False,
    can_ask: Callable[[], bool] = lambda: True,
    allowed: Collection[str] | None = None,
) -> Hooks:
    """Return hooks that ask again for calls that were written as text, and after empty answers.

    If the model does it again after that, the run fails. Answers that broke off, were withheld or
    follow a schema are left to others. `scavenges`: the loop runs calls from text that only read,
    so only the others are asked for. Unless `can_ask`, the run fails at once: it has no turn left.
    Nobody asks for tools that are unavailable, or not among the `allowed` ones (lower case; None:
    all). Create new hooks for every run.
    """
    terminated_turn = -1

    def after_call(info: TurnInfo, _call: ToolCall, result: LoopToolResult) -> None:
        nonlocal terminated_turn
        if result.terminate:
            terminated_turn = info.turn

    def after_turn(info: TurnInfo) -> TurnUpdate | None:
        message = info.message
        tools = [
            tool
            for tool in info.context.tools
            if not getattr(tool, "unavailable", "")
            and (allowed is None or tool.name.lower() in allowed or tool.name == TOOL)
        ]
        if message is None or message.withheld or message.stop_reason not in ("stop", "toolUse"):
            return None
        if (message.calls and not scavenges) or any(tool.name == TOOL for tool in tools):
            return None
        if name := call_as_text(message, tools):
            return _ask_for_call(info, name, can_ask=can_ask())
        if message.calls or _says_something(message.text) or info.turn == terminated_turn + 1:
            return None
        return _ask_for_answer(info, can_ask=can_ask())

    return Hooks(
        name="broken answers",
        only_watches=True,
        after_tool_call=after_call,
        prepare_next_turn=after_turn,
    )


def _ask_for_call(info: TurnInfo, name: str, *, can_ask: bool) -> TurnUpdate:
    asked = sum(map(is_about_written_call, messages_since_prompt(info.context.messages)))
    question = user_text(f"{CALL_AS_TEXT}{name}{_NOTHING_RAN}", origin="harness")
    if can_ask and asked < MOST_WRITTEN:
        return TurnUpdate(continue_with=(question,))
    times = f" {asked + 1} times" if asked else ""
    text = f"The model wrote a call of `{name}` as text{times} instead of making it."
    failed = Failed(kind="text_call", message=text, hint=_WRITTEN_HINT)
    # With it, the text is no answer, and a continued run begins with the question.
    raise StopRun(failed, undelivered=(question,))


def _ask_for_answer(info: TurnInfo, *, can_ask: bool) -> TurnUpdate | None:
    messages = messages_since_prompt(info.context.messages)
    asked = sum(map(_is_about_silence, messages))
    is_repeated = len(messages) > 1 and _is_about_silence(messages[-2])
    if can_ask and not is_repeated and asked < MOST_EMPTY:
        return TurnUpdate(continue_with=(user_text(EMPTY, origin="harness"),))
    if _has_answer(messages):
        return None  # A finished run must not fail because of an extra question.
    times = " twice in a row" if is_repeated else " again" * bool(asked)
    text = f"The model gave an empty answer{times}."
    raise StopRun(Failed(kind=EMPTY_KIND, message=text, hint=_EMPTY_HINT))


def _says_something(text: str) -> bool:
    return bool(text.translate(_INVISIBLE).strip())


def _is_about_silence(message: Message) -> bool:
    return isinstance(message, UserMessage) and message.text == EMPTY


def _has_answer(messages: Sequence[Message]) -> bool:
    """Whether the model has answered in words that were no written call."""
    return any(
        isinstance(message, AssistantMessage)
        and message.stop_reason in ("stop", "length")
        and _says_something(message.text)
        and not (message.calls or is_about_written_call(following))
        for message, following in pairwise(messages)
    )


def call_as_text(message: AssistantMessage, tools: Sequence[LoopTool]) -> str:
    """Return the tool of the first call that was written as text and not made; "" if none was.

    Calls in quotations don't count, unless a code block is nothing but a call and no words around
    it say that it is an example. Those in the thinking count only at its end if there is a text.
    """
    thoughts, text = thinking_and_text(message)
    names = tool_arguments(tools)
    made = {signature(call.name, call.arguments) for call in message.calls}
    if made:
        written = {signature(name, given) for name, given, *_ in calls_in_text(message, tools)}
        if not made <= written:
            return ""  # The model has made them itself.
    is_silent = not _says_something(text)
    for call in (*_meant(text, names), *_meant(thoughts, names, must_end=not is_silent)):
        if signature(call.name, call.arguments) not in made:
            return call.name
    return ""


def _meant(text: str, tools: ToolArguments, *, must_end: bool = False) -> Iterator[WrittenCall]:
    if len(text) > MOST_BYTES or not ("{" in text or "<" in text):
        return
    written = [*scan(text, tools, without_quotations(text)), *_in_code_blocks(text, tools)]
    around = blank_out(text, ((call.begin, call.end) for call in written))
    for call in sorted(written, key=lambda call: call.begin):
        if _is_meant(around, call, is_json=text[call.begin] == "{", must_end=must_end):
            yield call


def _in_code_blocks(text: str, tools: ToolArguments) -> Iterator[WrittenCall]:
    """Yield the calls in code blocks that hold nothing else; each stands for its whole block."""
    for block in FENCE.finditer(text):
        body = block[0].partition("\n")[2].rstrip("`~ \t")
        calls = tuple(scan(body, tools))
        if not _words(blank_out(body, ((call.begin, call.end) for call in calls))):
            for call in calls:
                yield call._replace(begin=block.start(), end=block.end(), is_bare=True)


def _is_meant(text: str, call: WrittenCall, *, is_json: bool, must_end: bool) -> bool:
    """Whether a call is meant to be made, by its place and the words in the text around it."""
    before = _MARKUP.sub("", text[max(0, call.begin - _NEAR) : call.begin])
    after = _words(text[call.end : call.end + _NEAR])
    introduction = before.rstrip(_PUNCTUATION).rpartition("\n")[2][-_MOST_INTRODUCTION:]
    is_announced = bool(_ANNOUNCES.search(introduction))
    if _EXAMPLE.search(introduction) or (after and must_end):
        return False
    if introduction.endswith(":") and not is_announced and _DESCRIBES.search(introduction):
        return False
    if _words(text[call.end : call.end + _NEAR].partition("\n")[0]):
        return False  # A sentence goes on.
    if words := before.rpartition("\n")[2].strip(_PUNCTUATION):
        return not after and (is_announced or words.endswith((".", "!", "?", "…")))
    if is_announced or not (after and call.is_bare):
        return True
    return (not introduction and is_json) or bool(_ANNOUNCES.search(after[:_MOST_INTRODUCTION]))


def _words(text: str) -> str:
    """Return `text` without markup and punctuation around it."""
    return _MARKUP.sub("", text).strip(_PUNCTUATION)
