"""Plugins outside the loop: prompt checks, the system prompt, summaries."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from dirge_py.types.extensions import Section
from dirge_py.types.messages import UserMessage, user_text
from tests.support.histories import build_prompt
from tests.support.plugins import SHORT_S, PluginFolder

SECTIONS = [
    Section(name="identity", priority=0, text="You are an agent."),
    Section(name="rules", priority=10, text="Keep to the rules."),
]

Register = Callable[[Any], None]


def changing(**change: str) -> Register:
    def register(dirge: Any) -> None:
        dirge.on("before_prompt_build", lambda sections: dirge.prompt(**change))

    return register


def built(plugin_folder: PluginFolder, **options: Any) -> str:
    return build_prompt(SECTIONS, [plugin_folder.host(**options).edit_prompt])


def test_case_a36_a69_each_prompt_change_is_taken_from_the_first_plugin(
    plugin_folder: PluginFolder,
):
    plugin_folder.add("a", changing(append="A behind")).add(
        "b", changing(append="B behind", prepend="B before")
    )
    assert built(plugin_folder) == "B before\n\nYou are an agent.\n\nKeep to the rules.\n\nA behind"


def changing_sections(*changes: dict[str, Any]) -> Register:
    def register(dirge: Any) -> None:
        @dirge.on("before_prompt_build")
        def change(sections: Any) -> Any:
            return dirge.prompt(changes=[dirge.section(**change) for change in changes])

    return register


def test_e03_texts_are_added_before_and_after_a_section_by_priority(plugin_folder: PluginFolder):
    plugin_folder.add(
        "a",
        changing_sections(
            {"name": "rules", "text": "late", "how": "before", "priority": 60},
            {"name": "identity", "text": "A behind"},
        ),
    ).add(
        "b",
        changing_sections(
            {"name": "rules", "text": "early", "how": "before", "priority": 40},
            {"name": "identity", "text": "B behind"},
        ),
    )
    assert built(plugin_folder).split("\n\n") == [
        "You are an agent.",
        "A behind",
        "B behind",
        "early",
        "late",
        "Keep to the rules.",
    ]


def test_e03_plugin_replaces_sections_only_with_allow_override(plugin_folder: PluginFolder):
    plugin_folder.add(
        "bold",
        changing_sections(
            {"name": "rules", "text": "No rules.", "how": "replace", "priority": 10},
            {"name": "rules", "how": "remove"},
            {"name": "identity", "how": "remove"},
        ),
    )
    assert built(plugin_folder) == build_prompt(SECTIONS)
    assert "to replace parts of the prompt set `allow_override = true`" in plugin_folder.notices[0]
    # Of several changes to one section, the one with the lowest priority wins.
    assert built(plugin_folder, settings={"bold": {"allow_override": True}}) == "No rules."


def test_e03_unknown_section_is_reported_and_leaves_the_prompt_unchanged(
    plugin_folder: PluginFolder,
):
    plugin_folder.add("a", changing_sections({"name": "ruls", "text": "x"}))
    assert built(plugin_folder) == build_prompt(SECTIONS)
    text = "the system prompt has no section `ruls`. There are: identity, rules."
    assert text in plugin_folder.notices[0]


def test_system_prompt_is_unchanged_without_plugins(plugin_folder: PluginFolder):
    assert built(plugin_folder) == build_prompt(SECTIONS)


def test_plugin_replaces_the_prompt_only_with_allow_override(plugin_folder: PluginFolder):
    plugin_folder.add("bold", changing(override="Sing."))
    assert built(plugin_folder) == build_prompt(SECTIONS)
    assert "set `allow_override = true` under [plugins.bold]" in plugin_folder.notices[0]
    assert built(plugin_folder, settings={"bold": {"allow_override": True}}) == "Sing."


def test_before_prompt_build_hook_gets_the_sections(plugin_folder: PluginFolder):
    seen: list[Any] = []
    plugin_folder.add(
        "look", lambda d: d.on("before_prompt_build", lambda sections: seen.append(sections))
    )
    built(plugin_folder)
    assert seen == [tuple(SECTIONS)]


async def test_async_hook_can_change_the_prompt(plugin_folder: PluginFolder):
    def register(dirge: Any) -> None:
        @dirge.on("before_prompt_build")
        async def change(sections: Any) -> Any:
            await asyncio.sleep(0)
            return dirge.prompt(append="from a coroutine")

    assert built(plugin_folder.add("a", register)).endswith("from a coroutine")


@pytest.mark.parametrize("kind", ["plain", "async", "garbage", "raises", "stops"])
def test_failing_prompt_hook_leaves_the_prompt_unchanged(plugin_folder: PluginFolder, kind: str):
    released = threading.Event()

    def register(dirge: Any) -> None:
        async def hangs(sections: Any) -> None:
            await asyncio.Event().wait()

        hooks = {
            "plain": lambda sections: released.wait(),
            "async": hangs,
            "garbage": lambda sections: "be nice",
            "raises": lambda sections: 1 / 0,
            "stops": lambda sections: dirge.stop("enough"),
        }
        dirge.on("before_prompt_build", hooks[kind])

    try:
        assert built(plugin_folder.add("odd", register), limit_s=SHORT_S) == build_prompt(SECTIONS)
    finally:
        released.set()
    assert len(plugin_folder.notices) == 1


# -- before a prompt is sent


async def reason(plugin_folder: PluginFolder, text: str = "hello") -> str | None:
    [check] = plugin_folder.host(limit_s=SHORT_S).prompt_checks()
    return await check(user_text(text))


async def test_prompt_is_refused_with_the_reason_of_the_first_plugin(plugin_folder: PluginFolder):
    def refusing(words: str) -> Register:
        def register(dirge: Any) -> None:
            @dirge.on("before_prompt")
            def check(message: UserMessage) -> Any:
                return dirge.refuse(words) if "secret" in message.text else None

        return register

    plugin_folder.add("b", refusing("b says no")).add("a", refusing("a says no"))
    assert await reason(plugin_folder, "a secret") == "a says no"
    assert await reason(plugin_folder, "hello") is None


async def test_stop_in_before_prompt_refuses_the_prompt_with_its_reason(
    plugin_folder: PluginFolder,
):
    plugin_folder.add(
        "a", lambda dirge: dirge.on("before_prompt", lambda message: dirge.stop("enough"))
    )
    assert await reason(plugin_folder) == "enough"


async def test_before_prompt_hook_that_hangs_lets_the_prompt_pass_with_a_notice(
    plugin_folder: PluginFolder,
):
    async def hangs(message: Any) -> None:
        await asyncio.Event().wait()

    plugin_folder.add("a", lambda dirge: dirge.on("before_prompt", hangs))
    assert await reason(plugin_folder) is None
    assert len(plugin_folder.notices) == 1


# -- summaries


async def test_first_nonempty_plugin_summary_replaces_the_models_summary(
    plugin_folder: PluginFolder,
):
    asked: list[tuple[str, int]] = []

    async def model(prompt: str, budget_tokens: int) -> str:
        asked.append((prompt, budget_tokens))
        return "by the model"

    for name, summary in (("a", None), ("b", "  "), ("c", "They sang."), ("d", "never asked")):
        plugin_folder.add(
            name, lambda d, s=summary: d.on("on_compact", lambda prompt, budget_tokens: s)
        )
    assert await plugin_folder.host().around_summary(model)("fold", 100) == "They sang."
    assert asked == []

    plugin_folder.found.clear()
    plugin_folder.add("e", lambda d: d.on("on_compact", lambda prompt, budget_tokens: 1 / 0))
    assert await plugin_folder.host().around_summary(model)("fold", 100) == "by the model"
    assert asked == [("fold", 100)]
