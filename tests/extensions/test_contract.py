"""An extension in the list works in each front end."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dirge_py import Agent
from dirge_py.conversation.deps import ForkOptions
from dirge_py.sdk.extensions import EXTENSIONS, ExtensionEntry
from dirge_py.testing import ScriptedModel
from dirge_py.types.errors import LoopError
from dirge_py.types.messages import ToolResultMessage
from tests.extensions import ping_extension
from tests.extensions.ping_extension import Ping
from tests.support.fake_service import ModelReply
from tests.support.product import Product
from tests.support.project import ScriptedProject
from tests.support.terminal import Terminal

LINE = ExtensionEntry("ping", "tests.extensions.ping_extension", lambda config: True)


@pytest.fixture(autouse=True)
def listed() -> Iterator[None]:
    """The list entry of a new extension."""
    EXTENSIONS.append(LINE)
    yield
    EXTENSIONS.remove(LINE)
    ping_extension.MADE.clear()


async def test_extension_works_in_an_sdk_agent() -> None:
    model = ScriptedModel().will_call("ping").will_say("Done.")
    async with Agent(stream_fn=model.stream_fn, mode="yolo") as agent:
        await agent.run("ping")
    [result] = [m for m in model.seen[-1].messages if isinstance(m, ToolResultMessage)]
    assert [block.text for block in result.content] == ["pong", "hooked"]
    assert "Answer every ping." in model.seen[0].system_prompt
    assert model.seen[0].system_prompt.endswith("Ping was here.")
    log = ping_extension.MADE[-1].log
    wrapped = {"around model", "around summary", "around ping"}
    assert {"started", "agent_end", *wrapped} <= {*log}
    assert log.index("run added 4") < log.index("agent_end")
    assert log[-2:] == ["closing", "closed"]


async def test_prompt_refused_by_an_extension_is_not_sent() -> None:
    model = ScriptedModel().will_say("Never.")
    async with Agent(stream_fn=model.stream_fn) as agent:
        with pytest.raises(LoopError, match="no pong, please"):
            await agent.run("pong")
    assert model.seen == []


def test_extension_works_in_print_mode(product: Product) -> None:
    assert product.run("-p", "/ping 1").stdout == "PONG 1\n"
    assert "ping" in product.run("-p", "/status").stdout
    assert "listening" in product.run("-p", "/status").stdout
    product.will(ModelReply(calls=[("ping", {})]), ModelReply(text="Done."))
    result = product.run("-p", "--permission-mode", "yolo", "ping")
    assert result.stdout == "Done.\n"
    messages = product.service.requests[-1].json["messages"]
    assert "Answer every ping." in messages[0]["content"]
    assert "hooked" in str(messages[-1])
    assert "Ping was here." in messages[0]["content"]
    assert "ping is on" in result.stderr
    refused = product.run("-p", "pong")
    assert refused.exit_code != 0 and "no pong, please" in refused.stderr
    assert (product.state_dir / "extensions" / "ping" / "started").exists()
    assert ping_extension.MADE[-1].log[-1] == "closed"


PROGRAM = """
import sys
from dirge_py.cli.main import run
from dirge_py.sdk.extensions import EXTENSIONS, ExtensionEntry
EXTENSIONS.append(ExtensionEntry("ping", "tests.extensions.ping_extension", lambda config: True))
sys.exit(run([]))
"""


def test_extension_works_in_the_terminal_ui(tmp_path: Path) -> None:
    state = tmp_path / "state"
    terminal = Terminal(("-c", PROGRAM), cwd=tmp_path, DIRGE_STATE_DIR=str(state))
    terminal.read_until("ready")
    terminal.press("/ping 2\r")
    terminal.read_until("PONG 2")
    terminal.press("\x1b[20~")  # F9
    terminal.read_until("PONG key")
    terminal.press("/theme\r")
    terminal.read_until("phosphor")
    terminal.read_until("ping")
    assert (state / "extensions" / "ping" / "started").exists()
    terminal.press("\x04")
    terminal.finish()


async def test_fork_gets_only_extensions_allowed_by_their_fork_rule(
    project: ScriptedProject,
) -> None:
    async with project.open() as conversation:
        beside = await conversation.fork(ForkOptions())
        assert beside.extension(Ping) is conversation.extension(Ping)
        elsewhere = await conversation.fork(ForkOptions(workspace="read_only"))
        assert elsewhere.extension(Ping) is None
        await beside.close()
        await elsewhere.close()


def test_only_plan_and_listed_extension_are_enabled_without_settings() -> None:
    assert "tests.extensions.ping_extension" in sys.modules
    assert [entry.name for entry in EXTENSIONS if entry.is_enabled(None)] == ["plan", "ping"]
