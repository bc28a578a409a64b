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


async def test_several_questions_are_answered_each_in_words(ask):
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
        "2. Which name?\n   in their own words: as you like\n"
        "3. Now?\n   Yes - in their own words: but later\n"
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


async def test_a_person_who_would_rather_not_say_is_an_answer(ask):
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
async def test_one_question_may_be_put_in_many_ways(ask, arguments):
    user = ScriptedUser(QuestionAnswer(text="that"))
    assert (await ask(user, arguments)).text.endswith("in their own words: that")
    assert user.asked == [Question(question="Which?")]


async def test_options_and_switches_of_other_agents_are_understood(ask):
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


async def test_without_options_there_is_always_room_for_words(ask):
    user = ScriptedUser(QuestionAnswer(text="x"))
    await ask(user, {"questions": [{"question": "Which?", "custom": False}]})
    assert user.asked[0].is_open


@pytest.mark.parametrize(
    "questions", [[], [{"question": " "}], [{"question": "x"}] * 5, [{"question": "x" * 1001}]]
)
async def test_what_nobody_could_answer_is_refused(ask, questions):
    with pytest.raises(InvalidArguments):
        await ask(ScriptedUser(), {"questions": questions})


async def test_too_many_options_are_refused_and_nobody_is_asked(ask):
    user = ScriptedUser()
    options = [str(number) for number in range(13)]
    result = await ask(user, {"question": "Which?", "options": options})
    assert result.is_error
    assert user.asked == []


async def test_an_abort_takes_the_question_back(ask):
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


def test_h11_where_nobody_can_be_asked_there_is_no_such_tool(tmp_path):
    services = ToolServices(files=Workspace([tmp_path], tmp_path))
    assert Toolbox([TOOL], services, "/").names == ()


async def test_h11_a_call_all_the_same_is_answered_at_once(tmp_path):
    services = ToolServices(files=Workspace([tmp_path], tmp_path))
    bound = Toolbox([TOOL], ToolServices(files=services.files, ask=ScriptedUser()), "/")
    (tool,) = bound.loop_tools
    tool._services = services  # the asker left between the offer and the call
    valid = bound.validate(tool, {"questions": [{"question": "Which?"}]})
    result = await tool.execute("c", valid, AbortSignal(), lambda partial: None)
    assert result.is_error
    assert "Decide yourself" in result.text


def test_it_waits_as_long_as_it_takes_and_asks_for_nothing(tmp_path):
    assert (TOOL.timeout_s, TOOL.mode, TOOL.needs) == (0.0, "sequential", ("ask",))
    services = ToolServices(files=Workspace([tmp_path], tmp_path), ask=ScriptedUser())
    (tool,) = Toolbox([TOOL], services, "/").loop_tools
    assert tool.claims({"questions": [{"question": "Which?"}]}) == [Claim("meta", "question")]
