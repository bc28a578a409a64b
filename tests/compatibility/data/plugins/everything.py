"""A plugin that uses every name that a plugin may use, and writes down what it was asked.

[plugins.everything]
log = "/a/file"                        # one line for each point that was asked or told
"""

import dataclasses
from pathlib import Path
from typing import Annotated

from dirge_py import Hints, ModelRetry, ToolContext, ToolFailed
from dirge_py.agent_loop.hooks import AfterToolCallResult, TurnUpdate
from dirge_py.messages import TextBlock, user_text

EVENTS = (
    "agent_start", "agent_end", "turn_start", "turn_end", "message_start", "message_update",
    "message_end", "tool_execution_start", "tool_execution_update", "tool_execution_end", "usage",
    "retry_notice", "compaction_started", "context_compacted", "context_replaced",
    "history_moved", "escalation_activated", "phase", "evidence", "repair_stats", "system_notice",
    "permission_asked", "permission_answered",
)  # fmt: skip


def register(dirge):
    log = Path(dirge.settings["log"])
    followed = []

    def note(*words):
        with log.open("a") as file:
            file.write(" ".join(map(str, words)) + "\n")

    note("registered", dirge.name)
    dirge.log.debug("registering")

    # -- in the loop

    @dirge.on("transform_context")
    def transform_context(info):
        note("transform_context", info.turn, info.outer_turn, bool(info.run_id))
        told = user_text("The plugin was here.")
        return dataclasses.replace(info.context, messages=[*info.context.messages, told])

    @dirge.on("convert_to_llm")
    async def convert_to_llm(info, messages):
        note("convert_to_llm", len(messages) > 0)
        return messages

    @dirge.on("before_tool_call")
    def before_tool_call(info, call):
        note("before_tool_call", call.name, [claim.op for claim in call.tool.claims(call.arguments)])
        if call.name == "bash" and "refuse me" in call.arguments["command"]:
            return dirge.refuse("The plugin refuses this.")
        if call.name == "bash" and "edit me" in call.arguments["command"]:
            return dirge.edit({"command": "echo edited"})
        if call.name == "bash" and "defer me" in call.arguments["command"]:
            return dirge.defer("The plugin wants a person to look.")
        return None

    @dirge.on("after_tool_call")
    def after_tool_call(info, call, result):
        note("after_tool_call", call.name, result.is_error)
        if call.name == "measure":
            return AfterToolCallResult(
                content=(TextBlock(text=f"{result.text} (seen by a plugin)"),)
            )
        return None

    @dirge.on("prepare_next_turn")
    def prepare_next_turn(info):
        note("prepare_next_turn", len(info.calls), len(info.tool_results), info.wants_more)
        return TurnUpdate(thinking_level="off")

    @dirge.on("should_stop_after_turn")
    def should_stop_after_turn(info):
        note("should_stop_after_turn", info.usage_total.input > 0, info.ended_by)
        return False

    @dirge.on("get_steering_messages")
    def get_steering_messages(info):
        note("get_steering_messages", info.signal.aborted)

    @dirge.on("get_followup_messages")
    def get_followup_messages(info, so_far):
        note("get_followup_messages")
        if followed:
            return None
        followed.append(True)
        return "The plugin wants one more word."

    @dirge.on("get_api_key")
    def get_api_key(provider):
        note("get_api_key", provider)

    # -- around the loop

    @dirge.on("before_prompt")
    def before_prompt(message):
        note("before_prompt", message.text)
        if "refuse this prompt" in message.text:
            return dirge.refuse("The plugin refuses the prompt.")
        if "stop this prompt" in message.text:
            return dirge.stop("The plugin stops.")
        return None

    @dirge.on("before_prompt_build")
    def before_prompt_build(sections):
        note("before_prompt_build", len(sections) > 0)
        return dirge.prompt(prepend="The plugin goes first.", append="The plugin goes last.")

    @dirge.on("on_compact")
    def on_compact(prompt, budget_tokens):
        note("on_compact", len(prompt) > 0, budget_tokens > 0)

    # -- events, and around tools

    def tell_of(point):
        def told(event):
            ended = type(event.outcome).__name__ if point == "agent_end" else ""
            note("event", point, ended)

        return told

    for point in EVENTS:
        dirge.on(point, tell_of(point))

    @dirge.around_tool
    async def around_all(call, proceed):
        note("around_all", call.name)
        return await proceed()

    @dirge.around_tool("measure")
    async def around_measure(call, proceed):
        note("around_measure", call.name)
        return await proceed()

    # -- tools, commands, keys

    async def around_it(call, proceed):
        note("around_it", call.name)
        return await proceed()

    unused = dirge.around_tool("bash", around_it)
    unused.close()

    @dirge.tool(
        name="measure",
        op="read",
        resource="path",
        mode="parallel",
        timeout_s=30,
        hints=Hints(read_only=True, idempotent=True),
        available=lambda: True,
        around=[around_it],
    )
    def measure_file(ctx: ToolContext, path: Annotated[str, "A file."]) -> str:
        """Measure a file."""
        ctx.progress("measuring", 1, 1)
        if path == "retry":
            raise ModelRetry("Name a file.")
        file = Path(ctx.cwd, path)
        if ctx.signal.aborted or not file.is_file():
            raise ToolFailed(f"{path} is no file.")
        note("measure", bool(ctx.call_id), bool(ctx.session_id), ctx.budget_chars > 0)
        return f"{path} has {len(file.read_text())} characters"

    @dirge.tool
    def wish(text: str) -> str:
        """Wish for something."""
        return f"wished for {text}"

    @dirge.command("everything", help="what was noted", usage="[WORDS]", headless=True)
    def everything(args, conversation, front):
        dirge.notify("the command was run")
        return f"everything: {args}"

    @dirge.command("now", help="works during a run", while_running=True)
    async def now(args, conversation, front):
        return "now"

    dirge.key("f7", "/everything f7", help="note it")

    def by_key(args, conversation, front):
        note("by_key")

    dirge.key("ctrl+x j", by_key, help="note the key")
