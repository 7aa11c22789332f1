"""One task per web process: reads what changed and hands it to the browsers of this process."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

from channels.db import database_sync_to_async
from channels.layers import BaseChannelLayer, get_channel_layer
from django.core.exceptions import ImproperlyConfigured

from checkpoints.clock import database_now
from checkpoints.integrity import seal_all
from harness_site.live.background import Background
from harness_site.live.changes import Change, Cursor
from harness_site.live.sweeper import Sweeper
from harness_site.notifications.deliverer import Deliverer
from harness_site.search.background import Indexer

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.5
#: Sent through an idle connection, so that both ends notice when the other one is gone.
HEARTBEAT_SECONDS = 10.0
#: How long an entry of the audit trail may wait for its place in the chain.
SEALING_SECONDS = 2.0
EVERYBODY = "live"

Send = Callable[[dict[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[dict[str, Any]]]


def group_of(workspace: int) -> str:
    """The channel-layer group of everybody who looks at a workspace."""
    return f"live.{workspace}"


def layer() -> BaseChannelLayer:
    found = get_channel_layer()
    if found is None:
        raise ImproperlyConfigured("The setting CHANNEL_LAYERS needs a default.")
    return found


class Feed(Background):
    """Starts and stops with the server. A database that is away for a while delays the news, it does not end it."""

    name = "live-feed"

    async def _run(self) -> None:
        cursor: Cursor | None = None
        next_heartbeat = next_sealing = 0.0
        clock = asyncio.get_running_loop().time
        while True:
            try:
                cursor = cursor or Cursor(await database_sync_to_async(database_now)("default"))
                await publish(await database_sync_to_async(cursor.read)())
                if clock() >= next_sealing:
                    next_sealing = clock() + SEALING_SECONDS
                    await database_sync_to_async(seal_all)()
                if clock() >= next_heartbeat:
                    next_heartbeat = clock() + HEARTBEAT_SECONDS
                    await layer().group_send(EVERYBODY, {"type": "live.heartbeat"})
            except Exception:
                logger.exception("The live feed could not read what changed; it tries again.")
            await asyncio.sleep(POLL_SECONDS)


async def publish(changes: list[Change]) -> None:
    """Tell the browsers of each workspace, in one message each."""
    by_workspace: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for change in changes:
        by_workspace[change.workspace].append((change.session, change.revision))
    sending = layer()
    for workspace, pairs in by_workspace.items():
        await sending.group_send(group_of(workspace), {"type": "live.changed", "changed": pairs})


async def lifespan(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """The ASGI lifespan protocol: feed, sweeper, indexer and deliverer run from startup to shutdown."""
    running = (Feed(), Sweeper(), Indexer(), Deliverer())
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            for each in running:
                await each.start()
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            for each in running:
                await each.stop()
            await send({"type": "lifespan.shutdown.complete"})
            return
