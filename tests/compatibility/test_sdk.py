"""Programs for an earlier version's library run: its documented examples and names."""

import ast
import asyncio
import importlib
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import dirge_py
from dirge_py import Agent
from tests.compatibility.model_service import says
from tests.compatibility.old_homes import DATA, OldHome

Homes = Callable[[str], OldHome]
PAGES = ("sdk", "testing", "durable")
IN_WORDS = {
    "dirge_py.errors": ("ActivityFailed",),
    "dirge_py.agent_loop.hooks": ("BeforeToolCallResult", "TurnInfo"),
    "dirge_py.durable.base": ("ActivityOptions", "DurableContext", "RetryPolicy"),
    "dirge_py.plan.desk": ("Later", "PlanAgain"),
}
"""Names that the pages tell programs of, and import nowhere."""
SURFACE = json.loads((DATA / "surface.json").read_text(encoding="utf-8"))


def blocks(page: str) -> dict[str, str]:
    """The program under each heading of a page."""
    text = (DATA / "scripts" / f"{page}.md").read_text(encoding="utf-8")
    sections = re.split(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {
        title: block
        for title, body in zip(sections[1::2], sections[2::2], strict=True)
        for block in re.findall(r"^```python\n(.*?)^```$", body, re.MULTILINE | re.DOTALL)
    }


def imported() -> Iterator[tuple[str, str]]:
    """The names of the package that pages, plugins and scripts use."""
    yield from ((module, name) for module, names in IN_WORDS.items() for name in names)
    sources = [block for page in PAGES for block in blocks(page).values()]
    sources += [path.read_text(encoding="utf-8") for path in sorted(DATA.rglob("*.py.txt"))]
    for source in sources:
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dirge_py"):
                yield from ((node.module or "", alias.name) for alias in node.names)


@pytest.mark.parametrize(("module", "name"), sorted(set(imported())))
def test_former_module_paths_still_import(module: str, name: str) -> None:
    assert hasattr(importlib.import_module(module), name)


def test_every_former_public_name_exists() -> None:
    for name in SURFACE["library"]:
        assert name in dirge_py.__all__
        assert getattr(dirge_py, name) is not None


EXAMPLES: dict[str, tuple[list[Any], tuple[str, ...], str]] = {
    "dirge as a library": (
        [says("", ("count", {"part": "bolts"})), says("There are 12.")],
        (),
        "There are 12. (2 turns)\n",
    ),
    "Answers as data": (
        [says("", ("submit_result", {"findings": [{"file": "a", "line": 1, "what": "No."}]}))],
        (),
        "a:1: No.\n",
    ),
    "Events": ([says("Rain."), says("Snow.")], (), "Rain.Snow.\nDone\n"),
    "Steps": (
        [says("", ("weather", {"city": "Bergen"})), says("Yes.")],
        (),
        "['weather'] ['rain']\nYes.\n",
    ),
    "Turns in several processes": (
        [says("", ("lookup", {"key": "a"}))],
        ("a",),
        "turn 1: 128 tokens so far; call me again\n",
    ),
    "Middleware": (
        [says("", ("ping", {"host": "a"}), ("ping", {"host": "b"})), says("Yes.")],
        (),
        "ping took little\nping took little\n4 messages\n",
    ),
    "Guardrails": (
        [],
        (),
        "not sent: My card is 4111 1111 1111 1111.\n0 messages\n",
    ),
    "A provider of your own": ([], (), "You said: Hello.\n"),
    "A journal, an asker and a clock of your own": (
        [says("", ("ring", {"times": 2})), says("", ("ring", {"times": 1})), says("Rung.")],
        (),
        "asked: ring ['ring']\nRung.\n6 messages, ('plugin:ring',)\n",
    ),
}


@pytest.mark.parametrize("title", EXAMPLES)
def test_programs_of_the_former_sdk_page_run(home: Homes, title: str) -> None:
    plain = home("plain")
    replies, words, last = EXAMPLES[title]
    plain.service.will(*replies)
    assert run_example(plain, title, *words).endswith(last)


def test_deferred_decision_is_made_by_another_process(home: Homes) -> None:
    plain = home("plain")
    plain.service.will(says("", ("deploy", {"host": "staging"})), says("Done."))
    title = "Decisions later"
    assert run_example(plain, title, "begin").startswith("waits: ")
    assert run_example(plain, title, "yes") == "deployed to staging\n"


def test_program_of_the_former_testing_page_runs(home: Homes) -> None:
    assert run_example(home("plain"), "Testing with a scripted model", page="testing") == ""


def run_example(home: OldHome, title: str, *words: str, page: str = "sdk") -> str:
    script = home.base / "example.py"
    script.write_text(blocks(page)[title], encoding="utf-8")
    return home.run(*words, script=script)


def test_sdk_program_continues_a_session_of_the_product(
    home: Homes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`Agent.from_config()` reads the settings, and the thread is the session."""
    sessions = home("sessions")
    sessions.service.will(says("From a program."))
    for name, value in sessions.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(sessions.project)

    async def main() -> str:
        async with Agent.from_config() as agent:
            return (await agent.run("Go on.", thread="branches")).response

    assert asyncio.run(main()) == "From a program."
    assert sessions.sent_texts[-2:] == ["Another second answer.", "Go on."]
