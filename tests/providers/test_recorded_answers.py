"""Recorded answers of third-party servers, parsed again.

`recorded/` holds a run of two turns for each wire format: litellm 1.106 in front of aimock 1.43,
for Ollama aimock alone. The requests were taken out.
"""

from pathlib import Path

import pytest

from dirge_py.agent_loop import Context, LoopConfig
from dirge_py.providers.client import HttpClient
from dirge_py.providers.registry import find_provider
from dirge_py.providers.settings import ProviderSettings
from dirge_py.types.messages import AssistantMessage, ThinkingBlock
from dirge_py.types.outcomes import Done
from tests.support.loop_runs import Tool, run_loop
from tests.support.provider_client import KINDS

FOLDER = Path(__file__).parent / "recorded"
SHOWS_THINKING = {"anthropic"}
"""The formats in which the gateway passes on thinking."""


def test_every_wire_format_has_a_recording() -> None:
    assert {file.stem for file in FOLDER.glob("*.jsonl")} == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
async def test_recorded_run_is_parsed_to_same_answers(http: HttpClient, kind: str) -> None:
    settings = ProviderSettings(
        alias="w", type="replay", script=str(FOLDER / f"{kind}.jsonl"), api_key="k"
    )
    tool = Tool(name="read")
    run = await run_loop(
        find_provider("replay").make(settings, http),
        "what does the note say?",
        context=Context(system_prompt="s", tools=[tool]),
        config=LoopConfig(model="w/m", thinking_level="low"),
    )

    assert isinstance(run.outcome, Done), run.outcome
    assert tool.ran == [{"path": "note.txt"}]
    answers = [m for m in run.new if isinstance(m, AssistantMessage)]
    assert [answer.text for answer in answers] == ["Let me look.", "The note says “hï”."]
    assert [answer.stop_reason for answer in answers] == ["toolUse", "stop"]
    thinking = [b.text for b in answers[0].content if isinstance(b, ThinkingBlock) and b.text]
    assert thinking == (["The note is a file."] if kind in SHOWS_THINKING else [])
