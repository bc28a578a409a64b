import time

import pytest

from dirge_py.files.assets import AssetStore
from dirge_py.tools.base import ToolServices
from dirge_py.tools.read import ReadTool
from dirge_py.tools.toolbox import Toolbox
from dirge_py.types.messages import DocumentBlock, ImageBlock, TextBlock

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"


@pytest.fixture
def tools_with_assets(tools, tmp_path):
    """The tools, with an asset store."""
    services = ToolServices(files=tools.workspace, assets=AssetStore(tmp_path / "assets"))
    tools.toolbox = Toolbox([ReadTool()], services, str(tools.folder))
    return tools


async def test_d01_read_shows_header_and_numbered_lines(tools):
    tools.put("a.txt", "one\ntwo\nthree\n")

    assert await tools.text("read", path="a.txt") == (
        "a.txt: lines 1-3 of 3\n\n1: one\n2: two\n3: three"
    )


async def test_line_numbers_are_right_aligned(tools):
    tools.put("a.txt", "x\n" * 12)

    lines = (await tools.text("read", path="a.txt", offset=9, limit=2)).split("\n")

    assert lines[0] == "a.txt: lines 9-10 of 12"
    assert lines[2:4] == [" 9: x", "10: x"]
    assert "offset=11" in lines[-1]


async def test_d03_offset_past_end_error_gives_line_count(tools):
    tools.put("a.txt", "x\n" * 10)

    assert "10 lines" in await tools.refusal("read", path="a.txt", offset=20)


async def test_d05_missing_file_error_suggests_similar_name(tools):
    tools.put("src/parser.py", "")

    assert "`parser.py`" in await tools.refusal("read", path="src/parserr.py")


async def test_withheld_file_is_not_suggested(tools):
    tools.put("secrets.txt", "")
    tools.workspace.withheld = lambda real: real.endswith("secrets.txt")

    assert await tools.refusal("read", path="secret.txt") == "secret.txt does not exist."


async def test_d09_read_of_folder_suggests_list_dir(tools):
    tools.put("src/x", "")

    assert "list_dir" in await tools.refusal("read", path="src")


async def test_d63_path_of_one_character_is_read(tools):
    tools.put("a", "x")

    assert "1: x" in await tools.text("read", path="a")


async def test_empty_file_is_reported_as_empty(tools):
    tools.put("a", "")

    assert "empty" in await tools.text("read", path="a")


async def test_read_shows_2000_lines_and_next_offset(tools):
    tools.put("a", "x\n" * 2500)

    text = await tools.text("read", path="a")

    assert text.startswith("a: lines 1-2000 of 2500\n")
    assert "offset=2001" in text


async def test_long_line_is_truncated_with_note(tools):
    tools.put("a", "x" * 20_000 + "\nnext")

    first, second, _, note = (await tools.text("read", path="a")).split("\n")[2:6]

    assert first == "1: " + "x" * 16_384 + " …[line truncated]"
    assert second == "2: next"
    assert "sed -n 1p FILE | cut -b16385-" in note


async def test_read_of_many_long_lines_is_limited(tools):
    tools.put("a", ("x" * 10_000 + "\n") * 100)

    text = await tools.text("read", path="a")

    assert len(text) < 300_000
    assert "lines 1-26 of 100" in text
    assert "offset=27" in text


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (PNG, "a binary file: PNG image (16 bytes)"),
        (b"PK\x03\x04\0\0", "ZIP archive"),
        (b"\x7fELF\x02\x01\0", "ELF program"),
        (b"SQLite format 3\0", "SQLite database"),
        (b"\0\x01\x02", "is a binary file (3 bytes)"),
        ("Привет, мир".encode("cp1251"), "`iconv`"),
    ],
)
async def test_binary_file_is_refused_with_its_kind(tools, content, words):
    tools.put("odd", content)

    assert words in await tools.refusal("read", path="odd")


@pytest.mark.parametrize(
    ("content", "media_type", "words"),
    [
        (PNG, "image/png", "a.x: PNG image, 16 B"),
        (b"\xff\xd8\xff\xe0", "image/jpeg", "a.x: JPEG image, 4 B"),
        (b"GIF89a\0", "image/gif", "a.x: GIF image, 7 B"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp", "a.x: WebP image, 16 B"),
    ],
)
async def test_s26_image_is_returned_as_image_block(
    tools_with_assets, tmp_path, content, media_type, words
):
    tools_with_assets.put("a.x", content)

    result = await tools_with_assets.call("read", path="a.x")

    text, picture = result.content
    assert not result.is_error
    assert text == TextBlock(words)
    assert isinstance(picture, ImageBlock)
    assert picture.media_type == media_type
    assert (tmp_path / "assets" / picture.asset_id).read_bytes() == content


async def test_s26_pdf_is_returned_as_document_block_with_name(tools_with_assets, tmp_path):
    tools_with_assets.put("docs/a.pdf", b"%PDF-1.7\n")

    text, document = (await tools_with_assets.call("read", path="docs/a.pdf")).content

    assert text == TextBlock("docs/a.pdf: PDF document, 9 B")
    assert isinstance(document, DocumentBlock)
    assert (document.media_type, document.name) == ("application/pdf", "a.pdf")
    assert (tmp_path / "assets" / document.asset_id).read_bytes() == b"%PDF-1.7\n"


@pytest.mark.parametrize(
    ("content", "limit"), [(PNG + bytes(5 << 20), "5 MiB"), (b"%PDF-" + bytes(20 << 20), "20 MiB")]
)
async def test_image_or_pdf_above_size_limit_is_refused(tools_with_assets, content, limit):
    tools_with_assets.put("large", content)

    assert f"at most {limit}" in await tools_with_assets.refusal("read", path="large")


async def test_text_that_is_not_utf8_is_shown_with_note(tools):
    tools.put("latin", "Grüße\nJürgen €\n".encode("cp1252"))

    lines = (await tools.text("read", path="latin")).split("\n")

    assert lines[2:] == [
        "1: Grüße",
        "2: Jürgen €",
        "",
        "(Not UTF-8: shown as Windows-1252; `edit` refuses it.)",
    ]
    refusal = await tools.refusal("edit", path="latin", old_text="Grüße", new_text="x")
    assert "UTF-8" in refusal


async def test_byte_order_mark_is_not_shown(tools):
    tools.put("a", "\ufeffone\n".encode())

    assert (await tools.text("read", path="a")).split("\n")[2:] == ["1: one"]


async def test_line_truncated_inside_character_is_still_utf8(tools):
    tools.put("a", "x" + "é" * 20_000)

    assert "Not UTF-8" not in await tools.text("read", path="a")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
async def test_utf16_and_utf32_text_is_readable_but_not_editable(tools, encoding):
    tools.put("wide", "ein Wort".encode(encoding))

    assert f"({encoding.upper()}; `edit` refuses it.)" in await tools.text("read", path="wide")
    refusal = await tools.refusal("edit", path="wide", old_text="ein", new_text="kein")
    assert "UTF-8" in refusal or "UTF-16" in refusal


async def test_utf16_text_with_byte_order_mark_is_shown(tools):
    tools.put("wide", "eins\r\nzwei\r\n".encode("utf-16"))

    assert "1: eins\n2: zwei" in await tools.text("read", path="wide")


@pytest.mark.parametrize("path", ["a\0b", "", "\udc80"])
def test_invalid_path_is_argument_error(tools, path):
    with pytest.raises(ValueError, match="`path`"):
        tools.toolbox.validate(tools.tool("read"), {"path": path})


async def test_read_in_50_mb_file_takes_less_than_2_s(tools):
    tools.put("big", b"0123456789abcde\n" * (50 * 65536))
    began = time.perf_counter()

    text = await tools.text("read", path="big", offset=3_000_000, limit=2)

    assert text.split("\n")[0] == "big: lines 3000000-3000001 of 3276800"
    assert time.perf_counter() - began < 2


async def test_lines_end_only_at_newlines(tools):
    tools.put("a", "one\x0b\x0c\x85\u2028two\nthree")

    assert "of 2\n" in await tools.text("read", path="a")
