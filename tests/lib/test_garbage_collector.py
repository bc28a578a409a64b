import gc
from collections.abc import Iterator

import pytest

from dirge_py.lib.garbage_collector import begin_collecting, postpone_collecting


@pytest.fixture(autouse=True)
def _collecting() -> Iterator[None]:
    yield
    gc.enable()
    gc.unfreeze()


def test_nothing_is_collected_until_collecting_begins() -> None:
    postpone_collecting()
    assert not gc.isenabled()

    begin_collecting()

    assert gc.isenabled()
    assert gc.get_freeze_count() > 0


def test_a_program_that_collects_already_is_left_as_it_is() -> None:
    begin_collecting()

    assert gc.get_freeze_count() == 0
