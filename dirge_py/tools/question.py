"""The `question` tool: asks the user."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from dirge_py.tools.arguments import ToolArgs
from dirge_py.tools.base import Hints, SessionTool, ToolContext, rename_keys
from dirge_py.types.errors import ToolFailed
from dirge_py.types.questions import Question, QuestionOption
from dirge_py.types.tools import LoopToolResult, text_result

_MAX_CHARS = 1000
_MAX_OPTIONS = 12
_HEADER_CHARS = 40


def _check_text(text: str) -> str:
    text = text.strip()
    if not 0 < len(text) <= _MAX_CHARS:
        raise ValueError(f"must have 1 to {_MAX_CHARS} characters")
    return text


# These limits are checked in code, because the schema is sent, and paid for, with every request.
_Words = Annotated[str, AfterValidator(_check_text)]


class OptionArgs(ToolArgs):
    label: _Words
    description: str | None = None


class AskedArgs(ToolArgs):
    question: _Words
    header: str | None = None
    options: list[OptionArgs] | None = None
    multi_select: bool | None = None
    custom: bool | None = Field(None, description="Allow own words (default true).")


class QuestionArgs(ToolArgs):
    questions: list[AskedArgs] = Field(min_length=1, max_length=4)


class QuestionTool(SessionTool[QuestionArgs]):
    name = "question"
    label = "Ask"
    args = QuestionArgs
    mode = "sequential"
    needs = ("ask",)
    timeout_s = 0.0
    hints = Hints(read_only=True)

    def prepare(self, arguments: Any) -> Any:
        """Accept also a single question, options as plain texts, and other agents' names."""
        if isinstance(arguments, str):
            arguments = {"questions": arguments}
        if not isinstance(arguments, Mapping):
            return arguments
        if "questions" not in arguments and {"question", "prompt", "text"} & arguments.keys():
            arguments = {"questions": arguments}
        questions = arguments.get("questions")
        if isinstance(questions, str | Mapping):
            questions = [questions]
        if not isinstance(questions, list):
            return arguments
        return {**arguments, "questions": [_prepare_question(each) for each in questions]}

    async def run(self, args: QuestionArgs, ctx: ToolContext) -> LoopToolResult:
        if ctx.services.ask is None:
            raise ToolFailed("There is no user to ask. Decide yourself, and say what you assumed.")
        questions = [_make_question(each) for each in args.questions]
        answers = await ctx.services.ask(questions)
        if answers is None:
            text = "The user cancelled the question. Continue with what you know, or wait."
            return text_result(text, answered=False)
        lines = ["The user answered:"]
        for number, (question, answer) in enumerate(zip(questions, answers, strict=True), 1):
            mark = f"{number}. " if len(questions) > 1 else "   "
            typed = f"typed: {answer.text.strip()}" if answer.text.strip() else ""
            said = " - ".join(filter(None, ("; ".join(answer.chosen), typed)))
            lines += [f"{mark}{question.question}", f"   {said or '(no answer)'}"]
        return text_result("\n".join(lines), answered=True)


TOOL = QuestionTool()

_NAMES = {
    "prompt": "question",
    "text": "question",
    "title": "header",
    "choices": "options",
    "multiSelect": "multi_select",
    "multiple": "multi_select",
    "allow_custom": "custom",
    "allowCustom": "custom",
    "allow_other": "custom",
}
_OPTION_NAMES = {"title": "label", "name": "label", "value": "label", "text": "label"}


def _prepare_question(question: Any) -> Any:
    if isinstance(question, str):
        return {"question": question}
    question = rename_keys(question, _NAMES)
    if not isinstance(question, Mapping):
        return question
    options = question.get("options")
    if not isinstance(options, list):
        return question
    named = [
        {"label": each} if isinstance(each, str) else rename_keys(each, _OPTION_NAMES)
        for each in options
    ]
    return {**question, "options": named}


def _make_question(args: AskedArgs) -> Question:
    """Return the question to ask: open without options, and without options of equal labels."""
    offered = args.options or ()
    if len(offered) > _MAX_OPTIONS:
        raise ToolFailed(f"{len(offered)} options are too many: offer at most {_MAX_OPTIONS}.")
    options = {each.label: each.description or "" for each in offered}
    return Question(
        question=args.question,
        header=(args.header or "")[:_HEADER_CHARS],
        options=tuple(QuestionOption(label=a, description=b) for a, b in options.items()),
        is_multiple=bool(args.multi_select),
        is_open=args.custom is not False or not options,
    )
