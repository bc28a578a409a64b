"""The lease of a process in the store, which protects its session's snapshots."""

import os
import tempfile

from dirge_py.lib import file_lock
from dirge_py.session.snapshots.store import acquire_lease, sessions_in_use


def test_lease_is_acquired_while_another_process_checks_its_lock(tmp_path, monkeypatch):
    looking = []
    try_lock, make_folder = file_lock.try_lock, tempfile.mkdtemp

    def stop_looking():
        while looking:
            os.close(looking.pop())

    def make_folder_that_is_looked_at(**options):
        folder = make_folder(**options)
        looking.append(os.open(os.path.join(folder, "lock"), os.O_RDWR | os.O_CREAT))
        assert try_lock(looking[0])
        return folder

    def try_once_more_later(descriptor):
        is_locked = try_lock(descriptor)
        stop_looking()
        return is_locked

    monkeypatch.setattr(tempfile, "mkdtemp", make_folder_that_is_looked_at)
    monkeypatch.setattr(file_lock, "try_lock", try_once_more_later)
    lease = acquire_lease(tmp_path, "mine")
    monkeypatch.undo()
    stop_looking()

    assert sessions_in_use(tmp_path) == {"mine"}
    lease.release()
    assert sessions_in_use(tmp_path) == set()
