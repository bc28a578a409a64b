"""Structured output: a run whose answer must match a schema, enforced by its service or by a tool.

The state is read from the messages alone, so that runs can be driven turn by turn.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace

from dirge_py.agent_loop.answer_schema import (
    TOOL,
    AnswerSchema,
    CheckedValue,
    SubmitResult,
    compact,
)
from dirge_py.agent_loop.history import messages_since_prompt
from dirge_py.agent_loop.tool_calls import CLOSED, cut_json
from dirge_py.guards.stop_checks import bullets, nudge
from dirge_py.lib.text import one_line
from dirge_py.types import llm
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import ProviderError
from dirge_py.types.events import Sink, SystemNotice
from dirge_py.types.hooks import Context, Hooks, StopRun, ToolOverride, TurnInfo
from dirge_py.types.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from dirge_py.types.outcomes import AgentResult, Done, Failed, Outcome
from dirge_py.types.tools import ToolCall

MOST_ASKED_AGAIN = 3
KIND = "schema"
"""The `Failed.kind` of a run whose answer never matched."""

ASKED = "The result is not there yet. "
"""The beginning of every message that asks for the result; these messages are counted by it."""

# No tool wrote it, so the check after failed calls ignores these: this module asks again anyway.
_UNFIT = {"outcome": "invalid", "synthetic": "unfit"}
_QUOTED_PROBLEMS = 3
_SHOWN_CHARS = 500
_BY_TOOL = (
    f"# The result\n\nA program reads the result of this run. When all else is done, call `{TOOL}` "
    "with it, alone: that ends the run. What you say in words is not read."
)
_BY_ANSWER = (
    "# The result\n\nA program reads your last answer. When all else is done, answer with JSON "
    "alone, without any words around it, that fits this JSON Schema:\n"
)
_LONGEST = 2000
_NOT_ACCEPTED = ("it was not accepted, or the user asked for more",)


class StructuredAnswer:
    """One run's answer by a schema. `tool` belongs among its tools, `bundle` among its hooks."""

    def __init__(self, schema: AnswerSchema, *, is_native: Callable[[str], bool]) -> None:
        self.tool = SubmitResult(schema)
        self._schema = schema
        self._is_native = is_native
        self._refused: set[str] = set()
        self._by_tool = True
        self._emit: Sink = lambda event: None

    def bundle(self) -> Hooks:
        """Return hooks that check a submitted value, and ask for one at the end."""
        return Hooks(
            name="structured answer",
            transform_context=self._with_tool,
            before_tool_call=self._check_call,
            should_stop_after_turn=self._stop_after_failures,
            get_followup_messages=self._ask,
        )

    def around_model(self, stream_fn: llm.StreamFn) -> llm.StreamFn:
        """Return `stream_fn` with the schema in the request, unless the service rejects that."""

        async def stream_with_schema(
            context: llm.LlmContext, options: llm.StreamOptions, signal: AbortSignal
        ) -> AsyncIterator[llm.StreamEvent]:
            self._by_tool = options.model in self._refused or not self._is_native(options.model)
            while True:
                stream = stream_fn(*self._request(context, options), signal)
                has_begun = self._by_tool
                async with llm.closing(stream) as events:
                    async for event in events:
                        error = event.error if isinstance(event, llm.StreamError) else None
                        if error and error.kind == "invalid_request" and not has_begun:
                            self._fall_back(options.model, error)
                            break
                        is_start = isinstance(event, llm.StreamStart | llm.StreamRetry)
                        has_begun = has_begun or not is_start
                        yield event
                    else:
                        return

        return stream_with_schema

    def _request(
        self, context: llm.LlmContext, options: llm.StreamOptions
    ) -> tuple[llm.LlmContext, llm.StreamOptions]:
        if self._by_tool:
            return _with_words(context, _BY_TOOL), options
        schema = self._schema.json_schema
        tools = tuple(tool for tool in context.tools if tool.name != TOOL)
        context = _with_words(replace(context, tools=tools), _BY_ANSWER + compact(schema))
        return context, replace(
            options, response_schema=llm.ResponseSchema(name="result", schema=schema)
        )

    def check_outcome(self, outcome: Outcome, messages: Sequence[Message]) -> Outcome:
        """Return the outcome of a run after `messages`: done only if its answer matches."""
        if not isinstance(outcome, Done):
            return outcome
        answer = self._accepted(messages)
        if answer is None:
            return self._failure(messages)
        result = outcome.result or AgentResult(response="")
        response = compact(answer.value)
        return replace(outcome, result=replace(result, response=response, structured=answer.value))

    # -- requests to the model

    def _fall_back(self, model: str, error: ProviderError) -> None:
        self._refused.add(model)
        self._by_tool = True
        why = one_line(error.message, 200)
        text = f"The service of {model} rejects the schema of the answer ({why})."
        self._emit(SystemNotice(f"{text} dirge uses a tool instead."))

    # -- hooks

    def _with_tool(self, info: TurnInfo) -> Context | None:
        self._emit = info.emit
        if any(tool.name == TOOL for tool in info.context.tools):
            return None
        return replace(info.context, tools=(*info.context.tools, self.tool))

    def _check_call(self, info: TurnInfo, call: ToolCall) -> ToolOverride | None:
        if call.name != TOOL:
            return None
        # A text is what is left of arguments that are not JSON; its problem says more.
        is_text = call.problem is not None and isinstance(call.arguments, str)
        problems = [] if is_text else self._schema.check_arguments(call.arguments).problems
        if CLOSED in call.repairs:
            # A truncated list may match the schema, too.
            problems = [*problems, "The arguments were cut off: make them shorter"]
        if call.problem is None and not problems:
            return None
        lines = bullets(problems) if problems else call.problem_text
        attempt = _failures(info.context.messages) + 1
        counted = f"attempt {attempt}/{MOST_ASKED_AGAIN}"
        if attempt <= MOST_ASKED_AGAIN:
            text = f"Not accepted ({counted}). Fix this, and call `{TOOL}` again:\n{lines}"
            details = {**_UNFIT, "retry": True, "attempt": attempt}
            return ToolOverride(text, details={**details, "attempts": MOST_ASKED_AGAIN})
        return ToolOverride(f"Not accepted, for the last time:\n{lines}", details=_UNFIT)

    def _stop_after_failures(self, info: TurnInfo) -> bool:
        messages = info.context.messages
        is_rejected = any(map(_is_rejected, info.tool_results)) and not self._accepted(messages)
        if is_rejected and _failures(messages) > MOST_ASKED_AGAIN:
            raise StopRun(self._failure(messages))
        return False

    def _ask(self, info: TurnInfo, so_far: Sequence[Message]) -> Sequence[Message]:
        if so_far or info.ended_by != "natural" or info.signal.aborted or info.signal.interjected:
            return ()
        messages = info.context.messages
        if self._accepted(messages) is not None:
            return ()
        if _failures(messages) >= MOST_ASKED_AGAIN:
            raise StopRun(self._failure(messages))
        return nudge(ASKED + self._what_to_do(messages))

    def _what_to_do(self, messages: Sequence[Message]) -> str:
        answers = (each for each in reversed(messages) if isinstance(each, AssistantMessage))
        text = next((each.text for each in answers if _is_answer(each)), "")
        problems = self._schema.check_text(text).problems if text.strip() else ()
        if not self._by_tool:
            wrong = f" Wrong with your answer:\n{bullets(problems)}" if problems else ""
            return f"Answer with the whole of it: JSON alone that fits the schema.{wrong}"
        wrong = ""
        if text.lstrip().startswith(("{", "[", "```")):
            wrong = f" Your text answer doesn't count as the result:\n{bullets(problems)}"
        return f"Call `{TOOL}` with it; what you say in words is not read.{wrong}"

    def _failure(self, messages: Sequence[Message]) -> Failed:
        text, problems = self._last_attempt(messages)
        why = ": there was none."
        if text:
            wrong = one_line("; ".join(problems[:_QUOTED_PROBLEMS]), _SHOWN_CHARS)
            why = f". Wrong with the last one: {wrong}. It was: {one_line(text, _SHOWN_CHARS)}"
        return Failed(
            kind=KIND,
            message=f"the answer never matched the schema{why}",
            hint="Describe its members in the schema, ask for less at once, or use another model.",
        )

    def _accepted(self, messages: Sequence[Message]) -> CheckedValue | None:
        """Return the last value that matches, of those after the last user message."""
        for message in reversed(messages):
            if isinstance(message, UserMessage):
                return None
            if isinstance(message, ToolResultMessage):
                is_value = message.tool_name == TOOL and not message.is_error
                if not is_value or "submitted" not in message.details:
                    continue
                value = self._schema.check_value(message.details["submitted"])
            elif isinstance(message, AssistantMessage) and _is_answer(message):
                value = self._schema.check_text(message.text)
            else:
                continue
            if not value.problems:
                return value
        return None

    def _last_attempt(self, messages: Sequence[Message]) -> tuple[str, Sequence[str]]:
        """Return the last attempt at a result, and its problems; "" if there was none."""
        for message in reversed(messages_since_prompt(messages)):
            if not isinstance(message, AssistantMessage) or message.origin != "model":
                continue
            calls = [call for call in message.calls if call.name == TOOL]
            if calls:
                arguments = calls[-1].arguments
                text = arguments if isinstance(arguments, str) else cut_json(arguments, _LONGEST)
                return text, self._schema.check_arguments(arguments).problems or _NOT_ACCEPTED
            if message.text.strip() and not message.withheld:
                return message.text, self._schema.check_text(message.text).problems or _NOT_ACCEPTED
        return "", ()


def _with_words(context: llm.LlmContext, words: str) -> llm.LlmContext:
    prompt = context.system_prompt
    more = f"{prompt}\n\n{words}" if prompt else words
    if isinstance(prompt, llm.SystemText):
        more = llm.SystemText(more, prompt.stable_chars)
    return replace(context, system_prompt=more)


def _failures(messages: Sequence[Message]) -> int:
    """Return how often the model's result was rejected since the prompt, once per answer."""
    failures, is_new = 0, True
    for message in messages_since_prompt(messages):
        if isinstance(message, AssistantMessage):
            is_new = True
        elif isinstance(message, UserMessage):
            failures += message.origin == "harness" and message.text.startswith(ASKED)
        elif isinstance(message, ToolResultMessage) and _is_rejected(message):
            failures += is_new
            is_new = False
    return failures


def _is_answer(message: AssistantMessage) -> bool:
    is_complete = message.stop_reason not in ("error", "aborted") and not message.withheld
    return is_complete and message.origin == "model" and not message.calls


def _is_rejected(message: ToolResultMessage) -> bool:
    return message.tool_name == TOOL and message.is_error
