"""LangGraph's own conformance suite, on the database under test."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from langgraph.checkpoint.conformance import checkpointer_test, validate

from checkpoints import Checkpointer, SyncCheckpointer
from checkpoints.adapters.langgraph import HarnessSaver

COUNTS = {
    "put": 17,
    "put_writes": 10,
    "get_tuple": 10,
    "list": 16,
    "delete_thread": 5,
    "delete_for_runs": 7,
    "copy_thread": 8,
    "prune": 8,
}


@pytest.mark.parametrize("client", [Checkpointer, SyncCheckpointer])
def test_every_clause_of_every_capability_passes(workspace: object, client: type) -> None:
    @checkpointer_test(name=f"HarnessSaver on {client.__name__}")
    async def make() -> AsyncIterator[HarnessSaver]:
        yield HarnessSaver(client())

    report = asyncio.run(validate(make))
    assert [failure for result in report.results.values() for failure in result.failures or []] == []
    assert {name: result.tests_passed for name, result in report.results.items() if result.detected} == COUNTS
