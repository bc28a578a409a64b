import os
import stat
import tracemalloc

import pytest

from dirge_py.processes.output import (
    KEEP_BYTES,
    MAX_FILE_BYTES,
    OutputCapture,
    OutputFile,
    OutputStore,
    excerpt,
)
from tests.security.sizes import size


def captured(*chunks: bytes, outputs: OutputStore | None = None):
    capture = OutputCapture((lambda: outputs.create("call")) if outputs else None)
    for chunk in chunks:
        capture.feed(chunk)
    return capture.finish()


def test_small_output_is_kept_without_file(outputs):
    output = captured(b"a\n", b"b", outputs=outputs)

    assert (output.head, output.total_bytes, output.total_lines, output.path) == (b"a\nb", 3, 2, "")
    assert not outputs.folder.exists()
    assert excerpt(output) == "a\nb"


def test_output_over_200_lines_shows_first_and_last_50_lines(outputs):
    output = captured(b"".join(b"%d\n" % n for n in range(1, 1001)), outputs=outputs)

    lines = excerpt(output).split("\n")
    shown = [line for line in lines if line.isdecimal()]
    assert shown == [str(n) for n in [*range(1, 51), *range(951, 1001)]]
    assert "900 lines" in excerpt(output) and output.path in excerpt(output)


def test_output_file_is_complete_and_private(outputs):
    chunks = [b"%d\n" % n * 500 for n in range(100)]
    output = captured(*chunks, outputs=outputs)

    with open(output.path, "rb") as file:
        assert file.read() == b"".join(chunks)
    assert stat.S_IMODE(os.stat(output.path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(outputs.folder).st_mode) == 0o700


def test_head_and_tail_of_large_output_are_kept():
    capture = OutputCapture()
    for n in range(20_000):
        capture.feed(b"%063d\n" % n)
    output = capture.finish()

    assert output.total_bytes == 20_000 * 64
    assert output.head == b"".join(b"%063d\n" % n for n in range(KEEP_BYTES // 64))
    assert output.tail.endswith(b"%063d\n" % 19_999) and len(output.tail) == KEEP_BYTES


def test_output_is_truncated_between_characters():
    output = captured("é€𝄞".encode() * 100_000)

    assert "\ufffd" not in excerpt(output)


def test_bytes_that_are_not_text_are_replaced():
    text = excerpt(captured(b"\xff\x00\x01ok\r\n"))

    assert text == "\ufffd\ufffd\ufffdok\n"


def test_one_huge_line_is_truncated_in_middle():
    output = captured(*[b"x" * 65_536] * 100)

    assert len(excerpt(output)) < 20_000
    assert "bytes are left out" in excerpt(output)


def test_cursor_movements_in_the_end_leave_the_note_about_the_rest():
    lines = b"".join(b"line %d\n" % n for n in range(2000))
    text = excerpt(captured(lines + b"\x1b[99A\x1b[Jlast\n"))

    assert text.startswith("line 0\n")
    assert "are left out" in text
    assert text.endswith("last\n")


@pytest.mark.parametrize("lines", [60, 101, 199, 200, 201])
@pytest.mark.parametrize("width", [1, 100, 300])
def test_shown_and_omitted_bytes_add_up_to_total(lines, width):
    data = b"".join(b"%04d" % n + b"x" * width + b"\n" for n in range(lines))
    text = excerpt(captured(data))

    head, found, tail = text.partition("\n\n[")
    if not found:
        assert text.encode() == data
        return
    tail = tail.partition("]\n\n")[2]
    left_out = int(text.split("\n\n[")[1].partition(" bytes")[0].split("(")[-1].replace(",", ""))
    assert data.startswith(head.encode()) and data.endswith(tail.encode())
    assert len(data) - len(head) - len(tail) - left_out in (0, 1)


def test_live_tail_is_short_and_valid_utf8():
    capture = OutputCapture()
    capture.feed("é".encode() * 100_000)

    assert set(capture.live_tail()) == {"é"}
    assert len(capture.live_tail()) <= 2048


def test_full_disk_is_reported_and_result_is_kept():
    capture = OutputCapture(_full)
    capture.feed(b"line\n" * 5000)
    output = capture.finish()

    assert output.path == ""
    assert "could not be kept: No space left" in excerpt(output)


def _full() -> OutputFile:
    # Under another path, because a file that can't be written is removed.
    return OutputFile(path="/nonexistent/full", _fd=os.open("/dev/full", os.O_WRONLY))


def test_unusable_output_folder_is_reported(tmp_path):
    (tmp_path / "file").touch()
    output = captured(b"line\n" * 5000, outputs=OutputStore(tmp_path / "file" / "output"))

    assert "could not be kept" in excerpt(output)


def test_call_ids_are_sanitized_and_files_are_not_overwritten(outputs):
    first, second = outputs.create("../../etc/passwd"), outputs.create("../../etc/passwd")
    for file in (first, second):
        file.close()

    names = sorted(os.listdir(outputs.folder))
    assert names == ["etc_passwd-2.txt", "etc_passwd.txt"]


def test_symlink_at_output_path_is_not_followed(outputs, tmp_path):
    outputs.folder.mkdir()
    (outputs.folder / "call.txt").symlink_to(tmp_path / "elsewhere")
    path = outputs.keep("call", b"x")

    assert path.endswith("call-2.txt")
    assert not (tmp_path / "elsewhere").exists()


async def test_large_output_uses_little_memory(runner, tmp_path, outputs):
    much = size(200, 1000) * 1_000_000
    tracemalloc.start()
    finished = await runner.run(
        f"head -c {much} /dev/zero", cwd=str(tmp_path), outputs=outputs, call_id="big"
    )
    _now, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert finished.output.total_bytes == much
    assert os.path.getsize(finished.output.path) == MAX_FILE_BYTES
    assert finished.output.is_file_cut and "first 64 MiB" in excerpt(finished.output)
    assert peak < 4 * 1024 * 1024
    os.unlink(finished.output.path)
