"""The final text of a command's output."""

import random
import time

import pyte
import pytest

from dirge_py.lib.terminal_text import final_text


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("a\r\nb\r\n", "a\nb\n"),
        ("\x1b[1;31mred\x1b[0m text", "red text"),
        ("\x1b]0;title\x07named", "named"),
        ("\x1b]8;;https://x.test\x1b\\link\x1b]8;;\x1b\\", "link"),
        (" 10%\r 50%\r100%\ndone", "100%\ndone"),
        ("long words\rshort", "shortwords"),
        ("long words\r\x1b[Kshort", "short"),
        ("\x1b[2K\rnew", "new"),
        ("abc\b\bX", "aXc"),
        ("one\ntwo\n\x1b[2A\x1b[2KONE\n\x1b[2KTWO\n", "ONE\nTWO\n"),
        ("a\nb\nc\x1b[2F\x1b[Jz", "z"),
        ("a\x1b[3Cb", "a   b"),
        ("\x1b[?25lhidden cursor\x1b[?25h", "hidden cursor"),
        ("\x1b(Bcharset\x1b", "charset"),
        ("unterminated \x1b]0;title", "unterminated "),
    ],
)
def test_final_text_is_what_a_terminal_shows_in_the_end(written: str, shown: str):
    assert final_text(written) == shown


@pytest.mark.parametrize(
    "flood", ["\x1b]", "\x1b[", "a\x1b[?", "x\b", "\x1b[999999Cx\n", "\x1b[999999Bx", "\r\x1b[1Kx"]
)
def test_flood_of_sequences_stays_cheap_and_small(flood: str):
    text = flood * (128 * 1024 // len(flood))
    began = time.process_time()
    shown = final_text(text)
    assert time.process_time() - began < 2
    assert len(shown) < 40 * len(text)


_PIECES = (
    *("ab", "hello", " ", "100%", "xxxxxxxx", "\r", "\n", "\r\n", "\b", "\b\b", "\x1b[J"),
    *("\x1b[K", "\x1b[1K", "\x1b[2K", "\x1b[G", "\x1b[7G", "\x1b[C", "\x1b[4C", "\x1b[3D"),
    *("\x1b[A", "\x1b[2A", "\x1b[F", "\x1b[31m", "\x1b[1;38;5;9m", "\x1b]0;title\x07"),
    *("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "\x1b(B", "\x1b[?25l", "\x1b[?2004h", "\x1b="),
)


def _on_a_terminal(text: str) -> str:
    screen = pyte.Screen(120, 24)
    screen.set_mode(pyte.modes.LNM)
    pyte.Stream(screen).feed(text)
    return "\n".join(line.rstrip() for line in screen.display).rstrip("\n")


@pytest.mark.parametrize("seed", range(10))
def test_random_output_is_shown_as_on_a_terminal(seed: int):
    chosen = random.Random(seed)
    for _ in range(60):
        text = "".join(chosen.choices(_PIECES, k=chosen.randint(1, 14)))
        shown = "\n".join(line.rstrip() for line in final_text(text).split("\n")).rstrip("\n")
        assert shown == _on_a_terminal(text), repr(text)


@pytest.mark.parametrize("seed", range(10))
def test_no_part_of_a_sequence_stays_an_escape(seed: int):
    chosen = random.Random(seed)
    for _ in range(200):
        text = "".join(chosen.choices("\x1b[]P0;?m\x07\\a(\r\b\n", k=30))
        assert "\x1b" not in final_text(text)
