"""A database outage during write-behind: queued versions wait, and none is lost or reordered."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from checkpoints import SyncWriteBehind
from checkpoints.exceptions import NotDurable
from tests.integration.checkpoints.session_setups import conversation
from tests.integration.failures.conftest import OpenAt
from tests.support.cluster import Cluster


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_queued_versions_wait_for_the_server(open_at: OpenAt, server: Cluster, how: str) -> None:
    cp = open_at(f"{server.url}?connect_timeout=2")
    cp.start_session(how)
    writer = SyncWriteBehind(cp, flush_timeout=1)
    writer.save_checkpoint(how, conversation("a"), None, 0)
    writer.flush(timeout=60)
    server.stop() if how == "stopped" else server.kill()
    tickets = [writer.save_checkpoint(how, conversation("abcd"[:length]), None, 0) for length in (2, 3, 4)]
    with pytest.raises(NotDurable) as caught:
        writer.flush()
    assert [each["messages"] for each in caught.value.unsaved] == [2, 3, 4]
    assert [ticket.durable for ticket in tickets] == [False, False, False]
    server.start()
    writer.flush(timeout=60)
    writer.close()

    assert [ticket.version for ticket in tickets] == [2, 3, 4]
    assert (cp.load_latest(how) or {})["transcript"] == conversation("abcd")
    cp.close()
