"""The examples of docs/sdk.md run unchanged, with a scripted service."""

import json
import os
import re
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fake_service import FakeService, ModelReply
from tests.support.forked_process import run_forked

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "sdk.md").read_text(encoding="utf-8")

SECTIONS = re.split(r"^#+ (.+)$", PAGE, flags=re.MULTILINE)
EXAMPLES = {
    title: block
    for title, text in zip(SECTIONS[1::2], SECTIONS[2::2], strict=True)
    for block in re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
}


@pytest.fixture
def service() -> Iterator[FakeService]:
    with FakeService() as service:
        yield service


class Examples:
    """Runs examples in one folder, one after the other."""

    def __init__(self, folder: Path, service: FakeService) -> None:
        self.folder = folder
        self.service = service
        self.shown: set[str] = set()

    def run(self, title: str, *words: str, replies: list[ModelReply] | None = None) -> list[str]:
        """The lines that the example prints."""
        self.service.replies += replies or []
        script = self.folder / "example.py"
        script.write_text(EXAMPLES[title], encoding="utf-8")
        exit_code, stdout, stderr = run_forked(
            _play,
            str(script),
            *words,
            environment={
                "PATH": os.environ["PATH"],
                # A workspace in the home folder itself asks before edits.
                "HOME": str(self.folder.with_name("home")),
                "ANTHROPIC_API_KEY": "sk-example",
                "ANTHROPIC_BASE_URL": self.service.anthropic_url,
            },
            cwd=self.folder,
            patience_s=60,
        )
        assert (exit_code, stderr) == (0, "")
        return stdout.splitlines()


def _play(script: str, *words: str) -> None:
    """What `python SCRIPT WORDS` does."""
    sys.argv[:] = [script, *words]
    runpy.run_path(script, run_name="__main__")


@pytest.fixture
def examples(tmp_path: Path, service: FakeService) -> Examples:
    return Examples(tmp_path, service)


def test_library_example_prints_the_answer(examples: Examples, service: FakeService) -> None:
    output = examples.run(
        "dirge as a library",
        replies=[
            ModelReply(calls=[("count", {"part": "bolts"})]),
            ModelReply(text="There are 12."),
        ],
    )
    assert output == ["There are 12. (2 turns)"]
    assert '"12"' in json.dumps(service.requests[1].json)


def test_structured_output_example_prints_findings(
    examples: Examples, service: FakeService
) -> None:
    findings = [{"file": "a.py", "line": 1, "what": "A comma in a number."}]
    output = examples.run(
        "Answers as data",
        replies=[
            ModelReply(text=json.dumps({"findings": [{**findings[0], "line": 0}]})),
            ModelReply(text=json.dumps({"findings": findings})),
        ],
    )
    assert output == ["a.py:1: A comma in a number."]
    assert service.requests[0].json["output_config"]["format"]["type"] == "json_schema"
    assert "0 is less than the minimum of 1" in json.dumps(service.requests[1].json)


def test_tools_example_calls_a_tool_without_a_model(
    examples: Examples, service: FakeService
) -> None:
    output = examples.run("Calling tools without a model")
    assert output == ["['lookup']", "False A"]
    assert service.requests == []


def test_events_example_prints_text_and_outcome(examples: Examples) -> None:
    output = examples.run(
        "Events", replies=[ModelReply(text="Rain, "), ModelReply(text="snow.", delta_chars=1)]
    )
    assert output == ["Rain, snow.", "Done"]


def test_the_steps_example_steers_between_steps(examples: Examples, service: FakeService) -> None:
    output = examples.run(
        "Steps",
        replies=[ModelReply(calls=[("weather", {"city": "Bergen"})]), ModelReply(text="Yes.")],
    )
    assert output == ["['weather'] ['rain']", "Yes."]
    assert "Answer in one word." in json.dumps(service.requests[1].json)


def test_turns_example_continues_in_three_processes(examples: Examples) -> None:
    title = "Turns in several processes"
    look = ModelReply(calls=[("lookup", {"key": "a"})])

    assert examples.run(title, "Look", "twice.", replies=[look]) == [
        "turn 1: 15 tokens so far; call me again"
    ]
    assert examples.run(title, replies=[look]) == ["turn 2: 30 tokens so far; call me again"]
    assert examples.run(title, replies=[ModelReply(text="A and A.")]) == ["Done"]


def test_plan_example_ends_verified(examples: Examples) -> None:
    (examples.folder / "check.py").write_text("assert open('page.txt').read()\n")
    check = "python3 check.py"
    item = {"requirement": "there is paging", "status": "verified", "evidence": check}
    verdict = json.dumps({"verdict": "DONE", "checklist": [item], "missing": ""})

    output = examples.run(
        "Plans",
        replies=[
            ModelReply(text="Nothing pages yet."),
            ModelReply(text=f"## Name\nPaging\n\n## Steps\n1. Write it.\n2. Verify: `{check}`"),
            ModelReply(calls=[("write", {"path": "page.txt", "content": "1"})]),
            ModelReply(text="Written."),
            ModelReply(calls=[("bash", {"command": check})]),
            ModelReply(text=f"```json\n{verdict}\n```"),
        ],
    )

    assert output[0] == f"Paging in 2 steps, verified by ('{check}',)"
    assert output[-1] == "verified"


@pytest.mark.parametrize(
    ("word", "answer"), [("yes", "deployed to staging"), ("no", "Rejected: not on a Friday")]
)
def test_decisions_example_waits_and_resumes(examples: Examples, word: str, answer: str) -> None:
    title = "Decisions later"
    waits = examples.run(title, "go", replies=[ModelReply(calls=[("deploy", {"host": "staging"})])])
    assert [line.split()[:2] for line in waits] == [["waits:", "deploy:"]]
    assert examples.run(title, word) == [answer]


def test_middleware_example_times_calls_and_counts_messages(examples: Examples) -> None:
    output = examples.run(
        "Middleware",
        replies=[
            ModelReply(calls=[("ping", {"host": "a"})]),
            ModelReply(calls=[("ping", {"host": "b"})]),
        ],
    )
    assert output == ["ping took little", "ping took little", "5 messages"]


def test_guardrail_example_sends_no_request(examples: Examples, service: FakeService) -> None:
    output = examples.run("Guardrails")
    assert "it may hold a card number" in output[0]
    assert output[1:] == ["not sent: My card is 4111 1111 1111 1111.", "0 messages"]
    assert service.requests == []


def test_custom_provider_example_prints_the_answer(examples: Examples) -> None:
    assert examples.run("A provider of your own") == ["You said: Hello."]


def test_embedding_example_asks_for_permission_once(examples: Examples) -> None:
    output = examples.run(
        "A journal, an asker and a clock of your own",
        replies=[
            ModelReply(calls=[("ring", {"times": 2})]),
            ModelReply(calls=[("ring", {"times": 1})]),
            ModelReply(text="Rung."),
        ],
    )
    assert output == ["asked: ring ['ring']", "Rung.", "6 messages, ('plugin:ring',)"]


def test_every_example_of_the_page_has_a_test() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    assert len(EXAMPLES) == len(re.findall(r"^```python$", PAGE, re.MULTILINE))
    assert [title for title in EXAMPLES if f'"{title}"' not in source] == []
