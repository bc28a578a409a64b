import os
import stat

import pytest

from dirge_py.context.attachments import Attacher, mentions
from dirge_py.types.errors import FileError
from dirge_py.types.messages import DocumentBlock, ImageBlock, TextBlock

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    (tmp_path / "two words.txt").write_text("x")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "b.py").write_text("b")
    return tmp_path


def mentioned(text, folder):
    return [written for written, _ in mentions(text, folder)]


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("look at @a.txt", ["a.txt"]),
        ("@a.txt", ["a.txt"]),
        ("(see @a.txt)", ["a.txt"]),
        ("is it @a.txt, @src/b.py or @src/?", ["a.txt", "src/b.py", "src/"]),
        ("read @a.txt.", ["a.txt"]),
        ('the @"two words.txt" file', ["two words.txt"]),
        ("the @'two words.txt' file", ["two words.txt"]),
        ("mail me@a.txt", []),
        ("@nobody said @", []),
        ("@@a.txt", []),
        ("@property\ndef x", []),
        ("@" + "x" * 5000, []),
        ("@\0", []),
    ],
)
def test_mentions_finds_at_words_that_name_existing_paths(folder, text, paths):
    assert mentioned(text, folder) == paths


def test_mention_of_file_ending_in_punctuation_names_that_file(folder):
    (folder / "a.txt.").write_text("dot")

    assert mentioned("@a.txt.", folder) == ["a.txt."]


def test_mentioned_file_is_attached_as_text_after_prompt(folder):
    message = Attacher(cwd=folder).attach("explain @a.txt")

    assert message.content == (
        TextBlock("explain @a.txt"),
        TextBlock("Attached file a.txt:\n\n1: one\n2: two"),
    )
    assert message.attached == ("a.txt",)


def test_mentioned_folder_is_attached_as_listing(folder):
    (folder / "src" / "deep").mkdir()

    assert Attacher(cwd=folder).attach("@src").content[1].text.endswith("\n\ndeep/\nb.py")


def test_mentioned_image_is_stored_privately_and_sent_as_image_block(folder, tmp_path):
    (folder / "shot.png").write_bytes(PNG)
    assets = tmp_path / "assets"

    message = Attacher(cwd=folder, asset_dir=assets).attach("@shot.png and @./shot.png")

    images = [block for block in message.content if isinstance(block, ImageBlock)]
    assert images[0] == images[1]
    assert images[0].media_type == "image/png"
    stored = assets / images[0].asset_id
    assert stored.read_bytes() == PNG
    assert stat.S_IMODE(os.stat(stored).st_mode) == 0o600


def test_mentioned_pdf_is_stored_and_sent_as_document_block(folder, tmp_path):
    (folder / "a b.pdf").write_bytes(b"%PDF-1.7\nx")

    message = Attacher(cwd=folder, asset_dir=tmp_path / "assets").attach('see @"a b.pdf"')

    title, block = message.content[1:]
    assert title == TextBlock("Attached document a b.pdf:")
    assert isinstance(block, DocumentBlock)
    assert (block.media_type, block.name) == ("application/pdf", "a b.pdf")
    assert (tmp_path / "assets" / block.asset_id).read_bytes() == b"%PDF-1.7\nx"


def test_image_larger_than_5_mib_raises_error(folder, tmp_path):
    (folder / "big.png").write_bytes(PNG + bytes(5 << 20))

    with pytest.raises(FileError, match="larger than 5 MiB"):
        Attacher(cwd=folder, asset_dir=tmp_path / "assets").attach("@big.png")


def test_file_mentioned_twice_is_attached_once(folder):
    assert len(Attacher(cwd=folder).attach("@a.txt @a.txt").content) == 2


def test_mention_of_missing_path_stays_text(folder):
    message = Attacher(cwd=folder).attach("ask @alice about @missing.txt")

    assert message.content == (TextBlock("ask @alice about @missing.txt"),)


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"a\0b", "neither text"), (b"x" * (256 * 1024 + 1), "larger than 256 KiB")],
)
def test_binary_or_too_large_file_raises_error_with_hint(folder, content, words):
    (folder / "odd").write_bytes(content)

    with pytest.raises(FileError, match=words) as caught:
        Attacher(cwd=folder).attach("@odd")
    assert caught.value.hint


def test_image_without_asset_folder_raises_error(folder):
    (folder / "shot.png").write_bytes(PNG)

    with pytest.raises(FileError, match="cannot store images"):
        Attacher(cwd=folder).attach("@shot.png")


def test_mentioned_pipe_raises_error_without_blocking(folder):
    os.mkfifo(folder / "pipe")

    with pytest.raises(FileError, match="not a regular file"):
        Attacher(cwd=folder).attach("@pipe")


def test_mentioned_dangling_symlink_raises_error(folder):
    (folder / "gone").symlink_to("nowhere")

    with pytest.raises(FileError, match="@gone"):
        Attacher(cwd=folder).attach("@gone")


def test_mention_with_line_range_attaches_only_those_lines(folder):
    (folder / "long.txt").write_text("".join(f"line {n}\n" for n in range(1, 30)))
    attacher = Attacher(cwd=folder)

    message = attacher.attach("see @long.txt:9-10, and @long.txt:3.")
    assert message.attached == ("long.txt:9-10", "long.txt:3")
    assert message.content[1].text.endswith(":\n\n 9: line 9\n10: line 10")
    assert message.content[2].text.endswith(":\n\n3: line 3")
    with pytest.raises(FileError, match="has 29 lines"):
        attacher.attach("@long.txt:31-40")


def test_mention_of_file_named_like_line_range_attaches_file(folder):
    (folder / "odd:2").write_text("one\ntwo\n")

    assert "1: one\n2: two" in Attacher(cwd=folder).attach("@odd:2").content[1].text
