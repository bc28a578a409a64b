"""Vim's keys on a text and a cursor, without a screen."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirge_py.ui.prompt.vim.modes import Vim, VimResult


class Field:
    """A text edited by keys, with undo."""

    def __init__(self, text: str, at: int) -> None:
        self.vim, self.text, self.at = Vim(), text, at
        self.anchor: int | None = None
        self.wishes: list[str] = []
        self._before: list[str] = []

    def press(self, keys: str) -> "Field":
        """Each character is a key; `⎋` is Esc, `®` Ctrl+R."""
        for key in keys:
            self._press({"⎋": "escape", "®": "ctrl+r"}.get(key, key))
        return self

    def _press(self, key: str) -> None:
        found = self.vim.press(key, self.text, self.at)
        if found is None:
            found = self._written(key)
        elif found.wish == "undo" and self._before:
            found = VimResult(text=self._before.pop(), at=0)
        elif found.text != self.text:
            self._before.append(self.text)
        self.wishes += [found.wish] if found.wish else []
        self.text, self.at, self.anchor = found.text, found.at, found.anchor
        assert 0 <= self.at <= len(self.text)
        assert self.anchor is None or 0 <= self.anchor <= len(self.text)

    def _written(self, key: str) -> VimResult:
        if self.vim.mode != "insert" or len(key) > 1:
            return VimResult(text=self.text, at=self.at)
        self._before.append(self.text)
        return VimResult(text=self.text[: self.at] + key + self.text[self.at :], at=self.at + 1)


def normal(marked: str) -> Field:
    """In normal mode, the cursor on the character behind `|`."""
    field = Field(marked.replace("|", ""), marked.index("|"))
    field.vim.mode = "normal"
    return field


def marked_text(field: Field) -> str:
    return f"{field.text[: field.at]}|{field.text[field.at :]}"


MOVES = [
    ("a|bc", "h", "|abc"),
    ("|abc", "h", "|abc"),
    ("a|bc", "l", "ab|c"),
    ("ab|c", "l", "ab|c"),
    ("|abcd", "2l", "ab|cd"),
    ("|one two", "w", "one |two"),
    ("|one.two", "w", "one|.two"),
    ("|one.two three", "W", "one.two |three"),
    ("|one\n\ntwo", "w", "one\n|\ntwo"),
    ("|one two three", "2w", "one two |three"),
    ("one |two", "w", "one tw|o"),
    ("one two| three", "b", "one |two three"),
    ("one.two |x", "B", "|one.two x"),
    ("|one two", "e", "on|e two"),
    ("on|e two", "e", "one tw|o"),
    ("|a.b c", "E", "a.|b c"),
    ("  on|e", "0", "|  one"),
    ("  on|e", "^", "  |one"),
    ("|one\ntwo", "$", "on|e\ntwo"),
    ("|one\ntwo", "2$", "one\ntw|o"),
    ("one\ntwo\n  thr|ee", "gg", "|one\ntwo\n  three"),
    ("|one\ntwo\n  three", "G", "one\ntwo\n  |three"),
    ("|one\ntwo\nthree", "2G", "one\n|two\nthree"),
    ("on|e\nx\nfour", "jj", "one\nx\nfo|ur"),
    ("one\nx\nfo|ur", "2k", "on|e\nx\nfour"),
    ("|a,b,c", "f,", "a|,b,c"),
    ("|a,b,c", "2f,", "a,b|,c"),
    ("|a,b,c", "f,;", "a,b|,c"),
    ("|a,b,c", "f,;,", "a|,b,c"),
    ("|a,b,c", "t,", "|a,b,c"),
    ("|ab,c,d", "t,;", "ab,|c,d"),
    ("a,b,|c", "F,", "a,b|,c"),
    ("a,bc|d", "T,", "a,|bcd"),
    ("|abc", "fx", "|abc"),
    ("|one\n\ntwo\n\nthree", "}", "one\n|\ntwo\n\nthree"),
    ("one\n\ntwo\n\nth|ree", "{", "one\n\ntwo\n|\nthree"),
]
CHANGES = [
    ("a|bc", "x", "a|c"),
    ("ab|c", "x", "a|b"),
    ("|abc", "2x", "|c"),
    ("ab|c", "X", "a|c"),
    ("|abc", "rx", "|xbc"),
    ("|abc", "2rx", "x|xc"),
    ("|abc", "9rx", "|abc"),
    ("|one two", "dw", "|two"),
    ("one |two\nx", "dw", "one| \nx"),
    ("|one two three", "d2w", "|three"),
    ("|a b c d e", "2d2w", "|e"),
    ("one tw|o three", "db", "one |o three"),
    ("|one two", "de", "| two"),
    ("o|ne two", "d$", "|o"),
    ("o|ne two", "D", "|o"),
    ("one |two", "d0", "|two"),
    ("|one, two", "dt,", "|, two"),
    ("|one, two", "df,", "| two"),
    ("one\nt|wo\nthree", "dd", "one\n|three"),
    ("one\nt|wo", "dd", "|one"),
    ("|one\ntwo\nthree", "2dd", "|three"),
    ("|one", "dd", "|"),
    ("one\nt|wo\nthree", "dj", "|one"),
    ("one\nt|wo\nthree", "dk", "|three"),
    ("one\ntwo\n|three", "dgg", "|"),
    ("|one\ntwo", "dG", "|"),
    ("|one two", "cwx⎋", "|x two"),
    ("o|ne two", "cwx⎋", "o|x two"),
    ("on|e two", "cwx⎋", "on|x two"),
    ("one| two", "cwx⎋", "one|xtwo"),
    ("|one two three", "c2wx⎋", "|x three"),
    ("one\nt|wo\nx", "ccnew⎋", "one\nne|w\nx"),
    ("o|ne\nx", "Cx⎋", "o|x\nx"),
    ("o|ne\nx", "Sx⎋", "|x\nx"),
    ("|abc", "sx⎋", "|xbc"),
    ("|one", "ix⎋", "|xone"),
    ("|one", "ax⎋", "o|xne"),
    ("  on|e", "Ix⎋", "  |xone"),
    ("o|ne", "Ax⎋", "one|x"),
    ("o|ne", "ox⎋", "one\n|x"),
    ("one\nt|wo", "Ox⎋", "one\n|x\ntwo"),
    ("|one two", "ywP", "one| one two"),
    ("|one", "yyp", "one\n|one"),
    ("|one", "YP", "|one\none"),
    ("|one\ntwo", "ddp", "two\n|one"),
    ("|ab", "xp", "b|a"),
    ("|ab", "x3p", "baa|a"),
    ("|one two", "dwu", "|one two"),
    ("|a b c d", "dw.", "|c d"),
    ("|a b c d", "dw2.", "|d"),
    ("|a b c", "cwx⎋w.", "x |x c"),
    ("|ab ab", "xu", "|ab ab"),
    ("|one\n  two", "J", "one| two"),
    ("|aBc", "~~", "Ab|c"),
    ("one t|wo three", "diw", "one | three"),
    ("one t|wo three", "daw", "one |three"),
    ("one t|wo", "daw", "on|e"),
    ("a b-|c d", "diW", "a | d"),
    ('say "he|llo" x', 'di"', 'say "|" x'),
    ('say "he|llo" x', 'da"', "say | x"),
    ('|say "hello"', 'ci"x⎋', 'say "|x"'),
    ("f(a, (b|), c)", "di(", "f(a, (|), c)"),
    ("f(a|, (b), c)", "dib", "f(|)"),
    ("f(a|, b)", "da)", "|f"),
    ("{a\n|b\n}", "di{", "{|}"),
    ("x [a|b] y", "ci]z⎋", "x [|z] y"),
    ("x <a|b>", "di<", "x <|>"),
    ("no |brackets", "di(", "no |brackets"),
    ("a\n\no|ne\ntwo\n\nb", "dip", "a\n\n|\nb"),
    ("one two|", "vbd", "one| "),
    ("o|ne two", "vey", "o|ne two"),
    ("|one\ntwo\nthree", "Vjd", "|three"),
    ("|one two", "viwc!⎋", "|! two"),
    ("|abc", "vlrx", "|xxc"),
    ("a|bc", "vU", "a|Bc"),
    ("|abc", "vlohd", "|c"),
]


@pytest.mark.parametrize(("before", "keys", "after"), [*MOVES, *CHANGES])
def test_normal_mode_keys_work_like_vim(before: str, keys: str, after: str):
    assert marked_text(normal(before).press(keys)) == after


@pytest.mark.parametrize(
    ("before", "keys", "wishes"),
    [
        ("a|b", "k", ["history_older"]),
        ("a|b", "j", ["history_newer"]),
        ("a\n|b", "k", []),
        ("a|b", "dk", []),
        ("a|b", "u®", ["undo", "redo"]),
        ("a|b", "/", ["search_history"]),
    ],
)
def test_keys_outside_editing_return_a_request(before: str, keys: str, wishes: list[str]):
    assert normal(before).press(keys).wishes == wishes


def test_insert_mode_leaves_text_keys_to_editor():
    field = Field("", 0)
    assert field.vim.press("x", "", 0) is None
    assert field.press("ab⎋").vim.mode == "normal"
    assert marked_text(field) == "a|b"


def test_esc_in_normal_mode_is_unhandled_unless_a_command_is_pending():
    field = normal("|ab")
    assert field.press("2d").vim.pending == "2d"
    assert field.vim.press("escape", "ab", 0) is not None
    assert field.vim.pending == ""
    assert field.vim.press("escape", "ab", 0) is None


def test_visual_mode_reports_both_ends_of_selection():
    field = normal("one |two").press("ve")
    assert (field.anchor, field.at, field.vim.mode) == (4, 6, "visual")


def test_deleted_text_is_reported():
    vim = normal("|one").vim
    found = [vim.press(key, "one two", 0) for key in "dw"][-1]
    assert found is not None
    assert (found.cut, found.text) == ("one ", "two")


TEXTS = st.text(alphabet="ab .,(\"')\n日\U00100000", max_size=14)
KEYS = st.text(
    alphabet="hjklwbeWBE0^$gGfFtT;,iaIAoOxXsSrdcypPDCYvVuJ~.{}123a(\"'b⎋⎋® ", max_size=25
)


@given(TEXTS, st.integers(0, 14), KEYS)
def test_random_keys_stay_within_text_and_undo_restores_it(text: str, at: int, keys: str):
    field = Field(text, min(at, len(text)))
    field.press("⎋" + keys + "⎋⎋" + "u" * 80)
    assert (field.text, field.vim.mode) == (text, "normal")


@given(TEXTS, st.integers(0, 14), st.sampled_from(["d", "c"]), st.text("hlwbe$0W", max_size=3))
def test_delete_operator_removes_one_piece_and_reports_it(
    text: str, at: int, operator: str, keys: str
):
    field = Field(text, min(at, len(text)))
    field.vim.mode = "normal"
    cut, left = "", text
    for key in [operator, *(keys[:1] or "w")]:
        found = field.vim.press(key, field.text, field.at)
        assert found is not None
        cut, left = found.cut, found.text
    assert len(left) + len(cut) == len(text)
    assert any(left[:n] + cut + left[n:] == text for n in range(len(left) + 1))
