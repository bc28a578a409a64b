import subprocess
import time

from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.tools.file_edits.diff import MAX_LINES_A_SIDE, diff_of_texts

texts = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "d\n"]), max_size=30).map("".join)
tails = st.sampled_from(["", "end", "end\n"])


@settings(max_examples=40, deadline=None)
@given(texts, tails, texts, tails)
def test_diff_applied_as_patch_turns_old_text_into_new(
    tmp_path_factory, old, old_tail, new, new_tail
):
    before, after = (old + old_tail).encode(), (new + new_tail).encode()
    file = tmp_path_factory.mktemp("patch") / "file"
    file.write_bytes(before)

    diff = diff_of_texts(before, after, path="file")

    if diff.text:
        done = subprocess.run(
            ["git", "apply", "--unidiff-zero", "--whitespace=nowarn", "-p0"],
            input=diff.text.encode() + b"\n",
            cwd=file.parent,
            capture_output=True,
        )
        assert not done.returncode, (done.stderr, diff.text)
    assert (file.read_bytes() if file.exists() else b"") == after


def test_long_diff_says_how_many_lines_are_hidden():
    diff = diff_of_texts(b"x\n" * 1000, b"y\n" * 500, path="a")

    shown = diff.text.split("\n")
    assert sum(line.startswith("-x") for line in shown) == MAX_LINES_A_SIDE
    assert sum(line.startswith("+y") for line in shown) == MAX_LINES_A_SIDE
    assert shown[-1] == "… 1100 more changed lines are not shown."
    assert (diff.added, diff.removed) == (500, 1000)


def test_diff_of_large_different_texts_takes_bounded_time():
    old = b"".join(b"%d\n" % n for n in range(100_000))
    new = b"".join(b"%d\n" % (n * 7) for n in range(100_000))
    began = time.process_time()

    diff_of_texts(old, new, path="a")

    assert time.process_time() - began < 2


def test_distant_changes_in_long_text_are_separate_hunks():
    old = b"".join(b"line %d\n" % n for n in range(3000))
    new = old.replace(b"line 5\n", b"five\n").replace(b"line 2990\n", b"late\nlater\n")

    diff = diff_of_texts(old, new, path="a")

    assert (diff.added, diff.removed) == (3, 2)
    assert diff.spans == ((5, 6), (2990, 2991))
