"""Whatever plugins do, a run keeps the event grammar, answers each call once, and ends."""

import asyncio
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.extensions.plugins.registration import EVENT_POINTS
from dirge_py.testing import ScriptedModel, assert_balanced
from dirge_py.types.hooks import HOOK_NAMES, Context, Defer, EditArgs, ToolOverride, TurnUpdate
from dirge_py.types.messages import ToolResultMessage
from dirge_py.types.outcomes import AwaitingConfirmation, Done, HookTerminated
from tests.support.loop_runs import Tool
from tests.support.plugins import PluginFolder, run_with

_NEVER = 0.01

DEEDS = ("nothing", "raises", "exits", "hangs", "stops", "cancels", "garbage", "answers")
ANSWERS = (
    ToolOverride("no"),
    Defer("who knows"),
    EditArgs({}),
    EditArgs("x"),
    Context(),
    TurnUpdate(),
)  # type: ignore[arg-type]


def hook(dirge: Any, deed: str, answer: Any) -> Any:
    async def deeds(*_: Any) -> Any:
        match deed:
            case "raises":
                raise LookupError("nothing")
            case "exits":
                raise SystemExit(3)
            case "hangs":
                await asyncio.Event().wait()
            case "stops":
                return dirge.stop("enough")
            case "cancels":
                raise asyncio.CancelledError
            case "garbage":
                return object()
            case "answers":
                return answer
        return None

    return deeds


plugins = st.lists(
    st.tuples(
        st.sampled_from((*HOOK_NAMES, "around_tool", *EVENT_POINTS)),
        st.sampled_from(DEEDS),
        st.sampled_from(ANSWERS),
    ),
    max_size=4,
)


@settings(max_examples=40, deadline=None)
@given(plugins)
def test_random_plugins_never_break_the_invariants_of_a_run(
    hooks: list[tuple[str, str, Any]],
) -> None:
    asyncio.run(one_run(hooks))


async def one_run(hooks: list[tuple[str, str, Any]]) -> None:
    plugin_folder = PluginFolder(Path())
    for number, (point, deed, answer) in enumerate(hooks):

        def register(dirge: Any, point: str = point, deed: str = deed, a: Any = answer) -> None:
            fn = hook(dirge, deed, a)
            if point == "around_tool":
                dirge.around_tool(fn)
            else:
                dirge.on(point, fn)

        plugin_folder.add(f"p{number}", register)
    host = plugin_folder.host(limit_s=_NEVER)
    assert host.notices() == ()
    model = ScriptedModel().will_call_all(("echo", {}), ("echo", {})).will_say("done")
    # `run_with` checks the event grammar.
    came = await run_with(host, model, tools=[Tool()])
    await host.close()
    assert isinstance(came.outcome, Done | HookTerminated | AwaitingConfirmation)
    if not isinstance(came.outcome, AwaitingConfirmation):
        assert_balanced(came.new)
        answered = [m.tool_call_id for m in came.new if isinstance(m, ToolResultMessage)]
        assert len(answered) == len(set(answered))
