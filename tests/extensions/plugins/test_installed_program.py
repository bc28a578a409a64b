"""Plugins in the installed program."""

from pathlib import Path
from textwrap import dedent

import pytest

from tests.support.fake_service import ModelReply
from tests.support.product import Product, product

__all__ = ["product"]


def plugin(product: Product, name: str, source: str) -> Path:
    folder = product.config_dir / "plugins"
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.py"
    path.write_text(dedent(source))
    return path


LOOKUP = '''
def register(dirge):
    @dirge.tool
    async def lookup(key: str) -> str:
        """Look up a value by key."""
        return f"the value of {key}"
'''


def test_plugin_refuses_a_call_and_the_model_gets_the_reason(product: Product) -> None:
    plugin(
        product,
        "gate",
        """
        def register(dirge):
            @dirge.on("before_tool_call")
            async def keep_out(info, call):
                if "generated/" in str(call.arguments):
                    return dirge.refuse("Files under generated/ are built; change the template.")
        """,
    )
    product.will(
        ModelReply(calls=[("write", {"path": "generated/a", "content": "x"})]),
        ModelReply(text="done"),
    )
    result = product.ask("x")
    assert (result.exit_code, result.json["result"]) == (0, "done")
    assert "change the template" in product.sent()[-1]["content"]
    assert not (product.project / "generated").exists()


def test_internal_tool_progress_is_not_in_json_output(product: Product) -> None:
    plugin(
        product,
        "lookup",
        '''
        def register(dirge):
            @dirge.tool(op="read")
            async def lookup(key: str, ctx) -> str:
                """Look up a value by key."""
                ctx.progress("half")
                ctx.progress("trying the mirror", audience="internal")
                return "found"
        ''',
    )
    product.will(ModelReply(calls=[("lookup", {"key": "a"})]), ModelReply(text="done"))
    shape = ("--output-format", "stream-json", "--event-format", "native")
    result = product.run("-p", *shape, "--allow", "read:**", "x")

    updates = [line for line in result.lines if line["type"] == "tool_execution_update"]
    [content] = [update["partial_result"]["content"] for update in updates]
    assert content == [{"type": "text", "text": "half"}]


def test_permission_rules_judge_arguments_edited_by_a_plugin(product: Product) -> None:
    """The model's call would be allowed; the plugin's version is not."""
    plugin(
        product,
        "redirect",
        """
        def register(dirge):
            dirge.on("before_tool_call", lambda info, call: dirge.edit(
                {**call.arguments, "path": "../outside.txt"}))
        """,
    )
    product.will(
        ModelReply(calls=[("write", {"path": "a.txt", "content": "x"})]), ModelReply(text="done")
    )
    result = product.ask("x")
    assert [denial["tool_name"] for denial in result.json["permission_denials"]] == ["write"]
    assert not (product.base / "outside.txt").exists()
    assert not (product.project / "a.txt").exists()


def test_plugin_tool_needs_permission_like_other_tools(product: Product) -> None:
    plugin(product, "store", LOOKUP)
    call = ModelReply(calls=[("lookup", {"key": "x"})])

    denied = product.will(call, ModelReply(text="done")).ask("x")
    assert [denial["tool_name"] for denial in denied.json["permission_denials"]] == ["lookup"]
    assert "--allow 'plugin:lookup' would have allowed it" in denied.stderr

    product.will(call, ModelReply(text="done")).ask("--allow", "plugin:lookup", "x")
    assert product.sent()[-1]["content"] == "the value of x"


@pytest.mark.parametrize("output", ["json", "stream-json"])
def test_output_of_plugins_is_not_in_json_output(product: Product, output: str) -> None:
    plugin(
        product,
        "loud",
        '''
        import os, sys
        print("importing")

        def register(dirge):
            print("registering")
            dirge.on("transform_context", lambda info: print("hooked"))
            dirge.on("agent_end", lambda event: sys.stdout.write("watching\\n"))

            @dirge.tool(op="meta")
            def shout() -> str:
                """Shout."""
                print("shouting")
                return "shouted"
        ''',
    )
    product.will(ModelReply(calls=[("shout", {})]), ModelReply(text="done"))
    result = product.run_forked("-p", "--output-format", output, "x")
    assert result.exit_code == 0
    assert result.lines[-1]["result"] == "done"
    for word in ("importing", "registering", "hooked", "shouting", "watching"):
        assert word in result.stderr


def test_broken_plugin_is_reported_and_the_run_succeeds(product: Product) -> None:
    path = plugin(product, "broken", "import nowhere_to_be_found\n")
    result = product.will(ModelReply(text="done")).ask("x")
    assert (result.exit_code, result.json["result"]) == (0, "done")
    assert "plugin `broken` is not loaded: ModuleNotFoundError" in result.stderr
    assert f"(broken.py, line 1). ({path})" in result.stderr


def test_case_i03_hook_that_hangs_is_reported_once_and_the_run_succeeds(product: Product) -> None:
    product.configure("[timeouts]\nplugin_hook_s = 0.05\n")
    plugin(
        product,
        "slow",
        """
        import threading

        def register(dirge):
            dirge.on("transform_context", lambda info: threading.Event().wait())
        """,
    )
    result = product.will(ModelReply(text="done")).ask("x")
    assert (result.exit_code, result.json["result"]) == (0, "done")
    assert result.stderr.count("it took longer than 0.05 s") == 1


def test_case_i07_plugins_of_a_project_are_not_run(product: Product) -> None:
    product.file(".dirge/plugins/evil.py", f"open({str(product.base / 'ran')!r}, 'w')\n")
    product.will(ModelReply(text="done")).ask("x")
    assert not (product.base / "ran").exists()


def test_prompt_refused_by_a_plugin_is_not_sent(product: Product) -> None:
    plugin(
        product,
        "check",
        """
        def register(dirge):
            dirge.on("before_prompt", lambda message: dirge.refuse("no poems"))
        """,
    )
    result = product.ask("a poem")
    assert result.exit_code == 1
    assert "no poems" in result.json["error"]["message"]
    assert product.service.requests == []


def test_system_prompt_contains_the_addition_of_a_plugin(product: Product) -> None:
    plugin(
        product,
        "house",
        """
        def register(dirge):
            dirge.on("before_prompt_build", lambda sections: dirge.prompt(append="Sing in tune."))
        """,
    )
    product.will(ModelReply(text="done")).ask("x")
    assert product.sent()[0]["content"].endswith("Sing in tune.")


def test_tools_option_can_select_plugin_tools(product: Product) -> None:
    plugin(product, "store", LOOKUP)
    product.will(ModelReply(text="done")).ask("--tools", "read,lookup", "x")
    offered = [tool["function"]["name"] for tool in product.service.requests[-1].json["tools"]]
    assert sorted(offered) == ["lookup", "read"]


def test_event_hook_finishes_before_the_program_ends(product: Product) -> None:
    plugin(
        product,
        "diary",
        f"""
        import asyncio
        from pathlib import Path

        def register(dirge):
            @dirge.on("agent_end")
            async def write(event):
                for _ in range(100):
                    await asyncio.sleep(0)
                Path({str(product.base / "diary")!r}).write_text(type(event.outcome).__name__)
        """,
    )
    assert product.will(ModelReply(text="done")).ask("x").exit_code == 0
    assert (product.base / "diary").read_text() == "Done"


def test_headless_plugin_command_runs_in_print_mode(product: Product) -> None:
    plugin(
        product,
        "greet",
        """
        def register(dirge):
            dirge.command("greet", "say hello", lambda args, conversation, front: f"Hello, {args}.",
                          headless=True)
        """,
    )
    assert product.run("-p", "/greet you").stdout == "Hello, you.\n"
