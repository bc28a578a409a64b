"""The rule that separates answers to a question from typing, without a screen."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.ui.panels.dialog import PAUSE_S, AnswerGuard, Role
from tests.security.sizes import count, size

LETTERS = "yapncherA1234"
"""Keys that select something in a permission question; in a form only the digits do."""

SLOW = PAUSE_S * 2
HAND = 0.13
PASTE = 0.001


@dataclass
class Typed:
    """A question with an input below it, reduced to key routing.

    `answers` are the selections that Enter confirmed.
    """

    has_blank_use: bool = False
    now: float = 0.0
    input: str = ""
    sent: list[str] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.guard = AnswerGuard(pause_s=PAUSE_S, now=0.0)
        self.selected = ""
        self.scrolled = ""
        self.has_keyboard = True
        self.emptied_at = 0.0

    def role(self, char: str) -> Role:
        if char == "\n":
            return "confirm"
        if char == " " and self.has_blank_use:
            return "use"
        return "select" if char in LETTERS else "text"

    def press(self, char: str, after_s: float) -> None:
        self.now += after_s
        if not self.has_keyboard and not self.input and self.now >= self.emptied_at + PAUSE_S:
            self.has_keyboard = True
            self.guard.close(self.emptied_at + PAUSE_S)
        if not self.has_keyboard:
            self.write(char)
            return
        outcome = self.guard.press(self.role(char), "" if char == "\n" else char, self.now)
        match outcome.meaning:
            case "type":
                self.selected, self.has_keyboard = "", False
                self.scrolled = self.scrolled[: len(self.scrolled) - outcome.undone]
                self.write(outcome.text)
            case "select":
                self.selected = char
            case "use":
                self.scrolled += char
            case "confirm" if self.selected:
                self.answers.append(self.selected)
                self.selected = ""

    def write(self, text: str) -> None:
        if text != "\n":
            self.input += text
            return
        if self.input:
            self.sent.append(self.input)
        self.input, self.emptied_at = "", self.now

    def type(self, text: str, after_s: float = HAND, first_s: float | None = None) -> "Typed":
        for number, char in enumerate(text):
            self.press(char, first_s if number == 0 and first_s is not None else after_s)
        return self

    @property
    def written(self) -> str:
        return "".join([*self.sent, self.input])


@pytest.mark.parametrize("letter", LETTERS)
def test_choice_letter_after_pause_then_enter_is_an_answer(letter: str):
    typed = Typed().type(f"{letter}\n", first_s=SLOW)
    assert (typed.answers, typed.written) == ([letter], "")


@pytest.mark.parametrize("after_s", [PASTE, HAND, SLOW])
@pytest.mark.parametrize(
    "text",
    [
        "please stop",
        "please stop\n",
        "yap\n",
        "pay n\n",
        "yay\n\n\n",
        "aa\n",
        "no, do not do it\n",
        "at the other\nyes then\n",
    ],
)
def test_typed_sentence_answers_nothing_and_goes_to_input_in_full(text: str, after_s: float):
    typed = Typed().type(text, after_s, first_s=2.0)
    assert typed.answers == []
    assert typed.written == text.replace("\n", "")


def test_pasted_choice_letter_and_enter_are_not_an_answer():
    typed = Typed().type("a\n", PASTE, first_s=2.0)
    assert (typed.answers, typed.written) == ([], "a")


def test_continuous_typing_keeps_question_closed():
    typed = Typed()
    for _ in range(100):
        typed.press("\n", PAUSE_S * 0.9)
        assert not typed.guard.is_open(typed.now)
    typed.press("a", PAUSE_S * 0.9)
    assert typed.written == "a"


def test_enter_confirms_choice_selected_by_arrow_unless_pressed_at_once():
    guard = AnswerGuard(pause_s=PAUSE_S, now=0.0)
    assert guard.press("act", "", 1.0).meaning == "act"
    assert guard.press("confirm", "", 1.2).meaning == "confirm"
    assert guard.press("act", "", 3.0).meaning == "act"
    assert guard.press("confirm", "", 3.0 + PASTE).meaning == "nothing"


def test_space_scrolls_unless_text_follows_at_once():
    scrolled = Typed(has_blank_use=True).type("  ", HAND, first_s=1.0).type("y\n", first_s=SLOW)
    assert (scrolled.answers, scrolled.written, scrolled.scrolled) == (["y"], "", "  ")
    typed = Typed(has_blank_use=True).type("  yes", HAND, first_s=1.0)
    assert (typed.answers, typed.written, typed.scrolled) == ([], "  yes", "")


def test_erasing_letter_deselects_its_choice():
    guard = AnswerGuard(pause_s=PAUSE_S, now=0.0)
    assert guard.press("select", "a", 1.0).meaning == "select"
    assert guard.press("none", "", 1.2).meaning == "deselect"
    assert guard.press("text", "x", 1.6).text == "x"


def no_answers_in(text: str) -> str:
    """`text` without lines that consist of a choice's letter."""
    lines = text.split("\n")
    return "\n".join(line * 2 if line.strip() in LETTERS and line else line for line in lines)


SENTENCES = st.text(
    alphabet=st.sampled_from(LETTERS + "  \n" + "ebdilorstu.,?!é7"), min_size=1, max_size=40
).map(no_answers_in)
SPEEDS = st.sampled_from([0.0, PASTE, 0.04, HAND, PAUSE_S, SLOW, 3.0])


@pytest.mark.security
def test_text_typed_at_any_speed_answers_nothing_and_is_never_lost():
    tries, answered, lost = size(300, 10_000), 0, 0

    @settings(max_examples=tries, database=None, deadline=None)
    @given(text=SENTENCES, delays=st.lists(SPEEDS, min_size=1, max_size=9), blank=st.booleans())
    def holds(text: str, delays: Sequence[float], blank: bool) -> None:
        nonlocal answered, lost
        typed = Typed(has_blank_use=blank)
        for number, char in enumerate(text):
            typed.press(char, delays[number % len(delays)])
        answered += bool(typed.answers)
        # A held letter selects a choice until the next key makes it text.
        written = typed.written + typed.guard.held.strip()
        kept = [char for char in written if not char.isspace()]
        lost += kept != [char for char in text if not char.isspace()]
        if not blank:
            lost += (typed.written + typed.guard.held) != text.replace("\n", "")

    holds()
    count("typing into a question", tries, answered, "answers")
    count("typing into a question", tries, lost, "texts that lost a character")
    assert (answered, lost) == (0, 0)
