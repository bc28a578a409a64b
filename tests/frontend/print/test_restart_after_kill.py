"""Killed during work, and started again."""

import signal
from pathlib import Path

from tests.support.fake_service import ModelReply
from tests.support.product import Product, finish
from tests.support.terminal import until

NAMES = [f"f{number}.txt" for number in range(150)]


def count_of_new(project: Path) -> int:
    return sum((project / name).read_text() == "new\n" for name in NAMES)


def test_patch_interrupted_by_kill_is_rolled_back_at_next_start(
    product: Product,
) -> None:
    for name in NAMES:
        product.file(name, "old\n")
    update = [
        {"action": "update", "path": name, "old_text": "old", "new_text": "new"} for name in NAMES
    ]
    product.will(
        ModelReply(calls=[("read", {"path": name}) for name in NAMES]),
        ModelReply(calls=[("apply_patch", {"operations": update})]),
        ModelReply(text="back"),
        ModelReply(text="back"),
    )

    killed = product.start("-p", "go")
    until(lambda: (product.project / NAMES[0]).read_text() == "new\n")
    killed.send_signal(signal.SIGKILL)
    finish(killed)
    assert 0 < count_of_new(product.project) < len(NAMES) / 2
    result = product.run("-p", "-c", "and now?")

    assert result.stdout == "back\n"
    assert count_of_new(product.project) == 0
    assert "A change of several files was interrupted and undone: " in result.stderr
    assert "(apply_patch) were closed as not finished; nothing is run again" in result.stderr
    assert {path.name for path in product.project.iterdir()} == {*NAMES, ".git"}
