"""How often the product asks a tool about one call."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import AfterValidator

from dirge_py import Agent
from dirge_py.testing import ScriptedModel
from dirge_py.tools.arguments import ToolArgs
from dirge_py.tools.base import Tool, ToolContext
from dirge_py.types.tools import Claim

asked: Counter[str] = Counter()


def validate(path: str) -> str:
    asked["validate"] += 1
    return path


class CountedArgs(ToolArgs):
    path: Annotated[str, AfterValidator(validate)]


class CountedTool(Tool[CountedArgs]):
    """A tool that counts what is asked of it."""

    name = label = "counted"
    args = CountedArgs
    description = "Counts."

    def prepare(self, arguments: Any) -> Any:
        asked["prepare"] += 1
        return arguments

    def claims(self, args: CountedArgs, ctx: ToolContext) -> Sequence[Claim]:
        asked["claims"] += 1
        return [Claim("read", ctx.absolute(args.path))]

    async def run(self, args: CountedArgs, ctx: ToolContext) -> str:
        asked["run"] += 1
        return "ok"


async def test_call_is_prepared_validated_and_judged_no_more_often(bounds: dict[str, Any]) -> None:
    asked.clear()
    model = ScriptedModel().will_call("counted", path="a").will_say("Done.")
    async with Agent(stream_fn=model.stream_fn, tools=[CountedTool()], mode="yolo") as agent:
        await agent.run("Count.")
    assert asked["run"] == 1
    most = bounds["tool_call"]
    assert {name: times for name, times in asked.items() if times > most.get(name, 1)} == {}
