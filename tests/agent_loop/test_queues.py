import threading

import pytest

from dirge_py.agent_loop.queues import InputQueue
from dirge_py.types.messages import user_text


def texts(items):
    return [item.message.text for item in items]


@pytest.mark.parametrize(
    ("mode", "polls"), [("all", [["a", "b", "c"], []]), ("one-at-a-time", [["a"], ["b"]])]
)
def test_queue_mode_decides_how_many_messages_are_drained(mode, polls):
    queue = InputQueue("steering", mode)
    for text in "abc":
        queue.put(text)
    assert [texts(queue.drain()) for _ in polls] == polls


def test_message_taken_back_is_not_delivered():
    received = []
    queue = InputQueue("follow_up", on_delivered=received.append)
    first, second = queue.put("a"), queue.put(user_text("b"))

    assert queue.take_back(first.id) == (first,)
    assert queue.peek() == (second,)
    assert queue.drain() == (second,)
    assert received == [second]
    assert (second.message.origin, queue.take_back()) == ("follow_up", ())


def test_queue_delivers_every_message_once_between_threads():
    queue, got = InputQueue("steering"), []

    def produce(start):
        for n in range(500):
            queue.put(str(start + n))

    def poll():
        while not done.is_set() or len(queue):
            got.extend(texts(queue.drain()))

    done = threading.Event()
    producers = [threading.Thread(target=produce, args=(k * 500,)) for k in range(2)]
    pollers = [threading.Thread(target=poll) for _ in range(2)]
    for thread in producers + pollers:
        thread.start()
    for thread in producers:
        thread.join()
    done.set()
    for thread in pollers:
        thread.join()

    assert sorted(got, key=int) == [str(n) for n in range(1000)]
