"""What one headless turn imports, starts, syncs and writes: counts, the same on every machine."""

from typing import Any

import pytest

from tests.speed.conftest import Counts, is_ours, print_turn
from tests.support.fake_service import ModelReply, ReceivedRequest
from tests.support.product import Product

DELTAS = 2000
TEXT = "word " * DELTAS


def answer(request: ReceivedRequest) -> ModelReply:
    return ModelReply(text="ok")


def long_answer(request: ReceivedRequest) -> ModelReply:
    return ModelReply(text=TEXT)


def long_answer_in_deltas(request: ReceivedRequest) -> ModelReply:
    return ModelReply(text=TEXT, delta_chars=len(TEXT) // DELTAS)


@pytest.fixture
def answered(product: Product) -> Counts:
    return print_turn(product, answer)


def test_print_turn_imports_no_more_modules(answered: Counts, bounds: dict[str, Any]) -> None:
    most = bounds["print_turn"]
    ours = sum(map(is_ours, answered.modules))
    assert ours <= most["dirge_modules"]
    assert len(answered.modules) - ours <= most["other_modules"]


def test_print_turn_imports_no_library_of_another_path(
    answered: Counts, bounds: dict[str, Any]
) -> None:
    assert answered.modules & set(bounds["print_turn"]["unwanted"]) == set()


@pytest.mark.parametrize(
    ("turn", "call"),
    [
        ("print_turn", None),
        ("read_turn", ("read", {"path": "a.txt"})),
        ("bash_turn", ("bash", {"command": "cat a.txt"})),
    ],
)
def test_turn_starts_processes_syncs_and_writes_no_more_often(
    product: Product, bounds: dict[str, Any], turn: str, call: tuple[str, Any] | None
) -> None:
    def reply(request: ReceivedRequest) -> ModelReply:
        is_first = all(message["role"] != "tool" for message in request.json["messages"])
        return ModelReply(calls=[call]) if call and is_first else ModelReply(text="ok")

    product.file("a.txt", "a line\n")
    counts = print_turn(product, reply)
    most = bounds[turn]
    assert counts.processes <= most["processes"], counts.report["processes"]
    assert counts.git_commands <= most["git_commands"], counts.report["processes"]
    assert counts.fsyncs <= most["fsyncs"]
    assert counts.writes <= most["writes"]


def test_delta_adds_nothing_to_session_and_text(product: Product, bounds: dict[str, Any]) -> None:
    whole, pieces = print_turn(product, long_answer), print_turn(product, long_answer_in_deltas)
    assert pieces.session_bytes <= whole.session_bytes
    assert pieces.stdout == whole.stdout == f"{TEXT}\n"
    assert pieces.writes <= bounds["streaming"]["text_writes"]


def test_delta_adds_one_short_line_to_json(product: Product, bounds: dict[str, Any]) -> None:
    words = ("--output-format", "stream-json", "--include-partial-messages")
    whole = print_turn(product, long_answer, *words)
    pieces = print_turn(product, long_answer_in_deltas, *words)
    most = bounds["streaming"]
    assert len(pieces.stdout) - len(whole.stdout) <= DELTAS * most["json_bytes_per_delta"]
    assert pieces.writes - whole.writes <= DELTAS * most["json_writes_per_delta"]
