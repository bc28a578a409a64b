"""The trust question: every acting file is seen before anybody can say yes."""

import asyncio

import pytest

from dirge_py.types.questions import ActingFile, SupportsTrust, TrustOffer
from tests.conversation.room import Room
from tests.ui.running_app import RunningApp, running_app

HASH = "0123456789abcdef" * 4


def offer(count: int = 2) -> TrustOffer:
    files = (
        ActingFile(path=".dirge/config.toml", kind="settings", size=1, sha256=HASH),
        ActingFile(path=".dirge/p.py", kind="plugin", size=2048, sha256=HASH[1:], state="changed"),
        *(ActingFile(path=f"x{n}.md", kind="prompt", size=9, sha256=HASH) for n in range(count)),
    )
    return TrustOffer(project="/home/me/project", files=files[:count], digest="d")


def ask(d: RunningApp, what: TrustOffer) -> "asyncio.Task[bool]":
    assert isinstance(d.asker, SupportsTrust)
    return asyncio.ensure_future(d.asker.trust(what))


async def asked(d: RunningApp) -> None:
    await d.until(lambda: d.panel and d.panel.has_focus and d.panel.is_open)


KEYS = [
    (["y", "enter"], True),
    (["n", "enter"], False),
    (["escape"], False),
    (["enter", "down", "enter"], False),
    (["up", "enter"], True),
    (["right", "left", "enter"], True),
]


async def test_each_key_gives_its_answer(room: Room):
    async with running_app(room) as d:
        for keys, answer in KEYS:
            question = ask(d, offer())
            await asked(d)
            await d.until(lambda: "  n No" in d.screen and "read on" not in d.screen)
            await d.pilot.press(*keys)
            assert (keys, await question) == (keys, answer)
            await d.until(lambda: d.panel is None and d.app.composer.has_focus)


async def test_each_file_is_listed_with_kind_size_hash_and_state(room: Room):
    async with running_app(room) as d:
        ask(d, offer())
        await asked(d)
        await d.until(lambda: "/home/me/project" in d.screen)
        assert "   .dirge/config.toml  settings  1 byte  0123456789ab  new\n" in d.screen
        assert "   .dirge/p.py  plugin  2,048 bytes  123456789abc  changed\n" in d.screen


@pytest.mark.parametrize(("size", "count"), [((80, 24), 40), ((40, 12), 12), ((20, 5), 4)])
async def test_yes_is_possible_only_after_the_last_file_was_in_view(
    room: Room, size: tuple[int, int], count: int
):
    async with running_app(room, size=size) as d:
        question = ask(d, offer(count))
        await asked(d)
        await d.pilot.press("right", "right", "enter")
        assert not question.done()
        seen = d.screen
        while f"x{count - 3}.md" not in d.screen:
            await d.pilot.press("pagedown")
            seen += d.screen
        assert all(f"x{n}.md" in seen for n in range(count - 2))
        await d.pilot.press("end", "y", "enter")
        assert await question is True


async def test_keys_typed_a_moment_before_do_not_answer(room: Room):
    async with running_app(room, guard_s=3600.0) as d:
        question = ask(d, offer())
        await d.until(lambda: d.panel and d.panel.has_focus)
        await d.pilot.press("escape", "enter", "y", "n")
        assert not question.done()
        assert d.app.composer.text == "yn"


async def test_names_that_would_hide_are_spelled_out(room: Room):
    nasty = ActingFile(path="a\u202eb\x1b[2J.py", kind="plugin\x07", size=1, sha256=HASH)
    async with running_app(room) as d:
        ask(d, TrustOffer(project="/p\n/q", files=(nasty,), digest="d"))
        await asked(d)
        await d.until(lambda: "a<U+202E>b<U+001B>[2J.py  plugin<U+0007>" in d.screen)
        assert "/p<U+000A>/q" in d.screen
