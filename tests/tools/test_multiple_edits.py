import pytest

from dirge_py.types.tools import InvalidArguments


async def test_several_edits_are_applied_in_order_with_one_diff(tools):
    file = tools.put("a", b"one\r\ntwo\r\nthree\r\n")
    await tools.text("read", path="a")

    result = await tools.call(
        "edit",
        path="a",
        edits=[
            {"old_text": "one", "new_text": "1"},
            {"old_text": "1\ntwo", "new_text": "1\n2"},
            {"old_text": "three", "new_text": "3"},
        ],
    )

    assert file.read_bytes() == b"1\r\n2\r\n3\r\n"
    assert result.text.startswith("Applied edit to a at 3 places (+3 -3 lines).")
    assert result.details["diff"].count("@@ ") == 1


async def test_failing_edit_of_several_undoes_all_and_is_named(tools):
    file = tools.put("a", "one\ntwo\n")
    await tools.text("read", path="a")

    text = await tools.refusal(
        "edit",
        path="a",
        edits=[{"old_text": "one", "new_text": "1"}, {"old_text": "six", "new_text": "6"}],
    )

    assert text.startswith("edits[1]: old_text was not found in a")
    assert file.read_text() == "one\ntwo\n"


async def test_distant_edits_in_long_file_show_only_changed_lines(tools):
    tools.put("a", "".join(f"line {n}\n" for n in range(5000)))
    await tools.text("read", path="a")

    result = await tools.call(
        "edit",
        path="a",
        edits=[
            {"old_text": "line 3\n", "new_text": "three\n"},
            {"old_text": "line 4990\n", "new_text": "late\n"},
        ],
    )

    assert (result.details["added"], result.details["removed"]) == (2, 2)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"old_text": "a"},
        {"new_text": "b"},
        {"edits": []},
        {"old_text": "a", "new_text": "b", "edits": [{"old_text": "c", "new_text": "d"}]},
        {"edits": [{"old_text": "c"}]},
    ],
)
async def test_edit_takes_either_old_and_new_text_or_edits(tools, arguments):
    tools.put("a", "a\nc\n")

    with pytest.raises(InvalidArguments):
        await tools.call("edit", path="a", **arguments)


async def test_empty_alternative_arguments_are_ignored(tools):
    file = tools.put("a", "one\n")
    await tools.text("read", path="a")

    edits = [{"old_string": "one", "new_string": "two"}]
    await tools.text("edit", path="a", old_text="", new_text="", edits=edits)
    await tools.text("edit", path="a", old_text="two", new_text="", edits=[])

    assert file.read_text() == "\n"


FUNCTION = """def total(items, tax):
    # sum it up, with the tax
    amount = sum(item.price for item in items)
    amount = amount * (1 + tax)
    log.debug("total is %s", amount)
    return amount
"""


async def test_almost_matching_lines_are_anchored_by_first_and_last_line(tools):
    file = tools.put("a.py", FUNCTION)
    await tools.text("read", path="a.py")
    old = FUNCTION.replace("# sum it up, with the tax", "# sum it up with tax")

    text = await tools.text(
        "edit", path="a.py", old_text=old, new_text=old.replace("(1 + tax)", "(1.0 + tax)")
    )

    assert "anchored by first and last line" in text
    assert file.read_text() == FUNCTION.replace("(1 + tax)", "(1.0 + tax)")


async def test_almost_matching_lines_in_two_places_are_refused(tools):
    content = FUNCTION + "\n" + FUNCTION
    file = tools.put("a.py", content)
    await tools.text("read", path="a.py")
    old = FUNCTION.replace("# sum it up, with the tax", "# sum it up with tax")

    text = await tools.refusal("edit", path="a.py", old_text=old, new_text="pass\n")

    assert "occurs 2 times in a.py (anchored by first and last line): lines 1, 8" in text
    assert file.read_text() == content


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # A line that old_text lacks would be lost.
        (
            FUNCTION.replace('    log.debug("total is %s", amount)\n', ""),
            "def total():\n    pass\n",
        ),
        # No line in between is similar.
        ("def total(items, tax):\n    nothing\n    like\n    this\n    return amount\n", "x\n"),
    ],
)
async def test_lines_too_different_from_file_are_not_replaced(tools, old, new):
    file = tools.put("a.py", FUNCTION)
    await tools.text("read", path="a.py")

    assert "was not found" in await tools.refusal("edit", path="a.py", old_text=old, new_text=new)
    assert file.read_text() == FUNCTION


async def test_edit_of_changed_file_is_refused_with_current_lines_and_then_applied(tools):
    file = tools.put("a", "".join(f"{n}\n" for n in range(100)))
    await tools.text("read", path="a")
    file.write_text(file.read_text().replace("48\n", "forty-eight\n"))
    edit = {"path": "a", "old_text": "50\n", "new_text": "fifty\n"}

    text = await tools.refusal("edit", **edit)

    assert "a has changed since it was read; nothing was written." in text
    assert "49: forty-eight\n50: 49\n51: 50\n52: 51" in text
    assert "forty-eight\n49\n50\n" in file.read_text()

    await tools.text("edit", **edit)
    assert "forty-eight\n49\nfifty\n" in file.read_text()


async def test_edit_of_changed_file_without_old_text_needs_new_read(tools):
    file = tools.put("a", "one\ntwo\n")
    await tools.text("read", path="a")
    file.write_text("eins\nzwei\n")

    for _ in range(2):
        text = await tools.refusal("edit", path="a", old_text="one", new_text="1")
        assert "Use `read` on it again" in text


async def test_repeated_failure_shows_file_and_then_suggests_other_tools(tools):
    tools.put("a", "".join(f"line {n}\n" for n in range(1, 40)))
    await tools.text("read", path="a")
    edit = {"path": "a", "old_text": "line 7\nline 9\n", "new_text": "x\n"}

    first = await tools.refusal("edit", **edit)
    second = await tools.refusal("edit", **edit)
    third = await tools.refusal("edit", **edit)

    assert "The nearest lines are:\n7: line 7\n8: line 8" in first
    assert "now reads, from line 1:" in second
    assert "39: line 39" in second
    assert "replace the whole function" not in second
    assert "replace the whole function" in third
    assert "or the whole file with `write`" in third

    await tools.text("edit", path="a", old_text="line 8", new_text="8")
    assert "now reads" not in await tools.refusal("edit", **edit)
