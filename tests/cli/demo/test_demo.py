"""The demo in this process: its question, and what it answers afterwards."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dirge_py.cli.demo.play import Demo
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

    assert conversation.messages[-1].text == demo.no_more
    assert conversation.cost_usd == 0
    assert "`dirge config init`" in demo.no_more


def test_demo_from_a_clone_names_the_program_by_its_path(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = home / "clone" / ".venv" / "bin" / "dirge"
    program.parent.mkdir(parents=True)
    program.touch()
    monkeypatch.setattr("sys.argv", [str(program), "demo"])
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    with closing(Demo()) as demo:
        assert "with `~/clone/.venv/bin/dirge config init`" in demo.next_step
        assert "run `~/clone/.venv/bin/dirge config init`" in demo.no_more
