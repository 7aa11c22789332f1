"""The Claude Agent SDK's own contracts for stores of sessions, on the database under test."""

import asyncio
from typing import Any
from uuid import uuid4

import pytest
from claude_agent_sdk import SessionStore
from claude_agent_sdk.testing import run_session_store_conformance
from django.db import connection

from checkpoints import Checkpointer, SyncCheckpointer
from checkpoints.adapters.claude import HarnessSessionStore
from checkpoints.db.connection import has_pool
from checkpoints.models import Workspace

OPTIONAL = ("list_sessions", "list_session_summaries", "delete", "list_subkeys")


@pytest.mark.parametrize("client", [Checkpointer, SyncCheckpointer])
def test_every_contract_holds(workspace: object, client: type[Checkpointer] | type[SyncCheckpointer]) -> None:
    slugs = [uuid4().hex for _ in range(20)]
    Workspace.objects.bulk_create(Workspace(slug=slug, name=slug) for slug in slugs)

    for name in OPTIONAL:
        assert getattr(HarnessSessionStore, name) is not getattr(SessionStore, name)

    clients: list[Checkpointer | SyncCheckpointer] = []

    def create_store() -> HarnessSessionStore:
        clients.append(client(workspace=slugs.pop()))
        return HarnessSessionStore(clients[-1])

    async def check() -> None:
        """Run the contracts; between two operations no client keeps a connection from the pool of the process."""
        await run_session_store_conformance(create_store)
        for opened in clients:
            if isinstance(opened, Checkpointer):
                connections: list[Any] = opened._connections
                held = [each for each in connections if each.connection is not None]
                assert not has_pool(connection) or not held
                await opened.close()

    asyncio.run(check())
