import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.tools.file_edits.patch import PatchHunk, PatchOperation, parse_patch
from tests.security.sizes import size

PLAIN = """*** Begin Patch
*** Add File: new.py
+one
+
+two
*** Update File: old.py
*** Move to: moved.py
@@ class A
@@ def f
 keep
-out
+in
*** End of File
*** Delete File: gone.py
*** End Patch
"""

OPERATIONS = [
    PatchOperation(action="create", path="new.py", content="one\n\ntwo\n"),
    PatchOperation(
        action="update",
        path="old.py",
        new_path="moved.py",
        hunks=[
            PatchHunk(anchors=["class A", "def f"], lines=[" keep", "-out", "+in"], at_end=True)
        ],
    ),
    PatchOperation(action="delete", path="gone.py"),
]


def indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        PLAIN.replace("\n", "\r\n"),
        PLAIN.replace("*** End Patch\n", ""),
        PLAIN.replace("Begin Patch", "Begin Patch ***").replace("End Patch", "End Patch ***"),
        f"apply_patch <<'EOF'\n{PLAIN}EOF\n",
        f'apply_patch <<"PATCH"\n{PLAIN.replace("*** End Patch", "PATCH")}',
        f"Here it is:\n```diff\n{PLAIN}```\nDone\n",
        f"```\n{PLAIN.replace('*** End Patch', '```')}",
        f"\n  {PLAIN}",
        indented(PLAIN),
        PLAIN.replace("*** Begin Patch\n", ""),
        PLAIN.replace("*** Delete", "\n*** Delete"),
        PLAIN.replace("gone.py", " gone.py "),
        PLAIN.replace("*** Delete", "*** End Patch\n*** Begin Patch\n*** Delete"),
        PLAIN.replace("+\n", "\n", 1),
    ],
)
def test_patch_in_quotes_heredoc_or_code_fence_is_parsed(text):
    assert parse_patch(text) == OPERATIONS


def test_new_file_may_have_lines_without_plus():
    patch = "*** Begin Patch\n*** Add File: a\nx = 1\n\nprint(x)\n*** End Patch"

    assert parse_patch(patch) == [
        PatchOperation(action="create", path="a", content="x = 1\n\nprint(x)\n")
    ]


def test_unified_diff_headers_are_ignored():
    patch = """*** Begin Patch
*** Update File: a
--- a/a
+++ b/a
@@ -3,2 +3,2 @@ def f():
-x
+y
\\ No newline at end of file
*** End Patch"""

    hunk = PatchHunk(anchors=["def f():"], lines=["-x", "+y"], line=3)
    assert parse_patch(patch)[0].hunks == [hunk]


def test_file_lines_that_look_like_markers_are_kept():
    patch = """*** Begin Patch
*** Update File: doc.md
 *** Begin Patch
-*** End Patch
+*** Add File: x
*** End Patch"""

    lines = [" *** Begin Patch", "-*** End Patch", "+*** Add File: x"]
    assert parse_patch(patch)[0].hunks[0].lines == lines


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no `*** Begin Patch`"),
        ("*** Begin Patch\n*** End Patch", "names no file"),
        ("*** Begin Patch\nx = 1\n*** Add File: a\n+x", "line 2: 'x = 1' belongs to no file"),
        ("*** Begin Patch\n*** Add File: a\n+x\ny\n", "line 4: every line of a new file"),
        ("*** Begin Patch\n*** Add File:\n+x", "line 2: the path is missing"),
        ("*** Begin Patch\n*** Update File: a\n x\n", "the update of a changes nothing"),
        ("*** Begin Patch\n*** Delete File: a\nx y\n", "line 3: `Delete File` takes no lines"),
    ],
)
def test_invalid_patch_is_rejected_with_line(text, words):
    with pytest.raises(ValueError) as refusal:
        parse_patch(text)

    assert words in str(refusal.value)


paths = st.text("abc/. é", min_size=1, max_size=8).map(str.strip).filter(bool)
texts = st.text("ab *+-@\t", max_size=6)
contents = st.lists(texts, max_size=4).map(lambda lines: "".join(f"{each}\n" for each in lines))
hunk_lines = st.builds(str.__add__, st.sampled_from("+- "), texts)
hunks = st.builds(
    PatchHunk,
    lines=st.lists(hunk_lines, min_size=1, max_size=5).filter(
        lambda lines: any(each[0] != " " for each in lines)
    ),
    anchors=st.lists(st.text("fg():", min_size=1, max_size=5), max_size=2),
    at_end=st.booleans(),
)
operations = st.one_of(
    st.builds(PatchOperation, action=st.just("create"), path=paths, content=contents),
    st.builds(PatchOperation, action=st.just("delete"), path=paths),
    st.builds(PatchOperation, action=st.just("rename"), path=paths, new_path=paths),
    st.builds(
        PatchOperation,
        action=st.just("update"),
        path=paths,
        new_path=st.none() | paths,
        hunks=st.lists(hunks, min_size=1, max_size=3),
    ),
)


def written(operation: PatchOperation) -> str:
    """The operation as patch text."""
    kind = {"create": "Add", "delete": "Delete"}.get(operation.action, "Update")
    lines = [f"*** {kind} File: {operation.path}"]
    if operation.new_path is not None:
        lines.append(f"*** Move to: {operation.new_path}")
    lines += [f"+{each}" for each in (operation.content or "").split("\n")[:-1]]
    for hunk in operation.hunks:
        lines += [f"@@ {each}" for each in hunk.anchors] or ["@@"]
        lines += hunk.lines
        lines += ["*** End of File"] if hunk.at_end else []
    return "\n".join(lines)


@settings(max_examples=size(50, 150), deadline=None)
@given(st.lists(operations, min_size=1, max_size=4))
def test_patch_text_round_trips(operations):
    text = "\n".join(["*** Begin Patch", *map(written, operations), "*** End Patch"])

    assert [without_blank_tails(each) for each in parse_patch(text)] == [
        without_blank_tails(each) for each in operations
    ]


def without_blank_tails(operation: PatchOperation) -> PatchOperation:
    """Empty context lines at the end of a hunk are dropped."""
    hunks = []
    for hunk in operation.hunks:
        lines = [*hunk.lines]
        while lines and lines[-1] == " ":
            lines.pop()
        hunks.append(
            PatchHunk(anchors=hunk.anchors, lines=lines, at_end=hunk.at_end, line=hunk.line)
        )
    return PatchOperation(
        action=operation.action,
        path=operation.path,
        content=operation.content,
        new_path=operation.new_path,
        hunks=hunks or (),
    )


pieces = st.sampled_from(
    [*PLAIN.splitlines(), "```", "EOF", "apply_patch <<EOF", "\\", "@@ -1 +1 @@", "  *** End Patch"]
)


@settings(max_examples=size(66, 200), deadline=None)
@given(st.one_of(st.text(max_size=80), st.lists(pieces | st.text(max_size=6)).map("\n".join)))
def test_any_patch_text_is_parsed_or_rejected_with_message(text):
    try:
        assert parse_patch(text)
    except ValueError as error:
        assert str(error)
