import gc
from collections.abc import Iterator

import pytest

from harness_site.garbage import SELDOM, look_seldom


@pytest.fixture
def as_it_was() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


@pytest.mark.usefixtures("as_it_was")
def test_what_was_loaded_is_not_looked_through_again_and_what_follows_is_found() -> None:
    look_seldom()
    assert gc.get_freeze_count() > 1_000
    assert gc.get_threshold()[0] == SELDOM
    ring: list[object] = []
    ring.append(ring)
    del ring
    assert gc.collect() > 0
