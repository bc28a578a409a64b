import time

import pytest


async def test_d01_a_header_then_numbered_lines(bench):
    bench.put("a.txt", "one\ntwo\nthree\n")

    assert await bench.text("read", path="a.txt") == (
        "a.txt: lines 1-3 of 3\n\n1: one\n2: two\n3: three"
    )


async def test_numbers_are_aligned_to_the_right(bench):
    bench.put("a.txt", "x\n" * 12)

    lines = (await bench.text("read", path="a.txt", offset=9, limit=2)).split("\n")

    assert lines[0] == "a.txt: lines 9-10 of 12"
    assert lines[2:4] == [" 9: x", "10: x"]
    assert "offset=11" in lines[-1]


async def test_d03_an_offset_behind_the_end_says_how_many_lines_there_are(bench):
    bench.put("a.txt", "x\n" * 10)

    assert "10 lines" in await bench.refusal("read", path="a.txt", offset=20)


async def test_d05_a_missing_file_names_one_like_it(bench):
    bench.put("src/parser.py", "")

    assert "`parser.py`" in await bench.refusal("read", path="src/parserr.py")


async def test_d09_a_folder_leads_to_list_dir(bench):
    bench.put("src/x", "")

    assert "list_dir" in await bench.refusal("read", path="src")


async def test_d63_a_name_of_one_character_is_a_name(bench):
    bench.put("a", "x")

    assert "1: x" in await bench.text("read", path="a")


async def test_an_empty_file_is_said_to_be_empty(bench):
    bench.put("a", "")

    assert "empty" in await bench.text("read", path="a")


async def test_2000_lines_at_once_and_how_to_go_on(bench):
    bench.put("a", "x\n" * 2500)

    text = await bench.text("read", path="a")

    assert text.startswith("a: lines 1-2000 of 2500\n")
    assert "offset=2001" in text


async def test_a_long_line_is_cut_visibly(bench):
    bench.put("a", "x" * 20_000 + "\nnext")

    first, second = (await bench.text("read", path="a")).split("\n")[2:4]

    assert first == "1: " + "x" * 16_384 + " …[line truncated]"
    assert second == "2: next"


async def test_many_long_lines_do_not_add_up_without_end(bench):
    bench.put("a", ("x" * 10_000 + "\n") * 100)

    text = await bench.text("read", path="a")

    assert len(text) < 300_000
    assert "lines 1-26 of 100" in text
    assert "offset=27" in text


async def test_binary_content_is_refused(bench):
    bench.put("image", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")

    assert "binary" in await bench.refusal("read", path="image")


async def test_bytes_that_are_no_utf8_are_shown_as_replacements(bench):
    bench.put("latin", "Grüße, Jürgen\n".encode("latin-1"))

    assert "1: Gr\ufffd\ufffde, J\ufffdrgen" in await bench.text("read", path="latin")


async def test_utf16_with_its_mark_is_shown_as_text(bench):
    bench.put("wide", "eins\r\nzwei\r\n".encode("utf-16"))

    assert "1: eins\n2: zwei" in await bench.text("read", path="wide")


@pytest.mark.parametrize("path", ["a\0b", "", "\udc80"])
def test_a_path_no_file_can_have_is_refused_with_the_arguments(bench, path):
    with pytest.raises(ValueError, match="`path`"):
        bench.toolbox.validate(bench.tool("read"), {"path": path})


async def test_a_piece_of_a_50_mb_file_comes_quickly(bench):
    bench.put("big", b"0123456789abcde\n" * (50 * 65536))
    began = time.perf_counter()

    text = await bench.text("read", path="big", offset=3_000_000, limit=2)

    assert text.split("\n")[0] == "big: lines 3000000-3000001 of 3276800"
    assert time.perf_counter() - began < 2


async def test_lines_end_only_at_newlines(bench):
    bench.put("a", "one\x0b\x0c\x85\u2028two\nthree")

    assert "of 2\n" in await bench.text("read", path="a")
