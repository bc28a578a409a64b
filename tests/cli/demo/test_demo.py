"""The demo in this process: its question, and what it answers afterwards."""

from collections.abc import Iterator

import pytest

from dirge_py.cli.demo.play import NO_MORE, Demo
from dirge_py.types.outcomes import Cancelled
from dirge_py.types.questions import PermissionAnswer
from tests.support.project import ScriptedUser


@pytest.fixture
def demo(home: object) -> Iterator[Demo]:
    demo = Demo()
    yield demo
    demo.close()


async def test_demo_in_terminal_ui_asks_before_it_runs_the_tests(demo: Demo) -> None:
    user = ScriptedUser(PermissionAnswer(effect="abort"))
    conversation = demo.conversation(user, paced=True)
    outcome = await conversation.send(demo.prompt)
    await conversation.close()

    [request] = user.asked
    assert [claim.resource for claim in request.claims] == ["python3 -m unittest"]
    assert isinstance(outcome, Cancelled)


async def test_further_prompt_in_demo_explains_itself_and_names_config_init(demo: Demo) -> None:
    conversation = demo.conversation(ScriptedUser(), paced=False)
    assert await demo.play(conversation)
    await conversation.send("and now?")
    await conversation.close()

    assert conversation.messages[-1].text == NO_MORE
    assert "`dirge config init`" in NO_MORE
