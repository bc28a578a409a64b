from dirge_py.types.tools import Claim


async def test_d23_write_creates_folders_and_reports_size(tools):
    text = await tools.text("write", path="x/y/z.txt", content="one\ntwo\n")

    assert text == "Created x/y/z.txt: 8 bytes (2 lines)."
    assert (tools.folder / "x/y/z.txt").read_text() == "one\ntwo\n"


async def test_unread_file_is_not_overwritten(tools):
    file = tools.put("a", "theirs")

    assert "not been read" in await tools.refusal("write", path="a", content="ours")
    assert file.read_text() == "theirs"


async def test_read_file_can_be_overwritten(tools):
    file = tools.put("a", "one\ntwo\n")
    await tools.text("read", path="a")

    result = await tools.call("write", path="a", content="one\n2")

    assert result.text == "Wrote a: 5 bytes (2 lines)."
    assert file.read_text() == "one\n2"
    assert (result.details["added"], result.details["removed"]) == (1, 1)


async def test_write_counts_as_read(tools):
    await tools.text("write", path="a", content="one")
    await tools.text("write", path="a", content="two")
    await tools.text("edit", path="a", old_text="two", new_text="three")

    assert (tools.folder / "a").read_text() == "three"


async def test_d25_write_through_symlink_keeps_link_and_changes_target(tools):
    file = tools.put("real", "old")
    (tools.folder / "link").symlink_to("real")
    await tools.text("read", path="link")

    await tools.text("write", path="link", content="new")

    assert (tools.folder / "link").is_symlink()
    assert file.read_text() == "new"


async def test_write_to_folder_is_refused(tools):
    (tools.folder / "src").mkdir()

    assert "folder" in await tools.refusal("write", path="src", content="x")


async def test_write_outside_workspace_needs_approval(tools):
    outside = tools.folder.parent / "outside"

    assert "may not open" in await tools.refusal("write", path="../outside", content="x")
    assert not outside.exists()

    tools.workspace.approve("call", [str(outside)])
    await tools.text("write", path="../outside", content="x")
    assert outside.read_text() == "x"


async def test_preview_of_new_file_shows_whole_content(tools):
    preview = tools.preview("write", path="a", content="one\n")

    assert preview.text == "--- /dev/null\n+++ a\n@@ -0,0 +1,1 @@\n+one"
    assert not (tools.folder / "a").exists()


def test_write_claims_edit_of_absolute_path(tools):
    claims = tools.toolbox.claims("write", {"path": "x/../a", "content": ""})

    assert claims == [Claim("edit", f"{tools.folder}/x/../a")]


async def test_append_adds_exact_content(tools):
    file = tools.put("log", "one\n")
    text = await tools.text("write", path="log", content="two\nthree", mode="append")

    assert text == "Appended to log: 9 bytes (2 lines)."
    assert file.read_bytes() == b"one\ntwo\nthree"


async def test_append_to_unterminated_line_adds_note(tools):
    file = tools.put("log", b"one\r\ntw")
    text = await tools.text("write", path="log", content="o\n", mode="append")

    assert text.endswith(
        "bytes (1 lines). The file did not end with a newline, so the new text"
        " continues its last line."
    )
    assert file.read_bytes() == b"one\r\ntwo\n"


async def test_append_to_missing_file_creates_it(tools):
    text = await tools.text("write", path="x/log", content="one\n", mode="append")

    assert text == "Created x/log: 4 bytes (1 lines)."
    assert (tools.folder / "x/log").read_text() == "one\n"


async def test_append_does_not_count_as_read(tools):
    file = tools.put("log", "theirs\n")
    await tools.text("write", path="log", content="ours\n", mode="append")

    assert "not been read" in await tools.refusal("write", path="log", content="all ours")
    assert "not been read" in await tools.refusal(
        "edit", path="log", old_text="theirs", new_text="ours"
    )
    assert file.read_text() == "theirs\nours\n"


async def test_append_to_read_file_keeps_it_read(tools):
    file = tools.put("log", "one\n")
    await tools.text("read", path="log")
    await tools.text("write", path="log", content="two\n", mode="append")
    await tools.text("write", path="log", content="three\n", mode="append")
    await tools.text("edit", path="log", old_text="two", new_text="2")

    assert file.read_text() == "one\n2\nthree\n"


async def test_append_to_utf16_file_is_refused(tools):
    file = tools.put("log", "\ufeffone".encode("utf-16-le"))

    refusal = await tools.refusal("write", path="log", content="two", mode="append")

    assert "UTF-16" in refusal
    assert file.read_bytes() == "\ufeffone".encode("utf-16-le")


async def test_append_preview_shows_added_lines(tools):
    tools.put("log", "one\n")
    preview = tools.preview("write", path="log", content="two\n", mode="append")

    assert [line for line in preview.text.splitlines() if line[:1] in "+-"][2:] == ["+two"]
    assert preview.changes[0].after == "one\ntwo\n"
