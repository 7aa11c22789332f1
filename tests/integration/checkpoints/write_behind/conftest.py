"""A writer for each test."""

from collections.abc import Iterator
from typing import Any

import pytest

from checkpoints import (
    SyncCheckpointer,
    SyncWriteBehind,
)
from tests.integration.checkpoints.situations import started
from tests.integration.checkpoints.write_behind.queue_helpers import Make


@pytest.fixture
def make(cp: SyncCheckpointer) -> Iterator[Make]:
    """Write behind on `cp`, whose session `s` has begun."""
    made: list[SyncWriteBehind] = []

    def make_(**options: Any) -> SyncWriteBehind:
        started(cp)
        made.append(SyncWriteBehind(cp, **options))
        return made[-1]

    yield make_
    for each in made:
        each.close()
