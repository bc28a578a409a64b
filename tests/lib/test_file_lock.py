import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dirge_py.lib.file_lock import FileLock, LockHeld, hold_lock, lock_holder, wait_for_lock

LONG_S = 30.0


def test_lock_timeout_names_the_holder(tmp_path: Path) -> None:
    lock = tmp_path / "lock"

    with (
        hold_lock(lock, 0.0),
        pytest.raises(OSError, match="another process holds it"),
        hold_lock(lock, 0.02),
    ):
        pytest.fail("Two held it at once.")


def test_waiting_process_gets_the_lock_when_it_is_released(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    order: list[str] = []

    def wait() -> None:
        with hold_lock(lock, LONG_S):
            order.append("second")

    with ThreadPoolExecutor() as threads:
        with hold_lock(lock, 0.0):
            second = threads.submit(wait)
            order.append("first")
        second.result(LONG_S)

    assert order == ["first", "second"]


def test_lock_is_released_if_the_block_raises(tmp_path: Path) -> None:
    lock = tmp_path / "lock"

    with pytest.raises(ZeroDivisionError), hold_lock(lock, 0.0):
        raise ZeroDivisionError

    with hold_lock(lock, 0.0):
        assert lock.stat().st_mode & 0o777 == 0o600


def test_lock_file_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    lock.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(OSError), hold_lock(lock, 0.0):
        pytest.fail("It was held.")

    assert os.listdir(tmp_path) == ["lock"]


def test_held_lock_names_its_holder_and_is_removed_on_release(tmp_path: Path) -> None:
    path = tmp_path / "s.lock"
    lock = FileLock.acquire(path)

    assert lock_holder(path) == os.getpid()
    with pytest.raises(LockHeld) as held:
        FileLock.acquire(path)
    assert held.value.pid == os.getpid()
    lock.release()
    lock.release()
    assert not path.exists()
    FileLock.acquire(path).release()


def test_wait_for_lock_waits_until_the_holder_releases_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with ThreadPoolExecutor() as threads, open(path, "w") as file:
        with hold_lock(path, 0.0):
            waiting = threads.submit(wait_for_lock, file.fileno(), LONG_S)
            with pytest.raises(OSError, match="another process holds it"):
                wait_for_lock(file.fileno(), 0.0)
        waiting.result(LONG_S)
        with pytest.raises(OSError, match="another process holds it"), hold_lock(path, 0.0):
            pytest.fail("It was held.")
