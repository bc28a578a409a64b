"""What a model is shown of a command's output: all of it, or its beginning and its end."""

from dirge_py.processes.output import BoundedOutput, readable, whole_characters

EXCERPT_LINES = 50
"""Lines shown of the beginning, and of the end."""

EXCERPT_BYTES = 8 * 1024
"""Most that is shown of either, however long their lines are."""


def excerpt(output: BoundedOutput) -> str:
    """The output as text. If something is left out, it says how much and where all of it is."""
    kept = output.head + output.tail
    is_contiguous = len(kept) == output.total_bytes
    if is_contiguous and output.is_small:
        return readable(whole_characters(kept))
    first = _first_lines(output.head)
    last = _last_lines(kept if is_contiguous else output.tail)
    left_out = output.total_bytes - len(first) - len(last)
    if left_out <= 0:
        return readable(whole_characters(kept))
    beginning = whole_characters(first, is_cut_after=True)
    ending = whole_characters(last, is_cut_before=True)
    note = f"[{_amount(output, first, last, left_out)} left out. {_whereabouts(output)}]"
    return readable(f"{beginning.removesuffix(chr(10))}\n\n{note}\n\n{ending}")


def _first_lines(data: bytes) -> bytes:
    end = -1
    for _ in range(EXCERPT_LINES):
        end = data.find(b"\n", end + 1)
        if end < 0 or end >= EXCERPT_BYTES:
            return data[:EXCERPT_BYTES]
    return data[: end + 1]


def _last_lines(data: bytes) -> bytes:
    start = len(data) - data.endswith(b"\n")
    for _ in range(EXCERPT_LINES):
        start = data.rfind(b"\n", 0, start)
        if start < 0 or start < len(data) - EXCERPT_BYTES:
            return data[-EXCERPT_BYTES:]
    return data[start + 1 :]


def _amount(output: BoundedOutput, first: bytes, last: bytes, left_out: int) -> str:
    lines = output.total_lines - first.count(b"\n") - last.count(b"\n")
    amount = f"{left_out:,} bytes"
    return f"{lines:,} lines ({amount}) are" if lines > 1 else f"{amount} are"


def _whereabouts(output: BoundedOutput) -> str:
    if output.file_error:
        return f"The full output could not be kept: {output.file_error}."
    if not output.path:
        return "The full output was not kept; narrow the command to see the rest."
    if output.is_file_cut:
        return f"The first 64 MiB of the output are in {output.path}: read or search that file."
    return f"The full output is in {output.path}: read or search that file."
