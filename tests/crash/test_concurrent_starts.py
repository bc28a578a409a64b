import contextlib
import subprocess
import threading

from dirge_py.session.journal import read_journal
from tests.security.sizes import count, size
from tests.support.fake_service import ModelReply
from tests.support.forked_process import Piped
from tests.support.product import HeldReply, Product, finish

STARTS = size(4, 100)
AT_ONCE = 6


def test_only_one_of_many_starts_writes_a_session(product: Product) -> None:
    gate = threading.Event()
    mine = HeldReply(reply=ModelReply(text="mine"), gate=gate, patience_s=10.0 * STARTS)
    product.will(ModelReply(text="first"), *[mine] * STARTS)
    assert product.run("-p", "--session", "s", "begin").exit_code == 0
    before = read_journal(product.journals[0]).records

    # The one that is first holds the session until all the others have come and gone.
    started = [start(product, number) for number in range(min(STARTS, AT_ONCE))]
    product.service.wait_for(2)
    refused = 0
    for number in range(len(started), STARTS):
        refused += wait_for_one(started)
        started.append(start(product, number))
    while len(started) > 1:
        refused += wait_for_one(started)
    gate.set()
    [writer] = started

    assert finish(writer).exit_code == 0
    assert refused == STARTS - 1
    assert len(product.service.requests) == 2
    found = read_journal(product.journals[0])
    assert found.damage == []
    assert [record.seq for record in found.records] == list(range(1, len(found.records) + 1))
    assert found.records[: len(before)] == before
    prompts = [r.data for r in found.records[len(before) :] if r.type == "message"]
    assert [prompt["role"] for prompt in prompts] == ["user", "assistant"]
    count("crash: starts on one session at once", STARTS, 0, "second writers")


def start(product: Product, number: int) -> Piped:
    return product.start("-p", "--session", "s", f"start {number}")


def wait_for_one(started: list[Piped]) -> int:
    """Remove one process that ended with "session is busy" from the list; returns 1."""
    while True:
        for process in started:
            if process.poll() is not None:
                started.remove(process)
                result = finish(process)
                # Which process it is cannot be told in the instant before it has written its name.
                busy = "Session s is in use by"
                assert (result.exit_code, busy in result.stderr) == (1, True), result.stderr
                return 1
        with contextlib.suppress(subprocess.TimeoutExpired):
            started[0].wait(0.02)
