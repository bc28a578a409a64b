"""The terminal of a user's command when its size changes."""

from rich.style import Style

from dirge_py.ui.panels.emulator import Emulator


def drawn(emulator: Emulator, row: int, back: int = 0) -> str:
    return "".join(text for text, _ in emulator.line(row, Style(), back=back)).rstrip()


def test_emulator_resized_to_fewer_rows_keeps_lines_up_to_cursor() -> None:
    few, many = (Emulator(rows=6, columns=20, answer=lambda _: None) for _ in range(2))
    few.feed(b"one\r\ntwo")
    many.feed(b"1\r\n2\r\n3\r\n4\r\n5")
    for emulator in (few, many):
        emulator.work(1)
        emulator.resize(rows=3, columns=20)
        emulator.feed(b"!")
        emulator.work(1)

    assert [drawn(few, row) for row in range(3)] == ["one", "two!", ""]
    assert [drawn(many, row) for row in range(3)] == ["3", "4", "5!"]
    assert drawn(many, 0, back=1) == "2"
