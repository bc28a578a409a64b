"""The trust question: every acting file can be seen before the answer."""

import asyncio

import pytest

from dirge_py.types.questions import ActingFile, SupportsTrust, TrustOffer
from tests.support.app_driver import AppDriver, running_app
from tests.support.project import ScriptedProject

HASH = "0123456789abcdef" * 4


def offer(count: int = 2) -> TrustOffer:
    files = (
        ActingFile(path=".dirge/config.toml", kind="settings", size=1, sha256=HASH),
        ActingFile(path=".dirge/p.py", kind="plugin", size=2048, sha256=HASH[1:], state="changed"),
        *(ActingFile(path=f"x{n}.md", kind="prompt", size=9, sha256=HASH) for n in range(count)),
    )
    return TrustOffer(project="/home/me/project", files=files[:count], digest="d")


def ask(driver: AppDriver, what: TrustOffer) -> "asyncio.Task[bool]":
    assert isinstance(driver.asker, SupportsTrust)
    return asyncio.ensure_future(driver.asker.trust(what))


async def question_is_open(driver: AppDriver) -> None:
    await driver.until(lambda: driver.panel and driver.panel.has_focus and driver.panel.is_open)


KEYS = [
    (["y", "enter"], True),
    (["n", "enter"], False),
    (["escape"], False),
    (["enter", "down", "enter"], False),
    (["up", "enter"], True),
    (["right", "left", "enter"], True),
]


async def test_each_key_sequence_gives_its_answer(project: ScriptedProject):
    async with running_app(project) as driver:
        for keys, answer in KEYS:
            question = ask(driver, offer())
            await question_is_open(driver)
            await driver.until(
                lambda: "  n No" in driver.screen and "read to the end" not in driver.screen
            )
            await driver.pilot.press(*keys)
            assert (keys, await question) == (keys, answer)
            await driver.until(lambda: driver.panel is None and driver.app.composer.has_focus)


async def test_trust_question_lists_kind_size_hash_and_state_of_each_file(project: ScriptedProject):
    async with running_app(project) as driver:
        ask(driver, offer())
        await question_is_open(driver)
        await driver.until(lambda: "/home/me/project" in driver.screen)
        assert "   .dirge/config.toml  settings  1 byte  0123456789ab  new\n" in driver.screen
        assert "   .dirge/p.py  plugin  2,048 bytes  123456789abc  changed\n" in driver.screen


@pytest.mark.parametrize(("size", "count"), [((80, 24), 40), ((40, 12), 12), ((20, 5), 4)])
async def test_project_can_be_trusted_only_after_scrolling_to_last_file(
    project: ScriptedProject, size: tuple[int, int], count: int
):
    async with running_app(project, size=size) as driver:
        question = ask(driver, offer(count))
        await question_is_open(driver)
        await driver.pilot.press("right", "right", "enter")
        assert not question.done()
        seen = driver.screen
        while f"x{count - 3}.md" not in driver.screen:
            await driver.pilot.press("pagedown")
            seen += driver.screen
        assert all(f"x{n}.md" in seen for n in range(count - 2))
        await driver.pilot.press("end", "y", "enter")
        assert await question is True


async def test_keys_typed_before_question_opened_do_not_answer(project: ScriptedProject):
    async with running_app(project, guard_s=3600.0) as driver:
        question = ask(driver, offer())
        await driver.until(lambda: driver.panel and driver.panel.has_focus)
        await driver.pilot.press("escape", "enter", "y", "n")
        assert not question.done()
        assert driver.app.composer.text == "yn"


async def test_invisible_characters_in_file_names_are_shown(project: ScriptedProject):
    nasty = ActingFile(path="a\u202eb\x1b[2J.py", kind="plugin\x07", size=1, sha256=HASH)
    async with running_app(project) as driver:
        ask(driver, TrustOffer(project="/p\n/q", files=(nasty,), digest="d"))
        await question_is_open(driver)
        await driver.until(lambda: "a<U+202E>b<U+001B>[2J.py  plugin<U+0007>" in driver.screen)
        assert "/p<U+000A>/q" in driver.screen
