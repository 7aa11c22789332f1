"""The Claude Agent SDK's own contracts for stores of sessions, on the database under test."""

import asyncio
from uuid import uuid4

import pytest
from claude_agent_sdk import SessionStore
from claude_agent_sdk.testing import run_session_store_conformance

from checkpoints import Checkpointer, SyncCheckpointer
from checkpoints.adapters.claude import HarnessSessionStore
from checkpoints.models import Workspace

OPTIONAL = ("list_sessions", "list_session_summaries", "delete", "list_subkeys")


@pytest.mark.parametrize("client", [Checkpointer, SyncCheckpointer])
def test_every_contract_holds(workspace: object, client: type) -> None:
    slugs = [uuid4().hex for _ in range(20)]
    Workspace.objects.bulk_create(Workspace(slug=slug, name=slug) for slug in slugs)

    for name in OPTIONAL:
        assert getattr(HarnessSessionStore, name) is not getattr(SessionStore, name)

    async def check() -> None:
        await run_session_store_conformance(lambda: HarnessSessionStore(client(workspace=slugs.pop())))

    asyncio.run(check())
