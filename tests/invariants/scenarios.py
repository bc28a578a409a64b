"""Random scenarios: what a model, a user, a plugin or a judge does to a conversation."""

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from dirge_py.providers.scripted import Reply
from dirge_py.types.errors import ProviderError
from dirge_py.types.hooks import Defer, EditArgs, ToolOverride
from dirge_py.types.llm import CompactionDone, StreamDone, TextDelta, ToolCallDelta
from dirge_py.types.messages import Usage
from dirge_py.types.questions import PermissionAnswer

WINDOW = 60_000
TRIPWIRE = "TRIPWIRE"

GOOD_SUMMARY = "## Active task\nGo on.\n## Goal\nShip it.\n## Completed actions\n1. Read a file."
HOOKS = (
    "transform_context", "convert_to_llm", "before_tool_call", "after_tool_call",
    "prepare_next_turn", "should_stop_after_turn", "get_steering_messages",
    "get_followup_messages", "get_api_key",
)  # fmt: skip
DEEDS = (
    "raise", "exit", "cancel", "garbage", "stop", "finalize", "abort", "interject", "hang", "cling",
    "scramble", "replace",
)  # fmt: skip
PLUGIN_POINTS = (*HOOKS, "before_prompt", "on_compact", "around_tool", "message_end", "turn_end")
PLUGIN_DEEDS = ("raise", "exit", "cancel", "garbage", "stop", "hang", "scramble")

CALLS = (
    ("read", {"path": "a.py"}),
    ("read", {"path": "a.py"}),
    ("read", {"path": "long.txt"}),
    ("read", {"path": "gone.py"}),
    ("edit", {"path": "a.py", "old_text": "1", "new_text": "2"}),
    ("write", {"path": "b.py", "content": f"{TRIPWIRE} = 1\n"}),
    ("write", '{"path": "c.py", "content": "half a'),
    ("read", '{"path": "a.py"'),
    ("read", "[1]"),
    ("read", None),
    ("todo", {"items": [{"id": "1", "text": "one"}]}),
    ("nope", {}),
    ("faulty", {}),
    ("again", {}),
    ("steps", {}),
    ("stuck", {}),
)
USAGES = (
    None,
    Usage(input=900, output=10),
    Usage(input=20_000, output=400, cache_read=10_000),
    Usage(input=int(WINDOW * 0.77), output=5),
    Usage(input=int(WINDOW * 0.95), output=5),
)
ERRORS = (
    ProviderError("gone", kind="network"),
    ProviderError("slow down", kind="rate_limit"),
    ProviderError("no key", kind="auth"),
    ProviderError("prompt is too long", kind="context_length"),
    ProviderError("odd", kind="other"),
)
STREAMS = (
    (TextDelta("half"), ToolCallDelta(key="k", id="cut", name="read")),
    (),
    (TextDelta("paused"), StreamDone(stop_reason="pause_turn")),
    (CompactionDone(data={"type": "compaction"}, text="x"), StreamDone(stop_reason="compaction")),
    (ToolCallDelta(key="k", name=""), StreamDone()),
    (TextDelta("odd"), ToolCallDelta(key="", name="read", arguments="{}")),
)
ANSWERS = (
    PermissionAnswer(effect="allow"),
    PermissionAnswer(effect="allow", remember="session"),
    PermissionAnswer(effect="deny", comment="not now"),
    PermissionAnswer(effect="defer"),
    PermissionAnswer(effect="abort"),
    "raise",
    "hang",
)


@dataclass
class Scenario:
    """Everything that will happen; each list is consumed from its end.

    `prompts` are the runs. `typed` comes in while they go on, at every so many events; `ends_at` is
    an event at which somebody ends it all, in the way of `ends_by`. `hooks` and `plugin` say what
    happens at a hook when it is called. `ways` are those of the runs, `goes_on` is how one that
    waits is gone on with.
    """

    config: str
    prompts: list[str]
    replies: list[Reply]
    judgements: list[Any]
    summaries: list[Any]
    answers: list[Any]
    typed: list[tuple[str, str]]
    ends_at: int | None
    ends_by: str
    hooks: dict[str, list[str]]
    before: list[Any]
    plugin: dict[str, list[str]]
    ways: list[str]
    goes_on: list[str]


def configured(
    mode: str, rules: list[tuple[str, str, str]], limit: str, turns: int, bits: int
) -> str:
    """Settings with every guard on."""
    text = f"""
[roles]
critic = "fake/critic"
summarize = "fake/summary"
escalate = "fake/strong"
[loop]
max_turns = {turns}
steering = "{"all" if bits & 1 else "one-at-a-time"}"
recoveries = {bits % 4}
scavenge = {"true" if bits & 2 else "false"}
[loop.gates]
failures = 2
depth = 3
critic = "{"blocking" if bits & 4 else "advisory"}"
{'goal = "The tests pass."' if bits & 8 else ""}
goal_checks = 2
[loop.storm]
threshold = {2 + (bits & 1)}
window = 4
[limits]
{limit}
[context]
window_tokens = {WINDOW}
keep_results = 1
keep_messages = 2
[tools]
execution = "{"parallel" if bits & 16 else "sequential"}"
result_budget_chars = 2000
retries = 1
[timeouts]
plugin_hook_s = 0.02
tools = {{ stuck = 0.05 }}
[permission]
mode = "{mode}"
[[guardrail]]
on = ["input", "tool_result"]
pattern = "{TRIPWIRE}"
action = "{"trip" if bits & 2 else "warn"}"
[[guardrail]]
on = "output"
pattern = "{TRIPWIRE}"
[[reminder]]
every_turns = 2
text = "Mind the tests."
"""
    for op, match, effect in rules:
        text += f'[[permission.rule]]\nop = "{op}"\nmatch = "{match}"\neffect = "{effect}"\n'
    return text


def some(*values: Any, most: int) -> Any:
    return st.lists(st.sampled_from(values), max_size=most)


def deeds(points: tuple[str, ...], known: tuple[str, ...]) -> Any:
    doings = st.lists(st.sampled_from(("", "", *known)), min_size=1, max_size=4)
    return st.dictionaries(st.sampled_from(points), doings, max_size=2)


def model_replies(**more: Any) -> Any:
    return st.builds(
        Reply,
        text=st.sampled_from(["", "words", "words", f"a {TRIPWIRE} of words"]),
        thinking=st.sampled_from(["", "hm"]),
        usage=st.sampled_from(USAGES),
        chunk_chars=st.sampled_from([0, 5]),
        **more,
    )


_calls = st.lists(st.sampled_from(CALLS), min_size=1, max_size=3)
_calling = model_replies(calls=_calls)
_odd_end = model_replies(
    calls=_calls, stop_reason=st.sampled_from(["length", "stop", "pause_turn"])
)
_broken = st.builds(Reply, text=st.sampled_from(["", "words"]), error=st.sampled_from(ERRORS))
_odd = st.builds(Reply, events=st.sampled_from(STREAMS))
_texts = st.uuids().map(str)

configurations = st.builds(
    configured,
    mode=st.sampled_from(["standard", "accept", "restrictive", "plan", "yolo", "yolo"]),
    rules=st.lists(
        st.tuples(
            st.sampled_from(["read", "edit", "plugin", "*"]),
            st.sampled_from(["**", "a.py", "long.txt"]),
            st.sampled_from(["allow", "ask", "deny"]),
        ),
        max_size=3,
    ),
    limit=st.sampled_from(
        ["", "", "requests = 3", "tool_calls = 2", "output_tokens = 500", "cost_usd = 0.1"]
    ),
    turns=st.sampled_from([2, 6, 30]),
    bits=st.integers(0, 31),
)
scenarios = st.builds(
    Scenario,
    config=configurations,
    prompts=st.lists(_texts, min_size=1, max_size=3),
    replies=st.lists(
        st.one_of(_calling, _calling, _calling, _calling, _odd_end, model_replies(), _broken, _odd),
        min_size=2,
        max_size=10,
    ),
    judgements=some(
        "COMPLETE", "INCOMPLETE\n- a test", "UNMET\n- a test", "", ProviderError("no judge"), most=4
    ),
    summaries=some(GOOD_SUMMARY, GOOD_SUMMARY, "nothing", ProviderError("none"), most=3),
    answers=some(*ANSWERS, most=4),
    typed=st.lists(
        st.tuples(
            st.sampled_from(["steer", "follow_up"]), _texts | _texts.map(lambda t: f"{t} TRIPWIRE")
        ),
        max_size=3,
    ),
    ends_at=st.none() | st.integers(1, 80),
    ends_by=st.sampled_from(["abort", "abort", "interject", "close"]),
    hooks=deeds(HOOKS, DEEDS),
    before=some(
        ToolOverride("no"),
        EditArgs({"path": "a.py"}),
        EditArgs({"n": object()}),
        Defer("?"),
        most=2,
    ),
    plugin=deeds(PLUGIN_POINTS, PLUGIN_DEEDS),
    ways=st.lists(st.sampled_from(["", "single", "compact"]), min_size=3, max_size=3),
    goes_on=some("allow", "reject", "continue", "prompt", most=3),
)
