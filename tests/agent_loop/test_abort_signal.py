import asyncio
import threading

from dirge_py.types.abort import AbortSignal


async def test_wait_ends_with_the_abort_or_the_unless_future() -> None:
    signal = AbortSignal()
    answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    by_answer = asyncio.ensure_future(signal.wait(unless=answer))
    by_abort = asyncio.ensure_future(signal.wait(unless=asyncio.Future()))

    answer.set_result(1)
    await by_answer
    assert not by_abort.done()

    signal.abort()
    await by_abort


async def test_wait_with_a_finished_unless_future_returns_immediately() -> None:
    answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    answer.set_result(1)

    await AbortSignal().wait(unless=answer)


async def test_case_43_only_the_first_abort_counts_and_works_from_any_thread() -> None:
    signal = AbortSignal()
    heard: list[str] = []
    signal.on_abort(lambda: heard.append("once"))
    waiting = asyncio.ensure_future(signal.wait())
    await asyncio.sleep(0)

    thread = threading.Thread(target=signal.abort, args=("first",))
    thread.start()
    await waiting
    thread.join()
    signal.abort("second")

    assert (signal.aborted, signal.reason, heard) == (True, "first", ["once"])
    await signal.wait()
    signal.on_abort(lambda: heard.append("late"))
    assert heard == ["once", "late"]


def test_callback_registered_twice_is_called_once_per_remaining_registration() -> None:
    heard: list[str] = []

    def callback() -> None:
        heard.append("called")

    for removals, calls in ((0, 2), (1, 1), (2, 0)):
        signal = AbortSignal()
        remove = [signal.on_abort(callback), signal.on_abort(callback)]
        for forget in remove[:removals]:
            forget()
            forget()  # a repeated removal removes no other registration
        signal.abort()
        assert len(heard) == calls
        heard.clear()
