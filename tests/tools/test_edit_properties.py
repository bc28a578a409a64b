from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.tools.file_edits.document import Replacement, TextDocument
from dirge_py.tools.file_edits.text_edits import TextEdit, plan_edits
from dirge_py.types.errors import FileError
from tests.security.sizes import size


def plan_edit(content, old, new, *, replace_all=False):
    return plan_edits(content, [TextEdit(old=old, new=new, replace_all=replace_all)], path="a")


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


@settings(max_examples=size(33, 100), deadline=None)
@given(mark, lines, st.data())
def test_bytes_outside_replaced_range_are_unchanged(mark, lines, data):
    content = mark + "".join(lines).encode()
    document = TextDocument.parse(content, "a")
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


@settings(max_examples=size(33, 100), deadline=None)
@given(mark, plain_lines, plain_lines, st.data())
def test_exact_edit_replaces_old_text_by_new(mark, lines, new, data):
    content = mark + "".join(lines).encode()
    view = lf(content).decode()
    start = data.draw(st.integers(0, len(view)))
    old = view[start : data.draw(st.integers(start, len(view)))]
    new_text = "".join(new)
    try:
        plan = plan_edit(content, old, new_text)
    except FileError:
        assert (
            old in ("", new_text.replace("\r\n", "\n")) or view.find(old, view.find(old) + 1) >= 0
        )
        return

    assert plan.strategies == []
    assert lf(plan.content).decode() == view.replace(old, new_text.replace("\r\n", "\n"), 1)
    assert plan.content.startswith(mark)
    assert bool(plan.diff.text) == (plan.diff.added + plan.diff.removed > 0)


@settings(max_examples=size(33, 100), deadline=None)
@given(st.binary(max_size=60), st.text(max_size=5), st.text(max_size=5))
def test_any_bytes_are_edited_or_refused_with_message(content, old, new):
    try:
        plan_edit(content, old, new, replace_all=True)
    except FileError as error:
        assert error.message


bodies = st.text("abcxyz(){}=, ", min_size=1, max_size=12).map(str.strip).filter(bool)
indents = st.sampled_from(["", "  ", "    ", "\t"])
blanks = st.sampled_from(["", "", " ", "\t "])
line_ends = st.sampled_from(["\n", "\n", "\r\n"])


@settings(max_examples=size(50, 150), deadline=None)
@given(st.lists(st.tuples(indents, bodies, blanks, line_ends), min_size=3, max_size=12), st.data())
def test_f1_lines_not_changed_by_edit_keep_every_byte(parts, data):
    content = "".join(map("".join, parts)).encode()
    first = data.draw(st.integers(0, len(parts) - 3))
    last = data.draw(st.integers(first + 2, len(parts) - 1))
    changed = data.draw(st.integers(first, last))
    shift, tail = data.draw(indents), data.draw(blanks)
    old = [shift + "".join(each[:2]) + tail for each in parts[first : last + 1]]
    misread = data.draw(st.integers(first, last))
    if first < misread < last and misread != changed:
        old[misread - first] += ";"
    new = list(old)
    new[changed - first] = old[changed - first].rstrip() + "!"
    try:
        plan = plan_edit(content, "\n".join(old), "\n".join(new))
    except FileError:
        return

    before, after = content.split(b"\n"), plan.content.split(b"\n")
    assert len(before) == len(after)
    different = [
        n for n, (one, other) in enumerate(zip(before, after, strict=True)) if one != other
    ]
    assert different == [changed]
    assert after[changed].rstrip(b"\r").strip() == parts[changed][1].encode() + b"!"


@settings(max_examples=size(33, 100), deadline=None)
@given(st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=8), st.data())
def test_several_edits_equal_successive_replacements(letters, data):
    content = "\n".join(letters).encode()
    pairs = data.draw(
        st.lists(
            st.tuples(st.sampled_from("abcd"), st.sampled_from("wxyz")), min_size=2, max_size=4
        )
    )
    edits = [TextEdit(old=old, new=new, replace_all=True) for old, new in pairs]
    expected = content
    for old, new in pairs:
        if old.encode() not in expected:
            expected = None
            break
        expected = expected.replace(old.encode(), new.encode())
    try:
        made = plan_edits(content, edits, path="a").content
    except FileError:
        made = None

    assert made == expected
