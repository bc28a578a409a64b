"""What the scripted model of the demo says. Its last words depend on what the tests really said."""

from dataclasses import replace

from dirge_py.providers.scripted import Reply, ReplyMaker, Script
from dirge_py.types.llm import LlmContext
from dirge_py.types.messages import ToolResultMessage, Usage

PROMPT = "The tests of this project fail. Find out why, fix it, and show me that they pass."
TEST_COMMAND = "python3 -m unittest"


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
