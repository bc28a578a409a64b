from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.errors import FileError
from dirge_py.tools.editing.document import Document, Replacement
from dirge_py.tools.editing.plan import plan_edit

words = st.sampled_from(
    ["a", "b", "if x:", "    y", "\tz", "é", "", "  ", "q \t", "𝄞", "\x0c", "\u2028"]
)
ends = st.sampled_from(["\n", "\r\n", "\n", "\r", ""])
lines = st.lists(st.tuples(words, ends).map("".join), max_size=12)
# A CR at the end of a new text would make a CRLF out of the LF behind it.
plain_lines = lines.filter(lambda lines: not any(line.endswith("\r") for line in lines))
mark = st.sampled_from([b"", b"\xef\xbb\xbf"])


def lf(content: bytes) -> bytes:
    return content.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n")


@settings(max_examples=200, deadline=None)
@given(mark, lines, st.data())
def test_bytes_outside_of_the_replaced_stretch_stay(mark, lines, data):
    content = mark + "".join(lines).encode()
    document = Document.parse(content, "a")
    start = data.draw(st.integers(0, len(document.view)))
    end = data.draw(st.integers(start, len(document.view)))

    changed = document.replaced([Replacement(start, end, b"<NEW>")])

    before, after = changed.split(b"<NEW>")
    assert content.startswith(before)
    assert content.endswith(after)
    assert lf(before) == document.view[:start].removeprefix(b"\xef\xbb\xbf") or before.endswith(
        b"\r"
    )
    assert lf(changed) == document.view[:start] + b"<NEW>" + document.view[end:]


@settings(max_examples=200, deadline=None)
@given(mark, plain_lines, plain_lines, st.data())
def test_an_exact_edit_is_the_replacement_of_one_text_by_another(mark, lines, new, data):
    content = mark + "".join(lines).encode()
    view = lf(content).decode()
    start = data.draw(st.integers(0, len(view)))
    old = view[start : data.draw(st.integers(start, len(view)))]
    new_text = "".join(new)
    try:
        plan = plan_edit(content, old, new_text, replace_all=False, path="a")
    except FileError:
        assert (
            old in ("", new_text.replace("\r\n", "\n")) or view.find(old, view.find(old) + 1) >= 0
        )
        return

    assert plan.strategy == "exact"
    assert lf(plan.content).decode() == view.replace(old, new_text.replace("\r\n", "\n"), 1)
    assert plan.content.startswith(mark)
    assert bool(plan.diff.text) == (plan.diff.added + plan.diff.removed > 0)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=60), st.text(max_size=5), st.text(max_size=5))
def test_any_bytes_are_edited_or_refused_with_words(content, old, new):
    try:
        plan_edit(content, old, new, replace_all=True, path="a")
    except FileError as error:
        assert error.message
