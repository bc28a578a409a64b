import gc
from collections.abc import Iterator

import pytest

from dirge_py.lib.garbage_collector import begin_collecting, postpone_collecting


@pytest.fixture(autouse=True)
def _collecting() -> Iterator[None]:
    yield
    gc.enable()
    gc.unfreeze()


def test_garbage_is_not_collected_until_collection_starts() -> None:
    postpone_collecting()
    assert not gc.isenabled()

    begin_collecting()

    assert gc.isenabled()
    assert gc.get_freeze_count() > 0


def test_enabled_collection_of_the_host_program_is_unchanged() -> None:
    begin_collecting()

    assert gc.get_freeze_count() == 0
