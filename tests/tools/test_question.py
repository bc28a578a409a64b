import asyncio
import contextlib

import pytest

from dirge_py.files.workspace import Workspace
from dirge_py.tools.base import ToolServices
from dirge_py.tools.question import TOOL
from dirge_py.tools.toolbox import Toolbox
from dirge_py.types.abort import AbortSignal
from dirge_py.types.questions import Question, QuestionAnswer, QuestionOption
from dirge_py.types.tools import Claim, InvalidArguments


class ScriptedUser:
    """Answers with the given texts; None is a user who cancels."""

    def __init__(self, *answers):
        self.answers = None if answers == (None,) else answers
        self.asked = []

    async def __call__(self, questions):
        self.asked += questions
        return self.answers


@pytest.fixture
def ask(tmp_path):
    """Calls the tool as the loop does."""

    async def call(user, arguments):
        services = ToolServices(files=Workspace([tmp_path], tmp_path), ask=user)
        toolbox = Toolbox([TOOL], services, str(tmp_path))
        (tool,) = toolbox.loop_tools
        valid = toolbox.validate(tool, tool.prepare_arguments(arguments))
        return await tool.execute("c", valid, AbortSignal(), lambda partial: None)

    return call


async def test_several_questions_are_answered_in_text(ask):
    user = ScriptedUser(
        QuestionAnswer(chosen=("Postgres", "Redis")),
        QuestionAnswer(text="as you like"),
        QuestionAnswer(chosen=("Yes",), text="but later"),
        QuestionAnswer(),
    )
    options = [{"label": "Postgres", "description": "usual"}, {"label": "Redis"}]
    result = await ask(
        user,
        {
            "questions": [
                {"question": "Which stores?", "header": "Stores", "options": options,
                 "multi_select": True, "custom": False},
                {"question": "Which name?"},
                {"question": "Now?", "options": [{"label": "Yes"}, {"label": "No"}]},
                {"question": "And?"},
            ]
        },
    )  # fmt: skip
    assert result.text == (
        "The user answered:\n"
        "1. Which stores?\n   Postgres; Redis\n"
        "2. Which name?\n   typed: as you like\n"
        "3. Now?\n   Yes - typed: but later\n"
        "4. And?\n   (no answer)"
    )
    assert result.details == {"outcome": "ok", "answered": True}
    assert user.asked[0] == Question(
        question="Which stores?",
        header="Stores",
        options=(
            QuestionOption(label="Postgres", description="usual"),
            QuestionOption(label="Redis"),
        ),
        is_multiple=True,
        is_open=False,
    )
    assert user.asked[1] == Question(question="Which name?")


async def test_cancelled_question_is_normal_result(ask):
    result = await ask(ScriptedUser(None), {"questions": [{"question": "Why?"}]})
    assert "cancelled the question" in result.text
    assert (result.is_error, result.details["answered"]) == (False, False)


@pytest.mark.parametrize(
    "arguments",
    [
        {"questions": "Which?"},
        "Which?",
        {"question": "Which?"},
        {"prompt": "Which?"},
        {"questions": {"question": "Which?"}},
        {"questions": ["Which?"]},
        {"questions": [{"text": "Which?"}]},
    ],
)
async def test_single_question_is_accepted_in_many_forms(ask, arguments):
    user = ScriptedUser(QuestionAnswer(text="that"))
    assert (await ask(user, arguments)).text.endswith("typed: that")
    assert user.asked == [Question(question="Which?")]


async def test_option_and_flag_names_of_other_agents_are_accepted(ask):
    user = ScriptedUser(QuestionAnswer(chosen=("b",)))
    await ask(
        user,
        {
            "question": "Which?",
            "choices": ["a", "b", "a"],
            "multiSelect": True,
            "allow_other": False,
        },
    )
    assert user.asked == [
        Question(
            question="Which?",
            options=(QuestionOption(label="a"), QuestionOption(label="b")),
            is_multiple=True,
            is_open=False,
        )
    ]


async def test_question_without_options_always_allows_free_text(ask):
    user = ScriptedUser(QuestionAnswer(text="x"))
    await ask(user, {"questions": [{"question": "Which?", "custom": False}]})
    assert user.asked[0].is_open


@pytest.mark.parametrize(
    "questions", [[], [{"question": " "}], [{"question": "x"}] * 5, [{"question": "x" * 1001}]]
)
async def test_invalid_questions_are_rejected(ask, questions):
    with pytest.raises(InvalidArguments):
        await ask(ScriptedUser(), {"questions": questions})


async def test_too_many_options_are_error_without_asking(ask):
    user = ScriptedUser()
    options = [str(number) for number in range(13)]
    result = await ask(user, {"question": "Which?", "options": options})
    assert result.is_error
    assert user.asked == []


async def test_abort_cancels_question(ask):
    waiting, taken_back = asyncio.Event(), []

    async def user(questions):
        waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            taken_back.append(questions)

    task = asyncio.ensure_future(ask(user, {"question": "Which?"}))
    await asyncio.wait_for(waiting.wait(), 5)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert taken_back == [[Question(question="Which?")]]


def test_h11_question_tool_is_not_offered_without_user(tmp_path):
    services = ToolServices(files=Workspace([tmp_path], tmp_path))
    assert Toolbox([TOOL], services, "/").names == ()


async def test_h11_question_call_without_user_is_answered_at_once(tmp_path):
    services = ToolServices(files=Workspace([tmp_path], tmp_path))
    bound = Toolbox([TOOL], ToolServices(files=services.files, ask=ScriptedUser()), "/")
    (tool,) = bound.loop_tools
    tool._services = services  # the front end was detached between offer and call
    valid = bound.validate(tool, {"questions": [{"question": "Which?"}]})
    result = await tool.execute("c", valid, AbortSignal(), lambda partial: None)
    assert result.is_error
    assert "Decide yourself" in result.text


def test_question_has_no_timeout_and_claims_no_permission(tmp_path):
    assert (TOOL.timeout_s, TOOL.mode, TOOL.needs) == (0.0, "sequential", ("ask",))
    services = ToolServices(files=Workspace([tmp_path], tmp_path), ask=ScriptedUser())
    (tool,) = Toolbox([TOOL], services, "/").loop_tools
    assert tool.claims({"questions": [{"question": "Which?"}]}) == [Claim("meta", "question")]
