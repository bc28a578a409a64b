"""The scripted models of both demos.

Their last words, and the verdict of the plan's reviewer, depend on what the tests really said:
nothing here knows how they end.
"""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace

from dirge_py.providers.scripted import Reply, ReplyMaker, Script
from dirge_py.types.abort import AbortSignal
from dirge_py.types.events import LoopEvent, PlanPhase
from dirge_py.types.llm import LlmContext, StreamEvent, StreamOptions
from dirge_py.types.messages import ToolResultMessage, Usage

PROMPT = "The tests of this project fail. Find out why, fix it, and show me that they pass."
TEST_COMMAND = "python3 -m unittest"
REQUEST = (
    "Add `top_words(text, n)` to textstats: the n most frequent words with their counts, the "
    "most frequent first, of equally frequent ones the first in the text. Case does not matter. "
    "Its tests are in test_top_words.py. Name it in the README, too."
)
QUICK_CHECK = f"{TEST_COMMAND} -k counts"
_USAGE = Usage(input=2400, output=120, cache_read=1100)
_CASE = "case does not matter"
_README = "the README names it"
_README_CHECK = "grep -q top_words README.md"
_REQUIREMENTS = (
    "`top_words(text, n)` gives the n most frequent words with their counts",
    _CASE,
    "of equally frequent words the first in the text comes first",
    "the tests of before still pass",
    _README,
)
_FINDINGS = """\
## What is there

- `textstats.py:4`: `words(text)` splits a text and takes the punctuation off. `longest_word` \
(`:10`) and `average_length` (`:19`) build on it, and so can `top_words`.
- `test_top_words.py`: four tests. One of them wants `("the", 3)` for "The sea, the bell, THE \
dirge": counts are of words in lower case.
- `README.md:3` lists the functions.

## Checks

`python3 -m unittest` runs all tests (`README.md:5`); nothing needs to be installed.

## Risks

`words` keeps the case of the text."""
_PLAN = """\
## Name

The most frequent words

## Context

textstats tells about single words, but not which ones a text is made of.

## Files

- `textstats.py` (modified)
- `README.md` (modified)

## Steps

1. Add `top_words(text: str, n: int) -> list[tuple[str, int]]` to `textstats.py`: count the \
words in lower case. A `dict` keeps the order of the text, `sorted` is stable: ties stay in it.
2. Name `top_words` in `README.md`.
3. Verify: `python3 -m unittest`
"""
_FIRST_VERSION = '''

def top_words(text: str, n: int) -> list[tuple[str, int]]:
    """The n most frequent words of `text` with their counts, the first of several first."""
    counts: dict[str, int] = {}
    for word in words(text):
        counts[word] = counts.get(word, 0) + 1
    return sorted(counts.items(), key=lambda item: -item[1])[:n]
'''
_LAST_LINE = "    return sum(map(len, found)) / len(found) if found else 0.0\n"


def demo_script(*, is_paced: bool) -> Script:
    """The replies; `paced` ones come as slowly as a person can follow."""
    replies: list[Reply | ReplyMaker] = [*_working_replies(), _closing_reply]
    return Script([paced(reply) for reply in replies] if is_paced else replies)


def _working_replies() -> list[Reply]:
    return [
        Reply(
            thinking="I do not know this project yet. Look first, then run its tests.",
            text="I'll look at the project and run its tests.",
            calls=[("list_dir", {"path": "."}), ("bash", {"command": TEST_COMMAND})],
            usage=Usage(input=1450, output=64),
        ),
        Reply(
            text="One test fails: for words of equal length the last one wins. "
            "I'll read the function and its test.",
            calls=[
                ("read", {"path": "textstats.py"}),
                ("grep", {"pattern": "longest_word", "path": "."}),
            ],
            usage=Usage(input=1980, output=71, cache_read=1450),
        ),
        Reply(
            text="`>=` lets every later word of the same length replace the first. "
            "It has to be `>`.",
            calls=[
                (
                    "edit",
                    {
                        "path": "textstats.py",
                        "old_text": "        if len(word) >= len(longest):",
                        "new_text": "        if len(word) > len(longest):",
                    },
                )
            ],
            usage=Usage(input=2710, output=96, cache_read=1980),
        ),
        Reply(
            text="Now the tests again.",
            calls=[("bash", {"command": TEST_COMMAND})],
            usage=Usage(input=2890, output=38, cache_read=2710),
        ),
    ]


def _closing_reply(context: LlmContext) -> Reply:
    return Reply(text=_closing_words(context), usage=Usage(input=3010, output=83))


def paced(reply: Reply | ReplyMaker) -> Reply | ReplyMaker:
    """The reply, as slowly as a person can follow."""
    if isinstance(reply, Reply):
        return replace(reply, chunk_chars=3, pause_s=0.015)
    return lambda context: replace(reply(context), chunk_chars=3, pause_s=0.015)


def tests_passed(context: LlmContext) -> bool:
    """Whether the last command of this conversation was the tests, and they passed."""
    results = [m for m in context.messages if isinstance(m, ToolResultMessage)]
    last = results[-1] if results else None
    return (
        last is not None
        and last.details.get("command") == TEST_COMMAND
        and last.details.get("exit_code") == 0
    )


def _closing_words(context: LlmContext) -> str:
    if tests_passed(context):
        return (
            "Fixed: `longest_word` in `textstats.py` compared with `>=`, so of several equally "
            "long words the last one won instead of the first. It compares with `>` now.\n\n"
            "All tests pass (`python3 -m unittest`). Nothing else was changed."
        )
    return (
        "I changed the comparison in `longest_word`, but the tests did not pass here: see the "
        "last command above."
    )


class PlanScript:
    """Plays the model in whatever phase a plan is in: tell it of the plan's events.

    A phase begins its part anew, so that it may be planned again, or gone on with later.
    """

    def __init__(self, *, is_paced: bool) -> None:
        self._is_paced = is_paced
        self._replies: list[Reply | ReplyMaker] = []

    def sink(self, event: LoopEvent) -> None:
        if isinstance(event, PlanPhase) and event.state == "started":
            self._replies = list(_part(event))

    async def stream(
        self, context: LlmContext, options: StreamOptions, signal: AbortSignal
    ) -> AsyncIterator[StreamEvent]:
        """The next reply of this phase."""
        reply = self._replies.pop(0) if self._replies else Reply(text="My script ends here.")
        script = Script([paced(reply) if self._is_paced else reply])
        async for event in script.stream(context, options, signal):
            yield event


def _part(phase: PlanPhase) -> Sequence[Reply | ReplyMaker]:
    match phase.phase:
        case "explore":
            return _exploring()
        case "plan":
            return [Reply(text=_PLAN, usage=_USAGE)]
        case "implement":
            return _implementing() if phase.step == 1 else _mending()
        case "review":
            return _reviewing()


def _exploring() -> Sequence[Reply]:
    return [
        Reply(
            text="What is there to build on, and what do the tests ask for?",
            calls=[
                ("list_dir", {"path": "."}),
                ("bash", {"command": "wc -l textstats.py test_top_words.py"}),
            ],
            usage=_USAGE,
        ),
        Reply(
            calls=[
                ("read", {"path": "textstats.py"}),
                ("grep", {"pattern": "top_words", "path": "."}),
            ],
            usage=_USAGE,
        ),
        Reply(text=_FINDINGS, usage=_USAGE),
    ]


def _implementing() -> Sequence[Reply]:
    return [
        Reply(
            text="First the function.",
            calls=[
                ("read", {"path": "textstats.py"}),
                ("read", {"path": "README.md"}),
            ],
            usage=_USAGE,
        ),
        Reply(
            calls=[
                (
                    "edit",
                    {
                        "path": "textstats.py",
                        "old_text": _LAST_LINE,
                        "new_text": _LAST_LINE + _FIRST_VERSION,
                    },
                ),
                (
                    "edit",
                    {
                        "path": "README.md",
                        "old_text": "`average_length`.",
                        "new_text": "`average_length`, `top_words`.",
                    },
                ),
            ],
            usage=_USAGE,
        ),
        Reply(
            text="A quick look whether it counts.",
            calls=[("bash", {"command": QUICK_CHECK}), _todo_update("1", "2", "3")],
            usage=_USAGE,
        ),
        Reply(text="`top_words` is there, and its test passes. Everything is done.", usage=_USAGE),
    ]


def _mending() -> Sequence[Reply]:
    return [
        Reply(
            text="The review is right: `words` keeps the case, so `The` and `the` were two words.",
            calls=[
                (
                    "edit",
                    {
                        "path": "textstats.py",
                        "old_text": "    for word in words(text):\n        counts[word]",
                        "new_text": "    for word in words(text.lower()):\n        counts[word]",
                    },
                )
            ],
            usage=_USAGE,
        ),
        Reply(calls=[("bash", {"command": TEST_COMMAND})], usage=_USAGE),
        Reply(text="Words are counted in lower case now. All tests pass.", usage=_USAGE),
    ]


def _reviewing() -> Sequence[Reply | ReplyMaker]:
    return [
        Reply(
            text="What was asked for, and does it hold? The tests of the project, all of them.",
            calls=[
                ("read", {"path": "textstats.py"}),
                ("bash", {"command": _README_CHECK}),
                ("bash", {"command": TEST_COMMAND}),
            ],
            usage=_USAGE,
        ),
        _verdict,
    ]


def _verdict(context: LlmContext) -> Reply:
    """DONE where the tests really passed in this review, else what to do."""
    if tests_passed(context):
        return _judged(
            "All tests pass, those of before and the four new ones.",
            dict.fromkeys(_REQUIREMENTS, "verified"),
        )
    if not _have_run(context):
        return _judged(
            "The tests could not be run here.",
            dict.fromkeys(_REQUIREMENTS, "cannot_verify"),
            missing="Nothing shows that it works: the tests could not be run.",
        )
    return _judged(
        "The implementer ran one test. Run as a whole they fail: `The`, `the` and `THE` are "
        "counted as three words.",
        {**dict.fromkeys(_REQUIREMENTS, "verified"), _CASE: "not_verified"},
        missing="`top_words` has to count words whatever their case: count the words of "
        "`text.lower()`. test_case_does_not_matter fails.",
    )


def _judged(words: str, statuses: Mapping[str, str], *, missing: str = "") -> Reply:
    checklist = [
        {
            "requirement": requirement,
            "status": status,
            "evidence": _README_CHECK if requirement == _README else TEST_COMMAND,
        }
        for requirement, status in statuses.items()
    ]
    verdict = {
        "verdict": "NEEDS_FIX" if missing else "DONE",
        "checklist": checklist,
        "missing": missing,
    }
    block = json.dumps(verdict, indent=2)
    return Reply(text=f"{words}\n\n```json\n{block}\n```", usage=_USAGE)


def _have_run(context: LlmContext) -> bool:
    """Whether the last command came to an end by itself."""
    results = [m for m in context.messages if isinstance(m, ToolResultMessage)]
    return bool(results) and isinstance(results[-1].details.get("exit_code"), int)


def _todo_update(*ids: str) -> tuple[str, object]:
    """The call that ticks these items of the todo list off."""
    return "todo", {"merge": True, "items": [{"id": item, "status": "done"} for item in ids]}
