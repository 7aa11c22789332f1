"""Fixture that creates write-behind writers."""

from collections.abc import Iterator
from typing import Any

import pytest

from checkpoints import (
    SyncCheckpointer,
    SyncWriteBehind,
)
from tests.integration.checkpoints.session_setups import start_session
from tests.integration.checkpoints.write_behind.queue_helpers import MakeWriter


@pytest.fixture
def make_writer(cp: SyncCheckpointer) -> Iterator[MakeWriter]:
    """Create write-behind writers for `cp` with the started session `s`; close them at the end."""
    writers: list[SyncWriteBehind] = []

    def make(**options: Any) -> SyncWriteBehind:
        start_session(cp)
        writers.append(SyncWriteBehind(cp, **options))
        return writers[-1]

    yield make
    for writer in writers:
        writer.close()
